# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What quant_config_patch did to files of the destination, read from the record that it keeps.

`<dest>/.cache/huggingface/blackwell.serving/patches.json` is {file: {pristine_sha256, patched_sha256, edits}}, and
`pristine/<sha256>` beside it holds the bytes as they were published.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from .identity import SHA256, RemoteFile, hash_file, hasher_for
from .paths import OWN_STATE


@dataclass(frozen=True)
class Patch:
    pristine_sha256: str
    patched_sha256: str


def read_patches(dest: Path) -> dict[str, Patch]:
    """By path. A record that cannot be read means no patch: the published file is right then."""
    try:
        document = json.loads((dest / OWN_STATE / "patches.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    patches = {}
    for path, entry in document.items() if isinstance(document, dict) else ():
        if isinstance(entry, dict):
            pristine, patched = str(entry.get("pristine_sha256")), str(entry.get("patched_sha256"))
            if SHA256.fullmatch(pristine) and SHA256.fullmatch(patched):
                patches[path] = Patch(pristine, patched)
    return patches


def is_patched(dest: Path, file: RemoteFile, patch: Patch) -> bool | None:
    """Whether the file on disk is the recorded edit of exactly the bytes that this commit publishes.

    None: it is the recorded edit, but of other bytes, so the repository has moved on.
    """
    if not is_recorded_edit(dest / file.path, patch):
        return False
    return True if _is_pristine(dest, file, patch) else None


def is_recorded_edit(path: Path, patch: Patch) -> bool:
    """Whether the file is as the patch left it, and so of nobody else."""
    try:
        on_disk = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return False
    return on_disk == patch.patched_sha256 != patch.pristine_sha256


def _is_pristine(dest: Path, file: RemoteFile, patch: Patch) -> bool:
    """The record holds a sha256 and the Hub publishes a blob id of small files; the pristine copy has both."""
    if file.sha256:
        return file.sha256 == patch.pristine_sha256
    try:
        copy = hash_file(dest / OWN_STATE / "pristine" / patch.pristine_sha256, hasher_for(file))
    except OSError:
        return False
    return copy.sha256 == patch.pristine_sha256 and copy.is_content_of(file)
