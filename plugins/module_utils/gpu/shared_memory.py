# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What ended services leave in /dev/shm: found, and removed only where nobody can miss it."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ..errors import ServingError
from .processes import ProcessTable, user_name

# Python's SharedMemory (vLLM's broadcast), its semaphores and joblib's, NCCL's, and vLLM's CPU offload
KNOWN = re.compile(r"psm_[0-9a-f]+|sem\.mp-\w+|sem\.loky-[\w-]+|nccl-\w+|vllm_offload_[\w.-]+", re.ASCII)

Segment = dict[str, Any]


def uids_of(users: Sequence[str]) -> set[int]:
    """The numbers of the users; a name that this host does not know owns nothing, so it is left out."""
    found = set()
    for user in users:
        if user.isdecimal():
            found.add(int(user))
            continue
        with contextlib.suppress(KeyError):
            found.add(pwd.getpwnam(user).pw_uid)
    return found


def users_of_files(table: ProcessTable, device: int) -> tuple[dict[int, set[int]], set[int]]:
    """inode -> the pids that have it open or mapped, for files of one file system; and the pids that cannot be read."""
    found: dict[int, set[int]] = {}
    unreadable: set[int] = set()
    mapped = f"{os.major(device):02x}:{os.minor(device):02x}"
    for pid in list(table.pids()):
        folder = table.proc / str(pid)
        try:
            for entry in os.listdir(folder / "fd"):
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(folder / "fd" / entry)
                    if status.st_dev == device:
                        found.setdefault(status.st_ino, set()).add(pid)
            for line in (folder / "maps").read_text(errors="replace").splitlines():
                fields = line.split(maxsplit=5)
                if len(fields) > 4 and fields[3] == mapped:
                    found.setdefault(int(fields[4]), set()).add(pid)
        except PermissionError:
            unreadable.add(pid)
        except OSError:
            continue  # it ended meanwhile: it holds nothing
    return found, unreadable


def sweep(
    shm: Path, table: ProcessTable, users: Sequence[str], *, ended: Collection[int] = (), remove: bool
) -> tuple[list[Segment], list[Segment]]:
    """(removed, left) of the folder: [{name, bytes, user}], left with reason and pids.

    Removed is a file of a known name that belongs to one of the users and that no live process has open or mapped;
    with remove=False it is only listed, and the pids in `ended` count as gone. Reasons of the others: unknown_pattern,
    other_owner, in_use, cannot_prove_unused (the pids are closed to us: without root, those of other users are).
    """
    try:
        folder = os.open(shm, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return [], []
    removed: list[Segment] = []
    left: list[Segment] = []
    try:
        owners = uids_of(users)
        holders, unreadable = users_of_files(table, os.fstat(folder).st_dev)
        for name in sorted(os.listdir(folder)):
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            segment: Segment = {"name": name, "bytes": status.st_size, "user": user_name(status.st_uid)}
            pids = sorted(holders.get(status.st_ino, set()) - set(ended))
            if not KNOWN.fullmatch(name) or not stat.S_ISREG(status.st_mode):
                left.append({**segment, "reason": "unknown_pattern", "pids": pids})
            elif status.st_uid not in owners:
                left.append({**segment, "reason": "other_owner", "pids": pids})
            elif pids:
                left.append({**segment, "reason": "in_use", "pids": pids})
            elif closed := sorted(unreadable - set(ended)):
                left.append({**segment, "reason": "cannot_prove_unused", "pids": closed})
            else:
                if remove:
                    _remove(folder, shm / name, status.st_ino)
                removed.append(segment)
    finally:
        os.close(folder)
    return removed, left


def _remove(folder: int, path: Path, inode: int) -> None:
    """Unlink the file that was judged: a name that means another file by now is left alone."""
    try:
        if os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_ino == inode:
            os.unlink(path.name, dir_fd=folder)
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise ServingError(
            "a shared memory segment cannot be removed",
            where=str(path),
            why=str(error),
            remedy="Run with become: the folder is sticky, only the owner or root may remove a file there",
        ) from error
