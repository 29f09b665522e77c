# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What has to be true before the first byte is written: space, inodes, the right to write."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import ServingError
from .paths import nearest_existing

MARGIN = 0.05
INODES_PER_FILE = 2  # the file and the note that spares huggingface_hub its transfer
INODES_BESIDE = 16  # folders, lock, manifest


def refuse_unwritable(dest: Path, folders: Iterable[Path] = ()) -> None:
    """Missing rights or a read-only file system, for dest and folders below it; each by its nearest existing parent."""
    for folder in sorted({nearest_existing(folder) for folder in (dest, *folders)}):
        _refuse_unwritable_folder(folder)


def _refuse_unwritable_folder(folder: Path) -> None:
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise ServingError("the file system is mounted read-only", where=str(folder), remedy="Choose another dest")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ServingError(
            "the folder cannot be written to",
            where=str(folder),
            why=f"user id {os.geteuid()} has no right to",
            remedy="Run the task with become, or choose another dest",
        )


def refuse_too_little_space(dest: Path, missing_bytes: int, files: int, min_free_bytes: int) -> None:
    """The bytes still to come, 5 % more, and what has to stay free must fit; so must the files' inodes."""
    folder = nearest_existing(dest)
    status = os.statvfs(folder)
    free = status.f_frsize * status.f_bavail
    needed = int(missing_bytes * (1 + MARGIN)) + min_free_bytes
    facts: dict[str, object] = {"needed_bytes": needed, "free_bytes": free}
    if missing_bytes and needed > free:
        raise ServingError(
            "there is too little space for the download",
            where=str(folder),
            why=f"{missing_bytes} bytes are missing; with 5 % margin and {min_free_bytes} bytes to stay free, "
            f"{needed} bytes are needed and {free} are free",
            remedy="Remove what is no longer needed there, or choose another dest",
            facts=facts,
        )
    inodes = INODES_PER_FILE * files + INODES_BESIDE
    if files and status.f_files and inodes > status.f_favail:
        raise ServingError(
            "there are too few inodes for the download",
            where=str(folder),
            why=f"{files} files are missing, which take {inodes} inodes, and {status.f_favail} are free",
            remedy="Remove files that are no longer needed there, or choose another dest",
            facts=facts,
        )
