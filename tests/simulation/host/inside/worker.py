# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker of the old service: maps its venv's kernels, as an engine does, and lives until it is told to end.

The simulated cards see it by its title. Rank 0 also holds a shared-memory segment that stays behind after it.
"""

from __future__ import annotations

import mmap
import os
import secrets
import signal
import sys


def mapped(path: str, size: int = 0) -> mmap.mmap:
    """Map a file; make it first where `size` is given."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL if size else os.O_RDONLY
    descriptor = os.open(path, flags, 0o600)
    if size:
        os.ftruncate(descriptor, size)
    view = mmap.mmap(descriptor, size, prot=mmap.PROT_READ | (mmap.PROT_WRITE if size else 0))
    os.close(descriptor)
    return view


def main() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    rank, kernels = int(sys.argv[1]), sys.argv[2]
    held = [mapped(kernels)]
    if rank == 0:
        held.append(mapped(f"/dev/shm/psm_{secrets.token_hex(4)}", 1 << 20))
        held[-1][:4] = b"live"
    while held:
        signal.pause()


if __name__ == "__main__":
    main()
