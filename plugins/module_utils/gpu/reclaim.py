# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Take the cards back from what an ended service left behind, and from nobody else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ServingError
from . import ending, settle
from .inventory import Card, look, refuse_mig
from .nvidia_smi import NvidiaSmi
from .processes import Process, ProcessTable
from .rules import Rule, unit_name
from .selection import Selection, owner_table, select
from .shared_memory import Segment, sweep
from .units import UnitState

# A process that is just ending is still listed by the driver when /proc knows it no more.
VANISHED_READINGS = 5


@dataclass(frozen=True)
class Settings:
    """The options of gpu_reclaim; seconds and bytes."""

    gpus: Sequence[int] | None
    allow: Sequence[Rule]
    deny: Sequence[Rule]
    keep_units: Sequence[str]
    term_timeout: float
    kill_timeout: float
    memory_floor_bytes: int
    settle_timeout: float
    shared_memory: bool
    shared_memory_users: Sequence[str]
    fail_on_foreign: bool


def state_of(cards: Sequence[Card]) -> list[dict[str, Any]]:
    """[{gpu, used_bytes, pids}] as `before` and `after` show it."""
    return [
        {"gpu": card.index, "used_bytes": card.used_bytes, "pids": [holder.pid for holder in card.holders]}
        for card in cards
    ]


def _look(smi: NvidiaSmi, table: ProcessTable, gpus: Sequence[int] | None) -> list[Card]:
    for _reading in range(VANISHED_READINGS):
        cards = look(smi, table, gpus, None).cards
        if all(holder.process for card in cards for holder in card.holders):
            break
        settle.pause()
    return cards


def _exempt(cards: Sequence[Card], selection: Selection, settings: Settings) -> set[int]:
    """The cards whose memory is not demanded: who stays may keep it (or is foreign, where the user allows that)."""
    ended = {process.pid for process in selection.targets}
    protected = {entry["pid"] for entry in selection.protected}
    tolerated = {entry["pid"] for entry in selection.kept}
    if not settings.fail_on_foreign:
        tolerated |= {entry["pid"] for entry in selection.foreign}
    exempt = set()
    for card in cards:
        staying = {holder.pid for holder in card.holders} - ended
        if staying & tolerated and staying <= tolerated | protected:
            exempt.add(card.index)
    return exempt


def _refuse(cards: Sequence[Card], selection: Selection, exempt: set[int], settings: Settings) -> None:
    """Everything that can be known to fail, before anyone is signalled."""
    refuse_mig(cards, {})
    if settings.fail_on_foreign and selection.foreign:
        raise ServingError(
            f"{len(selection.foreign)} processes on the chosen cards are not ours to end; nothing was touched",
            where=f"GPU {', '.join(map(str, sorted(selection.gpus_of(selection.foreign))))}",
            why="\n" + owner_table(selection.foreign),
            remedy="Ask their owners, choose other cards with the option gpus (gpu_cleanup_gpus of the role), "
            "or add a rule to the option allow (gpu_cleanup_allow)",
        )
    unreadable = [card for card in cards if card.used_bytes is None and card.index not in exempt]
    if unreadable:
        told = [f"GPU {card.index}: {card.cells['memory.used'].text}" for card in unreadable]
        raise ServingError(
            "the memory of a card cannot be read, so it can never be proven free; nothing was touched",
            where="nvidia-smi, field memory.used",
            why="; ".join(told),
            remedy="Look at `nvidia-smi -q` and `dmesg`; leave the card out with the option gpus "
            "(gpu_cleanup_gpus of the role)",
        )
    others = [process for process in selection.targets if process.uid != os.geteuid()]
    if others and os.geteuid() != 0:
        raise ServingError(
            "ending another user's processes needs root; nothing was touched",
            where=f"pid {', '.join(str(process.pid) for process in others)}",
            remedy="Run the task with become: true",
        )


def _of_active_units(
    selection: Selection, settings: Settings, state: Callable[[str], UnitState]
) -> list[tuple[Process, UnitState]]:
    """The targets that systemd still keeps up."""
    units = sorted({unit_name(rule.unit) for rule in settings.allow if rule.unit is not None})
    states = {unit: state(unit) for unit in units if any(process.unit == unit for process in selection.targets)}
    return [
        (process, states[process.unit])
        for process in selection.targets
        if process.unit in states and states[process.unit].active
    ]


def reclaim(
    smi: NvidiaSmi,
    table: ProcessTable,
    shm: Path,
    settings: Settings,
    state: Callable[[str], UnitState],
    *,
    check: bool,
) -> dict[str, Any]:
    """What the module gpu_reclaim does and returns; `state` asks systemd for a unit."""
    cards = _look(smi, table, settings.gpus)
    own = table.ancestors(os.getpid())
    selection = select(cards, table, settings.allow, settings.deny, settings.keep_units, own)
    active = _of_active_units(selection, settings, state)
    leaving: list[dict[str, Any]] = []
    if check:
        # The task before this one, which stops the unit, did nothing either: what its stop ends is not left for us.
        stopped = [process for process, unit in active if unit.stop_ends(process.pid)]
        leaving = [selection.entries[process.pid] for process in stopped]
        selection.targets = [process for process in selection.targets if process not in stopped]
    exempt = _exempt(cards, selection, settings)

    def exempt_now() -> set[int]:
        seen = _look(smi, table, settings.gpus)
        return _exempt(seen, select(seen, table, settings.allow, settings.deny, settings.keep_units, own), settings)

    demanded = [card.index for card in cards if card.index not in exempt]
    result: dict[str, Any] = {
        "foreign": selection.foreign,
        "protected": selection.protected,
        "kept": selection.kept,
        "before": state_of(cards),
        "terminated": [],
        "killed": [],
        "survivors": [],
        "not_signalled": [],
        "removed_segments": [],
        "left_segments": [],
    }
    try:
        _refuse(cards, selection, exempt, settings)
        if check:
            result["terminated"] = selection.target_entries([process.pid for process in selection.targets])
            free = set(demanded) - selection.gpus_of(result["terminated"] + leaving)
            settle.prove_free(smi, free, settings.memory_floor_bytes, settings.settle_timeout, exempt=exempt_now)
        else:
            _refuse_active(active)
            _end(selection, table, settings, result)
            settle.prove_free(smi, demanded, settings.memory_floor_bytes, settings.settle_timeout, exempt=exempt_now)
        if settings.shared_memory:
            ended = [process.pid for process in selection.targets]
            segments = sweep(shm, table, settings.shared_memory_users, ended=ended if check else (), remove=not check)
            result["removed_segments"], result["left_segments"] = segments
        unknown = check and bool(result["terminated"] or leaving)
        result["after"] = None if unknown else state_of(look(smi, table, settings.gpus, None).cards)
    except ServingError as error:
        error.facts = {**result, "changed": _changed(result), **error.facts}
        raise
    result["changed"] = _changed(result)
    result["freed_bytes"] = _freed(result)
    result["diff"] = _diff(shm, result)
    return result


def _refuse_active(active: Sequence[tuple[Process, UnitState]]) -> None:
    if active:
        units = sorted({str(process.unit) for process, _state in active})
        raise ServingError(
            "a unit is still active, and systemd would start again what is ended here; nothing was touched",
            where=", ".join(units),
            why=f"it keeps pid {', '.join(str(process.pid) for process, _state in active)}",
            remedy="Stop it first, with ansible.builtin.systemd_service and state: stopped",
        )


def _end(selection: Selection, table: ProcessTable, settings: Settings, result: dict[str, Any]) -> None:
    ended = ending.end(selection.targets, table, settings.term_timeout, settings.kill_timeout)
    result["terminated"] = selection.target_entries(ended.terminated)
    result["killed"] = selection.target_entries(ended.killed)
    result["not_signalled"] = [{**selection.entries[pid], "reason": reason} for pid, reason in ended.skipped.items()]
    survivors = []
    for entry in selection.target_entries(ended.survivors):
        state, function = table.stuck_in(entry["pid"])
        survivors.append({**entry, "state": state, "waits_in": function, "reason": "unkillable"})
    result["survivors"] = survivors
    if survivors:
        told = [f"pid {s['pid']} {s['name']!r} in state {s['state']}, waiting in {s['waits_in']}" for s in survivors]
        raise ServingError(
            f"unkillable: {len(survivors)} processes are still there {settings.kill_timeout:g} s after SIGKILL",
            where=f"GPU {', '.join(map(str, sorted(selection.gpus_of(survivors)))) or '-'}",
            why="; ".join(told),
            remedy="A process that hangs in the GPU driver ends with the host: reboot it, then run this again",
            facts={"reboot_required": True},
        )


def _changed(result: dict[str, Any]) -> bool:
    return any(result[name] for name in ("terminated", "killed", "removed_segments"))


def _freed(result: dict[str, Any]) -> int | None:
    """Bytes that the cards use less than before; None in check mode where processes would be ended."""
    if result["after"] is None:
        return None
    after = {state["gpu"]: state["used_bytes"] for state in result["after"]}
    freed = 0
    for state in result["before"]:
        one, other = state["used_bytes"], after.get(state["gpu"])
        if one is not None and other is not None:
            freed += max(0, one - other)
    return freed


def _diff(shm: Path, result: dict[str, Any]) -> dict[str, str]:
    """Diff mode: a line for each process and segment that goes."""

    def named(segment: Segment) -> str:
        return f"{shm / segment['name']} ({segment['bytes']} bytes, user {segment['user']})"

    lines = [
        f"pid {entry['pid']} {entry['name']} (user {entry['user']}, unit {entry['unit']}, GPU {entry['gpus']})"
        for entry in result["terminated"] + result["killed"]
    ] + [named(segment) for segment in result["removed_segments"]]
    return {"before": "".join(f"{line}\n" for line in lines), "after": ""}
