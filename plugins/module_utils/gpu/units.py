# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What systemd would do with a service's processes: whether it holds them up, and which a stop would end."""

from __future__ import annotations

from dataclasses import dataclass

from .nvidia_smi import Runner

SYSTEMCTL_TIMEOUT_S = 20
ACTIVE = ("active", "activating", "reloading", "refreshing")


@dataclass(frozen=True)
class UnitState:
    """active: systemd keeps it up, and would start again what is ended; main_pid is 0 when it has none."""

    active: bool = False
    kill_mode: str = "control-group"
    main_pid: int = 0

    def stop_ends(self, pid: int) -> bool:
        """Whether stopping the unit ends the process (KillMode=process leaves all but the main one)."""
        return self.kill_mode in ("control-group", "mixed") or (self.kill_mode == "process" and pid == self.main_pid)


def unit_state(run: Runner, unit: str) -> UnitState:
    """The state of a service; inactive where systemd does not know it. Scopes live as their processes do: inactive."""
    if not unit.endswith(".service"):
        return UnitState()
    command = ["systemctl", "show", "--property=ActiveState,KillMode,MainPID", "--", unit]
    code, out, _err = run(command, SYSTEMCTL_TIMEOUT_S)
    if code != 0:
        return UnitState()
    told = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    pid = told.get("MainPID", "")
    return UnitState(
        active=told.get("ActiveState") in ACTIVE,
        kill_mode=told.get("KillMode") or "control-group",
        main_pid=int(pid) if pid.isdecimal() else 0,
    )
