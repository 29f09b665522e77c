# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A running process as /proc shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """start_time: clock ticks since boot (field 22 of /proc/PID/stat), which with the pid names a process for ever.

    environment is None when it may not be read, and empty when the process has overwritten it.
    """

    pid: int
    start_time: int | None = None
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] | None = None
    unit: str | None = None


def read(pid: int, *, proc: Path = PROC) -> Process | None:
    """The process, or None when it is gone."""
    folder = proc / str(pid)
    try:
        start_time = _start_time((folder / "stat").read_text(errors="replace"))
        command = _strings((folder / "cmdline").read_bytes())
        unit = unit_of(pid, proc=proc)
    except (FileNotFoundError, ProcessLookupError):
        return None
    environment: dict[str, str] | None = None
    try:
        pairs = (item.partition("=") for item in _strings((folder / "environ").read_bytes()))
        environment = {name: value for name, equals, value in pairs if equals}
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        pass
    return Process(pid, start_time, command, environment, unit)


def unit_of(pid: int, *, proc: Path = PROC) -> str | None:
    """The systemd unit in whose control group the process runs: the innermost .service, else the innermost .scope."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # systemd's own hierarchy is 0:: (unified) or name=systemd (legacy, hybrid)
    for line in lines:
        _number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers in ("", "name=systemd"):
            for suffix in (".service", ".scope"):
                for part in reversed(path.split("/")):
                    if part.endswith(suffix):
                        return part
    return None


def _strings(data: bytes) -> list[str]:
    text = data.decode(errors="replace")
    return text.rstrip("\0").split("\0") if text.strip("\0") else []


def _start_time(stat: str) -> int | None:
    # the command in parentheses may hold spaces and parentheses itself
    fields = stat.rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else None
