# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Memory proven free by reading it, as often as it takes until the driver has given it back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from ..errors import ServingError
from .nvidia_smi import NvidiaSmi
from .smi_csv import MIB

READINGS = 3
INTERVAL_S = 1.0


def pause() -> None:
    time.sleep(INTERVAL_S)


def nobody() -> Collection[int]:
    return ()


def prove_free(
    smi: NvidiaSmi,
    gpus: Collection[int],
    memory_floor_bytes: int,
    settle_timeout: float,
    *,
    exempt: Callable[[], Collection[int]] = nobody,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[], None] = pause,
) -> dict[int, int]:
    """Wait until every card uses at most the floor in three readings on end; its last use in bytes, by index.

    One reading is not enough: memory comes back in steps, and what was ended may be started again. A card that cannot
    be read is not free. exempt: cards that who may stay holds by now, asked when one is over the floor; a service that
    was just starting when the holders were judged takes its memory while we read.
    """
    if not gpus:
        return {}
    deadline = clock() + settle_timeout
    under = 0
    while True:
        rows = smi.cards(("index", "memory.used")).rows
        used: dict[int, int | None] = {int(row["index"].text): row["memory.used"].bytes for row in rows}
        last = {gpu: used.get(gpu) for gpu in sorted(gpus)}
        free = {gpu: amount for gpu, amount in last.items() if amount is not None and amount <= memory_floor_bytes}
        if len(free) < len(last) and (staying := set(exempt())) & (set(last) - set(free)):
            gpus = set(gpus) - staying
            last = {gpu: last[gpu] for gpu in sorted(gpus)}
            free = {gpu: free[gpu] for gpu in last if gpu in free}
        under = under + 1 if len(free) == len(last) else 0
        if under >= READINGS:
            return free
        if clock() + INTERVAL_S > deadline:
            raise _not_free(
                smi, {gpu: last[gpu] for gpu in last if gpu not in free}, memory_floor_bytes, settle_timeout
            )
        wait()


def _not_free(smi: NvidiaSmi, last: dict[int, int | None], floor: int, timeout: float) -> ServingError:
    processes = smi.log().processes
    rows = smi.cards(("index", "uuid")).rows
    uuids = {int(row["index"].text): row["uuid"].text for row in rows}
    not_free: list[dict[str, Any]] = []
    told = []
    for gpu, amount in last.items():
        pids = [process.pid for process in processes.get(uuids.get(gpu, ""), [])]
        not_free.append({"gpu": gpu, "used_bytes": amount, "pids": pids})
        holders = f"held by pid {', '.join(map(str, pids))}" if pids else "without any process that holds it"
        told.append(f"GPU {gpu}: {'unreadable' if amount is None else f'{amount // MIB} MiB'}, {holders}")
    return ServingError(
        f"the memory of {len(last)} cards is not free after {timeout:g} s" if last else "the cards did not stay free",
        where=f"memory_floor_bytes {floor} ({floor // MIB} MiB)",
        why="; ".join(told) or f"the readings were not under the floor {READINGS} times on end",
        remedy="Memory without a process: the driver has not let go, look at `dmesg`, wait, or reboot. Memory with a "
        "process: something started again after the clean-up",
        facts={"not_free": not_free},
    )
