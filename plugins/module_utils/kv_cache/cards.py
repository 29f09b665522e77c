# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The cards that the service will use: what torch will see of each, and who else holds memory there.

Input are gpu_info's `gpus`. The smallest card decides: with tensor parallelism every rank needs the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .units import GIB, gib

# The engine's own CUDA context stands on the card before it looks at free memory: 94.41 of 94.97 GiB were free on an
# otherwise empty RTX PRO 6000.
CUDA_CONTEXT_BYTES = int(0.56 * GIB)


@dataclass(frozen=True)
class Card:
    """One card. total_bytes: what torch sees; free_bytes: free for the service, its own processes taken as gone."""

    index: int
    name: str | None
    total_bytes: int
    free_bytes: int
    holders: tuple[str, ...]


def read_cards(gpus: Sequence[Mapping[str, Any]], exclude_units: Collection[str]) -> list[Card]:
    """The cards of gpu_info's list. Raises ServingError for MIG, for unreadable memory and for different cards."""
    if not gpus:
        raise ServingError("no card is given", where="gpus", remedy="Give the list gpus of the module gpu_info")
    exclude = {name for unit in exclude_units if (name := _unit(unit)) is not None}
    cards = [_read_card(gpu, exclude) for gpu in gpus]
    names = sorted({card.name for card in cards if card.name})
    if len(names) > 1:
        raise ServingError(
            "the cards are of different kinds",
            where="gpus",
            why=", ".join(names),
            remedy="Give only the cards that the service is to use, all of one kind",
        )
    return cards


def smallest(cards: Sequence[Card]) -> Card:
    return min(cards, key=lambda card: card.total_bytes)


def most_held(cards: Sequence[Card]) -> Card:
    """The card with the least free memory: the one that would fail the start."""
    return min(cards, key=lambda card: card.free_bytes)


def free_at_start(card: Card) -> int:
    """Bytes that the engine will find free: less its own CUDA context."""
    return max(0, card.free_bytes - CUDA_CONTEXT_BYTES)


def _read_card(gpu: Mapping[str, Any], exclude: Collection[str]) -> Card:
    index = gpu.get("index")
    if not isinstance(index, int):
        raise ServingError("a card has no index", where="gpus", why=f"got {index!r}", remedy="Give gpu_info's gpus")
    if gpu.get("mig") is True or str(gpu.get("mig")).lower() == "enabled":
        raise ServingError(
            f"GPU {index} is split by MIG",
            where=f"gpus[{index}].mig",
            why="a part of a card cannot take a tensor-parallel rank of a whole one",
            remedy=f"Leave GPU {index} out, or switch MIG off when nobody uses it: nvidia-smi -i {index} -mig 0",
            facts={"mig_enabled": [index]},
        )
    memory = gpu.get("memory")
    if not isinstance(memory, Mapping):
        raise _unreadable(index, "memory", memory)
    total = _torch_total(index, memory)
    name = gpu.get("name")
    if name is not None and not isinstance(name, str):
        raise _no_text(index, "name", name)
    processes = _processes(index, gpu.get("processes"))
    ours = [process for process in processes if _unit(process.get("unit")) in exclude]
    others = [process for process in processes if _unit(process.get("unit")) not in exclude]
    return Card(
        index=index,
        name=name,
        total_bytes=total,
        free_bytes=min(total, _free_without(index, memory, total, ours, others)),
        holders=tuple(_describe(process) for process in others),
    )


def _processes(index: int, listed: object) -> list[Mapping[str, Any]]:
    """What gpu_info lists of a card; a process whose memory is unknown has null there."""
    if listed is not None and not isinstance(listed, (list, tuple)):
        raise _no_text(index, "processes", listed)
    processes = [process for process in listed or () if isinstance(process, Mapping)]
    for process in processes:
        if process.get("used_bytes") is not None:
            _bytes(index, "processes.used_bytes", process["used_bytes"], zero=True)
    return processes


def _torch_total(index: int, memory: Mapping[str, Any]) -> int:
    """torch_total_bytes, else memory.total less memory.reserved: what gpu_memory_utilization is multiplied with."""
    torch_total = memory.get("torch_total_bytes")
    if torch_total is None and memory.get("total_bytes") is not None:
        torch_total = _bytes(index, "memory.total_bytes", memory["total_bytes"])
        if memory.get("reserved_bytes") is not None:
            torch_total -= _bytes(index, "memory.reserved_bytes", memory["reserved_bytes"], zero=True)
    return _bytes(index, "memory.total_bytes", torch_total)


def _free_without(
    index: int,
    memory: Mapping[str, Any],
    total: int,
    ours: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
) -> int:
    """Free bytes once our own processes are gone."""
    unknown_ours = any(process.get("used_bytes") is None for process in ours)
    unknown_others = any(process.get("used_bytes") is None for process in others)
    if unknown_ours and not unknown_others:
        return total - sum(int(process["used_bytes"]) for process in others)
    free = memory.get("free_bytes")
    if free is None and memory.get("used_bytes") is not None:
        free = total - _bytes(index, "memory.used_bytes", memory["used_bytes"], zero=True)
    return _bytes(index, "memory.free_bytes", free, zero=True) + sum(
        int(process.get("used_bytes") or 0) for process in ours
    )


def _bytes(index: int, field: str, value: object, *, zero: bool = False) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or (value == 0 and not zero):
        raise _unreadable(index, field, value)
    return value


def _no_text(index: int, field: str, value: object) -> ServingError:
    return ServingError(
        f"the {field} of GPU {index} cannot be read",
        where=f"gpus[{index}].{field}",
        why=f"got {value!r}",
        remedy="Give gpu_info's gpus",
    )


def _unreadable(index: int, field: str, value: object) -> ServingError:
    return ServingError(
        f"the memory of GPU {index} is not known",
        where=f"gpus[{index}].{field}",
        why=f"got {value!r}",
        remedy="Look at the card with nvidia-smi; a number that nvidia-smi does not print is not taken as 0",
    )


def _describe(process: Mapping[str, Any]) -> str:
    used = process.get("used_bytes")
    amount = gib(used) if isinstance(used, int) else "an unknown amount"
    unit = process.get("unit") or "no systemd unit"
    return f"PID {process.get('pid', '?')} {process.get('name') or ''} ({unit}) holds {amount}".replace("  ", " ")


def _unit(name: object) -> str | None:
    """ "vllm-glm5" and "vllm-glm5.service" are the same unit."""
    if not isinstance(name, str) or not name:
        return None
    return name if "." in name else f"{name}.service"
