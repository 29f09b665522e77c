# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Removing a folder that nobody uses any more, and nothing else."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass

from ..errors import ServingError

# Folders of the system: neither they nor what lies directly below the root is ever one model's weights.
MINIMUM_DEPTH = 3


@dataclass(frozen=True)
class Content:
    """What a folder holds: `bytes` come back when it goes, `shared_bytes` have another name elsewhere and stay."""

    files: int
    bytes: int
    shared_bytes: int


def measure(path: str) -> Content:
    """Allocated bytes below the path; a file whose other hard links lie outside does not give its bytes back."""
    seen: dict[tuple[int, int], list[int]] = {}
    files = 0
    for folder, _folders, names in os.walk(path):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            files += 1
            entry = seen.setdefault((status.st_dev, status.st_ino), [0, status.st_nlink, status.st_blocks * 512])
            entry[0] += 1
    inside = sum(size for names_here, links, size in seen.values() if names_here >= links)
    return Content(files=files, bytes=inside, shared_bytes=sum(entry[2] for entry in seen.values()) - inside)


def _is_below(path: str, parent: str) -> bool:
    return os.path.commonpath([path, parent]) == parent


def check_path(path: str, protected: list[str]) -> None:
    """Refuse what cannot be one model's own folder; raises ServingError."""
    remedy = "Name the folder of one model's weights, by its absolute path"
    if not os.path.isabs(path) or os.path.normpath(path) != path.rstrip("/"):
        raise ServingError("the path to remove is not absolute and plain", where=path, remedy=remedy)
    if len([part for part in path.split("/") if part]) < MINIMUM_DEPTH:
        raise ServingError("the path to remove is too close to the root", where=path, remedy=remedy)
    if not os.path.lexists(path):
        return
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise ServingError("the path to remove is no folder", where=path, remedy=remedy)
    if os.path.realpath(path) != path.rstrip("/"):
        raise ServingError("the path to remove leads through a symbolic link", where=path, remedy=remedy)
    for folder, folders, _names in os.walk(path):
        for name in [folder] if folder == path else [os.path.join(folder, child) for child in folders]:
            if os.path.ismount(name):
                raise ServingError("a file system is mounted there", where=name, remedy="Unmount it, or keep the path")
    for other in protected:
        real = os.path.realpath(other)
        if _is_below(real, path) or _is_below(path, real):
            raise ServingError(
                "the path to remove and a path in use contain one another",
                where=path,
                why=f"{other} is in use",
                remedy=remedy,
            )


def holders_of(path: str, *, proc: str = "/proc") -> list[dict[str, object]]:
    """Live processes with a file below the path open, mapped, or as working folder: [{pid, command, file}].

    Processes that cannot be read are left out, so ask as root.
    """
    holders = []
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        for used in _files_of(f"{proc}/{entry}"):
            if _is_below(used, path):
                holders.append({"pid": int(entry), "command": _command_of(f"{proc}/{entry}"), "file": used})
                break
    return holders


def _files_of(process: str) -> list[str]:
    links = [f"{process}/cwd", f"{process}/root", f"{process}/exe"]
    found = []
    try:
        links += [f"{process}/fd/{name}" for name in os.listdir(f"{process}/fd")]
        with open(f"{process}/maps", encoding="utf-8", errors="surrogateescape") as stream:
            found = [parts[5].rstrip("\n") for line in stream if len(parts := line.split(maxsplit=5)) == 6]
    except OSError:
        pass
    for link in links:
        try:
            found.append(os.readlink(link))
        except OSError:
            continue
    return [name for name in found if name.startswith("/")]


def _command_of(process: str) -> str:
    try:
        with open(f"{process}/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def remove(path: str) -> None:
    """Remove the folder. It is renamed first, so that a killed run leaves no half of a model under its own name."""
    doomed = f"{path.rstrip('/')}.removing"
    if os.path.lexists(path):
        if os.path.lexists(doomed):
            shutil.rmtree(doomed)
        os.rename(path, doomed)
    if os.path.lexists(doomed):
        shutil.rmtree(doomed)
