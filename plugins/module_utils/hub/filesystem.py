# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Whether a folder is on a file system of this host alone, whose locks the kernel itself keeps."""

from __future__ import annotations

import os
import re
from pathlib import Path

LOCAL = {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
MOUNTS = Path("/proc/self/mountinfo")
OCTAL = re.compile(r"\\([0-7]{3})")


def type_of(path: Path) -> str | None:
    """The type of the mount that holds the path, as `nfs4` or `lustre`; None when the kernel does not say."""
    try:
        lines = MOUNTS.read_text().splitlines()
    except OSError:
        return None
    real = os.path.realpath(path)
    best, found = "", None
    for line in lines:
        mount, _dash, rest = line.partition(" - ")
        point = OCTAL.sub(lambda match: chr(int(match[1], 8)), mount.split()[4])
        # Of two mounts on one point the later one is seen.
        if len(point) >= len(best) and (real == point or real.startswith(point.rstrip("/") + "/")):
            best, found = point, rest.split()[0]
    return found


def is_shared(path: Path) -> bool:
    """On NFS, Lustre, GPFS and the like a lock may be granted to everybody; what is not known counts as such."""
    return type_of(path) not in LOCAL
