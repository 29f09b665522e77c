# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Folders and modes that the service's user can read whatever the umask of the run is."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

FILE_MODE = 0o644
FOLDER_MODE = 0o755


def make_folders(folder: Path) -> None:
    """The folder and its missing parents; those that exist stay as they are."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            os.chmod(path, FOLDER_MODE)


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it; it may be gone already."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_empty_folders(dest: Path, folder: Path) -> None:
    """The folder and its parents below dest, as long as they are empty."""
    with contextlib.suppress(OSError):
        while folder != dest and dest in folder.parents:
            folder.rmdir()
            folder = folder.parent
