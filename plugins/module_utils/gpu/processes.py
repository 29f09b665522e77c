# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The processes of a host as /proc tells them; the root of /proc is a parameter."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .cgroups import container_of, manager_root, unit_of

SECRET = re.compile(r"-{0,2}(?:[\w-]*[-_])?(?:key|token|secret|password)", re.IGNORECASE)
HUB_TOKEN = re.compile(r"hf_[A-Za-z0-9]{16,}")
HIDDEN = "********"


@dataclass(frozen=True)
class Process:
    """One process. What cannot be read is None and has its reason in `unknown`, by field name.

    start_time: clock ticks since boot; with pid it names one process for as long as the host is up
    state:      the letter of /proc/PID/stat (R, S, D, Z, ...)
    title:      argv[0], which a process may overwrite (setproctitle), or the kernel's 15-byte name
    command:    the whole command line, secrets hidden
    """

    pid: int
    start_time: int
    state: str
    parent: int
    title: str
    command: str | None
    executable: str | None
    uid: int | None
    user: str | None
    unit: str | None
    container: str | None
    unknown: dict[str, str] = field(default_factory=dict)


def without_secrets(command: str) -> str:
    """The command line for a person to read: no API key, no token.

    Words, not arguments: a title that a process gave itself is one argument with the whole command line in it. An
    option that names a secret hides every word up to the next option (vLLM's --api-key takes several).
    """
    shown = []
    hide = False
    for word in command.split():
        name, equals, _value = word.partition("=")
        if word.startswith("-") or equals:
            secret = bool(SECRET.fullmatch(name))
            hide = secret and not equals
            shown.append(f"{name}={HIDDEN}" if secret and equals else word)
        else:
            shown.append(HIDDEN if hide else word)
    return HUB_TOKEN.sub(HIDDEN, " ".join(shown))


def user_name(uid: int) -> str:
    """The name of a user, or the number where the host has no such name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _has_ended(fields: list[str]) -> bool:
    """A zombie has ended and holds nothing, unless other threads of it go on: one may hang in the GPU driver."""
    return fields[0] == "X" or (fields[0] == "Z" and int(fields[17]) < 2)


class ProcessTable:
    """Reads /proc (or a tree of the same form); never keeps what it has read."""

    def __init__(self, proc: str | os.PathLike[str] = "/proc") -> None:
        self.proc = Path(proc)
        self._root = manager_root(self._text(1, "cgroup")[0] or "")

    def _text(self, pid: int | str, name: str) -> tuple[str | None, str]:
        """Content and ""; or None and the reason: permission, gone."""
        try:
            return (self.proc / str(pid) / name).read_bytes().decode(errors="replace"), ""
        except PermissionError:
            return None, "permission"
        except OSError:
            return None, "gone"

    def pids(self) -> Iterator[int]:
        for name in os.listdir(self.proc):
            if name.isdecimal():
                yield int(name)

    def _stat(self, pid: int | str) -> list[str] | None:
        """The fields of /proc/PID/stat from `state` on; the name before them may hold spaces and parentheses."""
        text, _reason = self._text(pid, "stat")
        fields = text.rpartition(")")[2].split() if text else []
        return fields if len(fields) > 19 else None

    def start_time(self, pid: int) -> int | None:
        """Clock ticks since boot; None when the process has ended."""
        fields = self._stat(pid)
        return None if fields is None or _has_ended(fields) else int(fields[19])

    def read(self, pid: int) -> Process | None:
        """All that is known of the process; None when it has ended."""
        fields = self._stat(pid)
        if fields is None or _has_ended(fields):
            return None
        unknown: dict[str, str] = {}
        command, reason = self._text(pid, "cmdline")
        arguments = (command or "").rstrip("\0").split("\0")
        if command is None:
            unknown["command"] = reason
        comm, _reason = self._text(pid, "comm")
        status, reason = self._text(pid, "status")
        found = re.search(r"^Uid:\s+(\d+)", status or "", re.MULTILINE)
        if found is None:
            unknown["user"] = reason or "not_told"
        uid = int(found[1]) if found else None
        cgroup, reason = self._text(pid, "cgroup")
        if cgroup is None:
            unknown["unit"] = unknown["container"] = reason
        executable = self._executable(pid, unknown)
        return Process(
            pid=pid,
            start_time=int(fields[19]),
            state=fields[0],
            parent=int(fields[1]),
            title=arguments[0] or (comm or "").strip(),
            command=without_secrets(" ".join(arguments)) if command is not None else None,
            executable=executable,
            uid=uid,
            user=None if uid is None else user_name(uid),
            unit=unit_of(cgroup, self._root) if cgroup is not None else None,
            container=container_of(cgroup, self._root) if cgroup is not None else None,
            unknown=unknown,
        )

    def _executable(self, pid: int, unknown: dict[str, str]) -> str | None:
        try:
            return os.readlink(self.proc / str(pid) / "exe").removesuffix(" (deleted)")
        except PermissionError:
            unknown["executable"] = "permission"
        except OSError:
            unknown["executable"] = "kernel_thread_or_gone"
        return None

    def all(self) -> list[Process]:
        return [process for pid in sorted(self.pids()) if (process := self.read(pid)) is not None]

    def ancestors(self, pid: int) -> set[int]:
        """The process itself, its parents up to pid 1, and pid 1."""
        line = {1}
        while pid > 0 and pid not in line:
            line.add(pid)
            fields = self._stat(pid)
            pid = int(fields[1]) if fields else 0
        return line

    def maps_file_below(self, pid: int, folder: str) -> bool | None:
        """Whether the process has a file below the folder mapped; None when its maps cannot be read.

        The sign of a virtual environment in use: its python is a link, so /proc/PID/exe shows the base interpreter, but
        the extension modules it loads lie in the environment.
        """
        maps, _reason = self._text(pid, "maps")
        if maps is None:
            return None
        prefix = os.path.realpath(folder).rstrip("/") + "/"
        paths = (line.partition("/")[2] for line in maps.splitlines())
        return any(f"/{path}".startswith(prefix) for path in paths)

    def stuck_in(self, pid: int) -> tuple[str | None, str | None]:
        """State and kernel function (uvm_spin_loop: in the driver) of the process, or of its thread that hangs in D."""
        found: tuple[str | None, str | None] = (None, None)
        folder = self.proc / str(pid) / "task"
        tasks = [f"{pid}/task/{name}" for name in sorted(os.listdir(folder))] if folder.is_dir() else []
        for task in [str(pid), *tasks]:
            fields = self._stat(task)
            if fields is None:
                continue
            text, _reason = self._text(task, "wchan")
            function = text.strip() if text and text.strip() not in ("", "0") else None
            if fields[0] == "D":
                return "D", function
            if found == (None, None):
                found = fields[0], function
        return found
