# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Who is to be ended, who is not, and why: decided for all before anyone is signalled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from .inventory import Card, Holder
from .processes import Process, ProcessTable
from .protection import protection_of
from .rules import Rule, unit_name

Entry = dict[str, Any]


@dataclass
class Selection:
    """targets: the processes to end; the lists hold result entries of the others, by what keeps them."""

    targets: list[Process] = field(default_factory=list)
    entries: dict[int, Entry] = field(default_factory=dict)
    foreign: list[Entry] = field(default_factory=list)
    protected: list[Entry] = field(default_factory=list)
    kept: list[Entry] = field(default_factory=list)

    def gpus_of(self, entries: Sequence[Entry]) -> set[int]:
        return {gpu for entry in entries for gpu in entry["gpus"]}

    def target_entries(self, pids: Collection[int]) -> list[Entry]:
        return [self.entries[process.pid] for process in self.targets if process.pid in pids]


def holders_by_pid(cards: Sequence[Card]) -> dict[int, list[tuple[int, Holder]]]:
    found: dict[int, list[tuple[int, Holder]]] = {}
    for card in cards:
        for holder in card.holders:
            found.setdefault(holder.pid, []).append((card.index, holder))
    return found


def entry_of(pid: int, process: Process | None, held: Sequence[tuple[int, Holder]], **more: str) -> Entry:
    """A process in a result: who it is, which of the chosen cards it holds and how much."""
    amounts = [holder.listed.used_bytes for _gpu, holder in held]
    title = held[0][1].listed.name if held else ""
    return {
        "pid": pid,
        "start_time": process.start_time if process else None,
        "name": process.title if process else title,
        "executable": process.executable if process else None,
        "user": process.user if process else None,
        "unit": process.unit if process else None,
        "container": process.container if process else None,
        "gpus": [gpu for gpu, _holder in held],
        "used_bytes": None if None in amounts else sum(amount for amount in amounts if amount is not None),
        **more,
    }


def select(
    cards: Sequence[Card],
    table: ProcessTable,
    allow: Sequence[Rule],
    deny: Sequence[Rule],
    keep_units: Collection[str],
    own: set[int],
) -> Selection:
    """Judge every holder of the cards, and every member of a unit that a rule allows.

    The first that applies counts: a unit that may keep its memory, protection, deny, allow. A holder that no rule
    allows is foreign.
    """
    held = holders_by_pid(cards)
    kept = {unit_name(unit) for unit in keep_units}
    candidates: dict[int, Process | None] = {pid: found[0][1].process for pid, found in held.items()}
    by_unit = [rule for rule in allow if rule.unit is not None]
    if by_unit:
        for member in table.all():
            if any(rule.matches(member, table, unreadable=False) for rule in by_unit):
                candidates.setdefault(member.pid, member)
    selection = Selection()
    for pid, process in sorted(candidates.items()):
        on_cards = held.get(pid, [])
        if process is None:
            reason = "not in /proc: of another PID namespace"
            selection.foreign.append(entry_of(pid, None, on_cards, reason=reason))
        elif process.unit in kept:
            selection.kept.append(entry_of(pid, process, on_cards, reason="its unit may keep its memory"))
        elif protection := protection_of(process, own):
            selection.protected.append(entry_of(pid, process, on_cards, reason=protection))
        elif any(rule.matches(process, table, unreadable=True) for rule in deny):
            if on_cards:
                selection.foreign.append(entry_of(pid, process, on_cards, reason="denied by a rule"))
        elif any(rule.matches(process, table, unreadable=False) for rule in allow):
            selection.targets.append(process)
            selection.entries[pid] = entry_of(pid, process, on_cards)
        else:
            selection.foreign.append(entry_of(pid, process, on_cards, reason="no rule allows it"))
    return selection


def owner_table(entries: Sequence[Entry]) -> str:
    """One line per process, for the person who has to ask its owner."""
    lines = []
    for entry in entries:
        amount = "unknown" if entry["used_bytes"] is None else f"{entry['used_bytes'] >> 20} MiB"
        owner = entry["unit"] or (f"container {entry['container'][:12]}" if entry["container"] else "no unit")
        cards = ",".join(map(str, entry["gpus"])) or "-"
        lines.append(
            f"GPU {cards}: pid {entry['pid']} {entry['name']!r}, user {entry['user'] or 'unknown'}, {owner}, "
            f"{amount} ({entry['reason']})"
        )
    return "\n".join(lines)
