# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Rules that say which processes are ours to end, or never to be ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .processes import Process, ProcessTable


def unit_name(name: str) -> str:
    """The full name of a unit: a service unless a suffix says otherwise."""
    return name if name.endswith((".service", ".scope", ".slice")) else f"{name}.service"


@dataclass(frozen=True)
class Rule:
    """Members that are set have to hold together."""

    unit: str | None = None
    user: str | None = None
    venv: str | None = None
    pid: int | None = None
    start_time: int | None = None

    def matches(self, process: Process, table: ProcessTable, *, unreadable: bool) -> bool:
        """Whether the process is meant; `unreadable` is the answer for a member that cannot be read."""
        answers: list[bool | None] = []
        if self.unit is not None:
            told = "unit" not in process.unknown
            answers.append(process.unit == unit_name(self.unit) if told else None)
        if self.user is not None:
            answers.append(None if process.uid is None else self.user in (process.user, str(process.uid)))
        if self.pid is not None:
            answers.append(process.pid == self.pid)
        if self.start_time is not None:
            answers.append(process.start_time == self.start_time)
        if self.venv is not None and False not in answers:
            answers.append(table.maps_file_below(process.pid, self.venv))
        return all(unreadable if answer is None else answer for answer in answers)


def read_rule(members: Mapping[str, Any], option: str) -> Rule:
    """A rule from an option's dictionary. An allow rule has to name {unit}, {user and venv} or {pid and start_time}."""
    rule = Rule(**{name: value for name, value in members.items() if value is not None})
    named = {name for name, value in members.items() if value is not None}
    enough = "unit" in named or {"user", "venv"} <= named or {"pid", "start_time"} <= named
    if not named or (option == "allow" and not enough):
        raise ServingError(
            "a rule does not say enough to tell a process from somebody else's",
            where=f"option {option}, rule {{{', '.join(sorted(named))}}}",
            remedy="Name the unit, or the user and the venv, or the pid and the start_time that gpu_info reports",
        )
    return rule
