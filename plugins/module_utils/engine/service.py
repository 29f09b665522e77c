# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One picture of a service: systemd, its journal, its process and its port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import journal, listener, log_facts, process, redact, systemd
from .commands import Runner
from .root_cause import root_cause


def describe(unit: str, run: Runner, *, port: int | None = None, proc: Path = process.PROC) -> dict[str, Any]:
    """The return values of vllm_service_info (shapes in its RETURN); a unit that does not exist is dead."""
    state = systemd.show(unit, run)
    invocation = state.invocation_id or (journal.last_invocation(state.name, run) if state.exists else "")
    log = journal.read(invocation, run)
    facts = log_facts.read_facts(log.lines)
    cause = root_cause(state, log.lines)
    main = process.read(state.main_pid, proc=proc) if state.main_pid else None
    owner = listener.find(port, prefer_unit=state.name, proc=proc) if port else None
    stage = _stage(state, facts.stage, owner, port, failed=cause is not None)
    notes = [note for note in (log.problem if state.exists else None, _environment_note(main)) if note]
    return {
        "unit": state.name,
        "exists": state.exists,
        "active": state.active_state == "active",
        "active_state": state.active_state,
        "sub_state": state.sub_state,
        "result": state.result,
        "enabled": state.unit_file_state in ("enabled", "enabled-runtime"),
        "fragment_path": state.fragment_path or None,
        "need_daemon_reload": state.need_daemon_reload,
        "invocation_id": invocation or None,
        "restarts": state.restarts,
        "exit_status": state.exec_main_status,
        "pid": state.main_pid or None,
        "start_time": main.start_time if main else None,
        "started_at": state.started_at if main else None,
        "command": redact.command(main.command) if main else [],
        "environment": redact.environment(main.environment or {}) if main else {},
        "port_in_use": owner is not None if port else None,
        "listener_pid": owner.pid if owner else None,
        "listener_unit": owner.unit if owner else None,
        "stage": stage,
        "progress": facts.progress if stage not in ("listening", "dead") else None,
        "kv_cache": facts.kv_cache,
        "attention_backend": facts.attention_backend,
        "moe_backend": facts.moe_backend,
        "linear_backend": facts.linear_backend,
        "vllm_version": facts.release,
        "root_cause": cause.as_result() if cause else None,
        "notes": notes,
    }


def _stage(state: systemd.Unit, logged: str, owner: listener.Listener | None, port: int | None, *, failed: bool) -> str:
    if not state.exists or not state.alive:
        return "dead"
    if port is None:
        return logged
    if owner is not None and owner.unit in (None, state.name):
        return "listening"
    # the log says "started", but the unit no longer (or not quite yet) listens
    if logged == "listening":
        return "dead" if failed else "starting"
    return logged


def _environment_note(main: process.Process | None) -> str | None:
    if main is None:
        return None
    if main.environment is None:
        return "the environment of the process may not be read; run as root"
    if not main.environment:
        return "the process has overwritten its environment (setproctitle); set SPT_NOENV=1 in the unit"
    return None
