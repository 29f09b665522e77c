# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What stands on the cards: every number with its reason where there is none, every holder with its owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ServingError
from .nvidia_smi import LOST, NvidiaSmi, missing_cards
from .processes import Process, ProcessTable
from .smi_csv import MIB, Cell
from .smi_xml import SmiProcess
from .topology import read_topology

# The share of a context that the driver does not count to its process is some MiB (9 on an H200): no finding.
UNATTRIBUTED_BYTES = 64 * MIB
# A card that is merely idle draws less; one that spins in a failed transfer draws more, and has no process any more.
WEDGE_BYTES, WEDGE_WATTS = 256 * MIB, 100.0

Problem = dict[str, Any]


@dataclass(frozen=True)
class Holder:
    """A client of a card as the driver lists it, and the process of the host that it is (None: not to be found)."""

    listed: SmiProcess
    process: Process | None

    @property
    def pid(self) -> int:
        return self.listed.pid

    def as_result(self) -> dict[str, Any]:
        process = self.process
        facts: dict[str, Any]
        if process is None:
            facts = dict.fromkeys(("start_time", "executable", "command", "user", "unit", "container"))
            facts["unknown"] = {"process": "not in /proc: it has ended, or lives in another PID namespace"}
        else:
            facts = {
                key: value for key, value in asdict(process).items() if key not in ("pid", "uid", "title", "parent")
            }
            del facts["state"]
        listed = self.listed
        return {"pid": listed.pid, "name": listed.name, "kind": listed.kind, "used_bytes": listed.used_bytes, **facts}


@dataclass(frozen=True)
class Card:
    """One card; `cells` are nvidia-smi's fields as printed."""

    index: int
    uuid: str
    cells: dict[str, Cell]
    holders: list[Holder]

    @property
    def used_bytes(self) -> int | None:
        return self.cells["memory.used"].bytes

    @property
    def unattributed_bytes(self) -> int | None:
        """Used memory that no listed process accounts for; None when either is not told."""
        parts = [holder.listed.used_bytes for holder in self.holders]
        if self.used_bytes is None or None in parts:
            return None
        return max(0, self.used_bytes - sum(part for part in parts if part is not None))

    @property
    def mig(self) -> bool | None:
        return {"enabled": True, "disabled": False}.get(self.cells["mig.mode.current"].text.lower())

    def as_result(self) -> dict[str, Any]:
        cells = self.cells
        total, reserved = cells["memory.total"].bytes, cells["memory.reserved"].bytes
        utilization = cells["utilization.gpu"].number
        capability = cells["compute_cap"]
        return {
            "index": self.index,
            "uuid": self.uuid,
            "bus_id": cells["pci.bus_id"].text,
            "name": cells["name"].text,
            "compute_capability": None if capability.number is None else capability.text,
            "memory": {
                "total_bytes": total,
                "reserved_bytes": reserved,
                "used_bytes": self.used_bytes,
                "free_bytes": cells["memory.free"].bytes,
                "torch_total_bytes": None if total is None or reserved is None else total - reserved,
            },
            "mig": self.mig,
            "utilization": None if utilization is None else int(utilization),
            "power_w": cells["power.draw"].number,
            "processes": [holder.as_result() for holder in self.holders],
            "unknown": {
                field: cells[field].reason
                for field in cells
                if cells[field].reason and field.startswith(("memory.", "compute_cap", "utilization.", "power."))
            },
        }


@dataclass(frozen=True)
class Inventory:
    """driver and cuda are versions; words: what nvidia-smi said besides its rows."""

    driver: str | None
    cuda: str | None
    cards: list[Card]
    words: list[str]


def look(smi: NvidiaSmi, table: ProcessTable, gpus: Sequence[int] | None, expected_count: int | None) -> Inventory:
    """The chosen cards (all when None), in the order of their index.

    Fails with the problem gpu_missing when the host answers for fewer (or other) cards than it should.
    """
    log = smi.log()
    rows = smi.cards()
    words = list(dict.fromkeys(rows.words + log.words))
    lost = any(LOST.search(line) for line in words)
    if lost or not rows.rows or (expected_count is not None and len(rows.rows) != expected_count):
        raise missing_cards(found=len(rows.rows), expected=expected_count, words=words)
    cards = []
    for row in sorted(rows.rows, key=lambda cells: int(cells["index"].text)):
        index, uuid = int(row["index"].text), row["uuid"].text
        if gpus is None or index in gpus:
            holders = [Holder(listed, table.read(listed.pid)) for listed in log.processes.get(uuid, [])]
            cards.append(Card(index, uuid, row, holders))
    absent = sorted(set(gpus or []) - {card.index for card in cards})
    if absent:
        raise ServingError(
            f"this host has no GPU {', '.join(map(str, absent))}",
            where="option gpus",
            why=f"it has {', '.join(row['index'].text for row in rows.rows)}",
            remedy="Choose among the cards that nvidia-smi -L lists",
            facts={"problems": [{"gpu": gpu, "problem": "gpu_missing", "detail": "no such index"} for gpu in absent]},
        )
    driver = rows.rows[0]["driver_version"].text
    return Inventory(driver, log.cuda, cards, words)


def problems_of(cards: Sequence[Card]) -> list[Problem]:
    """mig_enabled, memory_unknown, possible_wedge: what a person has to know before these cards are used."""
    found: list[Problem] = []
    for card in cards:
        used, watts = card.used_bytes, card.cells["power.draw"].number
        if card.mig:
            found.append(
                _problem(card, "mig_enabled", "the card is split in MIG instances; tensor parallelism needs it whole")
            )
        elif used is None:
            cell = card.cells["memory.used"]
            found.append(_problem(card, "memory_unknown", f"memory.used reads {cell.text!r} ({cell.reason})"))
        elif not card.holders and used > WEDGE_BYTES and watts is not None and watts > WEDGE_WATTS:
            text = f"{used // MIB} MiB and {watts:g} W without a process: memory on its way back, or a card that hangs"
            found.append(_problem(card, "possible_wedge", text))
    return found


def _problem(card: Card, name: str, detail: str) -> Problem:
    return {"gpu": card.index, "problem": name, "detail": detail}


def notes_of(cards: Sequence[Card]) -> list[str]:
    """The utilization counter of a Blackwell card can stay at 100 % for days after a kill: said, and not believed."""
    return [
        f"util_latched: GPU {card.index} reports {card.cells['utilization.gpu'].text} utilization without a process; "
        "utilization is never taken as a sign of use"
        for card in cards
        if not card.holders and (card.cells["utilization.gpu"].number or 0) > 0
    ]


def report(
    smi: NvidiaSmi, table: ProcessTable, gpus: Sequence[int] | None, expected_count: int | None
) -> dict[str, Any]:
    """What the module gpu_info returns; a card split by MIG fails, with all the rest in the facts."""
    inventory = look(smi, table, gpus, expected_count)
    cards = inventory.cards
    problems = problems_of(cards)
    try:
        topology = read_topology(*smi.topology(), gpus=[card.index for card in cards])
        why = "the output of `nvidia-smi topo -m` is no matrix of these cards"
    except ServingError as error:
        topology, why = None, str(error)
    if topology is None:
        problems.append({"gpu": None, "problem": "topology_unknown", "detail": why})
    result: dict[str, Any] = {
        "driver": inventory.driver,
        "cuda": inventory.cuda,
        "gpus": [card.as_result() for card in cards],
        "topology": topology,
        "unattributed": [
            {"gpu": card.index, "bytes": amount}
            for card in cards
            if (amount := card.unattributed_bytes) is not None and amount > UNATTRIBUTED_BYTES
        ],
        "problems": problems,
        "notes": notes_of(cards),
    }
    refuse_mig(cards, result)
    return result


def refuse_mig(cards: Sequence[Card], facts: dict[str, Any]) -> None:
    """Fail when a chosen card is split in MIG instances; MIG is never switched off here, that would end other jobs."""
    split = [card.index for card in cards if card.mig]
    if split:
        raise ServingError(
            f"mig_enabled: {split}",
            where="nvidia-smi, field mig.mode.current",
            why="a card that is split in MIG instances cannot hold a rank of a tensor-parallel service",
            remedy="Choose other cards with the option gpus, or end what uses the instances and run "
            f"`nvidia-smi -i {','.join(map(str, split))} -mig 0`",
            facts={**facts, "mig_enabled": split},
        )
