# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What huggingface_hub keeps in a destination: notes that spare it a transfer, and partial files that it abandons."""

from __future__ import annotations

import time
from pathlib import Path

from .folders import make_folders
from .identity import RemoteFile
from .lock import is_open_for_writing
from .paths import STATE


def write_metadata(dest: Path, commit: str, file: RemoteFile) -> None:
    """Tell the client that this file is there: commit, ETag and the time until which the file counts as unchanged."""
    path = _metadata_path(dest, file.path)
    make_folders(path.parent)
    path.write_text(f"{commit}\n{file.content_id}\n{time.time()}\n")


def metadata_is_right(dest: Path, commit: str, file: RemoteFile) -> bool:
    """Whether the client would take the file as it is, by the client's own rule (one second of tolerance)."""
    try:
        lines = _metadata_path(dest, file.path).read_text().splitlines()
        noted = float(lines[2])
        return lines[:2] == [commit, file.content_id] and (dest / file.path).stat().st_mtime <= noted + 1
    except (OSError, ValueError, IndexError):
        return False


def orphans(dest: Path) -> list[tuple[Path, int]]:
    """(path, bytes) of the client's partial files that no process writes; the client would never continue them."""
    found = []
    for path in sorted((dest / STATE / "download").rglob("*.incomplete")):
        if path.is_file() and not path.is_symlink() and is_open_for_writing(path) is False:
            found.append((path, path.stat().st_blocks * 512))
    return found


def _metadata_path(dest: Path, path: str) -> Path:
    return dest / STATE / "download" / f"{path}.metadata"
