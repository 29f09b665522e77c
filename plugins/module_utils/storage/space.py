# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How much a file system can still take, also below a folder that does not exist yet."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Space:
    """One path's file system; sizes in bytes."""

    path: str
    existing_parent: str
    exists: bool
    total_bytes: int
    free_bytes: int
    free_inodes: int
    read_only: bool

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def nearest_existing(path: str) -> str:
    """The path itself, or its nearest parent that exists: where the bytes would really go."""
    current = os.path.realpath(path)
    while not os.path.lexists(current):
        current = os.path.dirname(current)
    return current


def space_of(path: str) -> Space:
    """statvfs of the path's file system; free is what a user without privileges may still use."""
    parent = nearest_existing(path)
    status = os.statvfs(parent)
    return Space(
        path=path,
        existing_parent=parent,
        exists=os.path.lexists(path),
        total_bytes=status.f_frsize * status.f_blocks,
        free_bytes=status.f_frsize * status.f_bavail,
        free_inodes=status.f_favail,
        read_only=bool(status.f_flag & os.ST_RDONLY),
    )
