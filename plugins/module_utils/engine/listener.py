# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which process listens on a TCP port of this host, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from . import process

_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """pid and unit are None when the owner of the socket may not be seen (not root, or another PID namespace)."""

    port: int
    pid: int | None
    unit: str | None


def find(port: int, *, prefer_unit: str | None = None, proc: Path = process.PROC) -> Listener | None:
    """The listener of the port, or None when nothing listens.

    A socket may be held by several processes (children inherit it): one of `prefer_unit` is named first. When two
    sockets share the port, one outside `prefer_unit` is named, because it gets a part of the requests.
    """
    sockets = _listening_sockets(port, proc)
    if not sockets:
        return None
    owners: list[Listener] = []
    for holders in _holders(sockets, proc).values():
        named = [Listener(port, pid, process.unit_of(pid, proc=proc)) for pid in sorted(holders)]
        owners.append(next((owner for owner in named if prefer_unit and owner.unit == prefer_unit), named[0]))
    stranger = next((owner for owner in owners if prefer_unit and owner.unit != prefer_unit), None)
    return stranger or (owners[0] if owners else Listener(port, None, None))


def _listening_sockets(port: int, proc: Path) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            columns = row.split()
            if len(columns) > 9 and columns[3] == _LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                found.add(columns[9])
    return found


def _holders(sockets: set[str], proc: Path) -> dict[str, set[int]]:
    wanted = {f"socket:[{inode}]": inode for inode in sockets}
    holders: dict[str, set[int]] = {}
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            descriptors = list((folder / "fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                target = os.readlink(descriptor)
            except OSError:
                continue
            if target in wanted:
                holders.setdefault(wanted[target], set()).add(int(folder.name))
    return holders
