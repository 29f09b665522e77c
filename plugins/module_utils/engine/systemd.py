# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What systemd says about a unit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from ..errors import ServingError
from .commands import TIMEOUT_S, Runner

PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "InvocationID",
    "NRestarts",
    "MainPID",
    "NeedDaemonReload",
    "ExecMainCode",
    "ExecMainStatus",
    "ExecMainStartTimestamp",
    "FragmentPath",
    "UnitFileState",
)
_ALIVE = ("active", "activating", "reloading", "refreshing")
_SUFFIXES = (".service", ".socket", ".scope", ".slice", ".timer", ".target", ".mount", ".path", ".device", ".swap")


@dataclass(frozen=True)
class Unit:
    """One reading of `systemctl show`; the names are systemd's, in snake case."""

    name: str
    load_state: str
    active_state: str
    sub_state: str
    result: str
    invocation_id: str
    restarts: int
    main_pid: int
    need_daemon_reload: bool
    exec_main_code: int
    exec_main_status: int
    started_at: float | None
    fragment_path: str
    unit_file_state: str

    @property
    def exists(self) -> bool:
        """A unit file was found, or systemd still holds the unit in memory."""
        return self.load_state not in ("not-found", "") or self.active_state == "active"

    @property
    def alive(self) -> bool:
        """Running or being started; waiting for an automatic restart is not alive."""
        return self.active_state in _ALIVE and not self.sub_state.startswith("auto-restart")

    @property
    def baseline(self) -> tuple[str, int]:
        """What changes when the process behind the unit dies and comes back."""
        return self.invocation_id, self.restarts


def full_name(unit: str) -> str:
    """`kimi` -> `kimi.service`, as systemctl does."""
    return unit if unit.endswith(_SUFFIXES) else f"{unit}.service"


def show(unit: str, run: Runner) -> Unit:
    """Read the unit; one that does not exist is an answer, not an error.

    Raises ServingError when systemd itself does not answer.
    """
    name = full_name(unit)
    code, out, err = run(
        ["systemctl", "show", "--no-pager", "--timestamp=us+utc", f"--property={','.join(PROPERTIES)}", "--", name]
    )
    values = dict(line.partition("=")[::2] for line in out.splitlines() if "=" in line)
    if code != 0 or "ActiveState" not in values:
        why = "it did not answer within {TIMEOUT_S} s" if code == 124 else err.strip() or f"systemctl ended with {code}"
        raise ServingError(
            "systemd cannot be asked about the unit",
            where=name,
            why=why.format(TIMEOUT_S=TIMEOUT_S),
            remedy="The host must run systemd as its service manager",
        )
    return Unit(
        name=values.get("Id") or name,
        load_state=values.get("LoadState", ""),
        active_state=values["ActiveState"],
        sub_state=values.get("SubState", ""),
        result=values.get("Result", ""),
        invocation_id=values.get("InvocationID", ""),
        restarts=_number(values.get("NRestarts")),
        main_pid=_number(values.get("MainPID")),
        need_daemon_reload=values.get("NeedDaemonReload") == "yes",
        exec_main_code=_number(values.get("ExecMainCode")),
        exec_main_status=_number(values.get("ExecMainStatus")),
        started_at=_seconds(values.get("ExecMainStartTimestamp")),
        fragment_path=values.get("FragmentPath", ""),
        unit_file_state=values.get("UnitFileState", ""),
    )


def _number(value: str | None) -> int:
    return int(value) if value and value.isdigit() else 0


def _seconds(timestamp: str | None) -> float | None:
    """`Sun 2026-11-29 17:17:10.123456 UTC` as seconds since 1970; None when it was never started."""
    words = (timestamp or "").split()
    if len(words) != 4:
        return None
    try:
        moment = datetime.strptime(" ".join(words[1:3]), "%Y-%m-%d %H:%M:%S.%f")
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone.utc).timestamp()
