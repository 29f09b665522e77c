# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clone's state folder `.demo/`: everything that a demo host needs outside its container."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLONE = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class State:
    """Paths below one state folder; `.demo/` of the clone unless a test names another."""

    root: Path = CLONE / ".demo"

    @property
    def podman(self) -> Path:
        """podman's own storage, so that the machine's containers and images are never touched."""
        return self.root / "podman"

    @property
    def key(self) -> Path:
        return self.root / "ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.root / "ssh" / "known_hosts"

    def host(self, name: str) -> Path:
        """What belongs to one host: its ssh host key and, once it has come up, `ready.json`."""
        return self.root / "hosts" / name

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """One holder at a time for what several `up` share; the lock ends with the process."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.root / f"{name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def write(path: Path, content: str, mode: int = 0o600) -> None:
    """Replace a file in one step, so that a killed run leaves the old one or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none or a half one."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
