# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is, file by file: run there as root, it prints JSON.

{path: [type, mode, uid, gid, mtime_ns, sha256 or target]}

Two equal manifests prove that nothing was changed, whatever was reported. Standard library only, one file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# systemd's own notes of the clock and of timers, which change by themselves.
VOLATILE = ("/var/lib/systemd/timers", "/var/lib/systemd/timesync", "/var/lib/systemd/random-seed")


def content(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def entry(path: str) -> list[Any]:
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    inside = content(path) if kind == stat.S_IFREG else os.readlink(path) if kind == stat.S_IFLNK else ""
    return [kind, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns, inside]


def paths(roots: list[str]) -> list[str]:
    found = []
    for root in roots:
        for folder, folders, names in os.walk(root):
            found += [os.path.join(folder, name) for name in [*folders, *names]]
    return sorted(path for path in found if not path.startswith(VOLATILE))


def main() -> None:
    names = paths(sys.argv[1:])
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        json.dump(dict(zip(names, pool.map(entry, names), strict=True)), sys.stdout)


if __name__ == "__main__":
    main()
