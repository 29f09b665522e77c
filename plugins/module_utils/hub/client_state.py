# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What huggingface_hub keeps in a destination: notes that spare it a transfer, and partial files that it abandons."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from .filesystem import is_shared
from .folders import FILE_MODE, make_folders
from .identity import RemoteFile
from .paths import NAME_MAX_BYTES, STATE
from .processes import flock_holder, is_open

LOCK_AGE_S = 60.0
REMOTE_AGE_S = 3600.0


def write_metadata(dest: Path, commit: str, file: RemoteFile) -> None:
    """Tell the client that this file is there: commit, ETag and the time until which the file counts as unchanged."""
    path = _metadata_path(dest, file.path)
    if len(path.name.encode()) > NAME_MAX_BYTES:
        return  # the client cannot keep a note of this file either
    make_folders(path.parent)
    # By a clock that runs behind, the file may be of tomorrow.
    until = max(time.time(), (dest / file.path).stat().st_mtime)
    # Beside it and renamed, so that a symbolic link in its place is replaced; not worth an fsync.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".metadata.tmp")
    with os.fdopen(descriptor, "w") as stream:
        stream.write(f"{commit}\n{file.content_id}\n{until}\n")
    os.chmod(temporary, FILE_MODE)
    os.replace(temporary, path)


def metadata_is_right(dest: Path, commit: str, file: RemoteFile) -> bool:
    """Whether the client would take the file as it is, by the client's own rule (one second of tolerance)."""
    try:
        lines = _metadata_path(dest, file.path).read_text().splitlines()
        noted = float(lines[2])
        return lines[:2] == [commit, file.content_id] and (dest / file.path).stat().st_mtime <= noted + 1
    except (OSError, ValueError, IndexError):
        return False


def orphans(dest: Path) -> list[tuple[Path, int]]:
    """(path, bytes) of what the client left behind and no process has open: partial files, which it would never
    continue, and lock files, for which it waits for ever where a file system has no locks."""
    found = []
    for path in sorted((dest / STATE / "download").rglob("*")):
        if path.suffix not in (".incomplete", ".lock") or path.is_symlink() or not path.is_file():
            continue
        status = path.stat()
        age = time.time() - status.st_mtime
        if path.suffix == ".lock":
            # A client opens the lock and takes it a moment later.
            left = age > LOCK_AGE_S and flock_holder(path) is None and is_open(path) is False
        else:
            # A writer on another host is not seen by this one, but it writes all the time.
            left = is_open(path) is False and (age > REMOTE_AGE_S or not is_shared(dest))
        if left:
            found.append((path, status.st_blocks * 512))
    return found


def _metadata_path(dest: Path, path: str) -> Path:
    return dest / STATE / "download" / f"{path}.metadata"
