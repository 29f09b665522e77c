# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpu_info's list says about the cards: who decides, who is in the way, and what cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import read_cards

MIB = 1 << 20
TOTAL, RESERVED = 97887 * MIB, 638 * MIB
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def gpu(
    index: int = 0, used_mib: int = 4, processes: list[dict[str, Any]] | None = None, **change: Any
) -> dict[str, Any]:
    """One entry of gpu_info's `gpus`."""
    memory = {
        "total_bytes": TOTAL,
        "reserved_bytes": RESERVED,
        "used_bytes": used_mib * MIB,
        "free_bytes": TOTAL - RESERVED - used_mib * MIB,
        "torch_total_bytes": TOTAL - RESERVED,
    }
    return {
        "index": index,
        "name": NAME,
        "compute_capability": "12.0",
        "mig": False,
        "memory": memory,
        "processes": processes or [],
        **change,
    }


def holder(used_mib: int | None, unit: str | None = "vllm-glm5.service", pid: int = 4711) -> dict[str, Any]:
    used = None if used_mib is None else used_mib * MIB
    return {"pid": pid, "name": "VLLM::Worker_TP7", "unit": unit, "used_bytes": used}


def test_an_idle_card() -> None:
    card = read_cards([gpu()], [])[0]
    assert (card.total_bytes, card.free_bytes, card.holders) == (TOTAL - RESERVED, TOTAL - RESERVED - 4 * MIB, ())


@pytest.mark.parametrize("unit", ["vllm-glm5.service", "vllm-glm5"])
@pytest.mark.parametrize("used", [93783, None])
def test_our_own_processes_are_taken_as_gone(unit: str, used: int | None) -> None:
    busy = gpu(used_mib=93787, processes=[holder(used)])
    assert read_cards([busy], [unit])[0].free_bytes >= TOTAL - RESERVED - 4 * MIB
    assert read_cards([busy], [])[0].free_bytes == TOTAL - RESERVED - 93787 * MIB


def test_an_unknown_share_of_ours_beside_a_known_one_of_others() -> None:
    busy = gpu(used_mib=90000, processes=[holder(None), holder(5000, unit=None, pid=5)])
    card = read_cards([busy], ["vllm-glm5.service"])[0]
    assert card.free_bytes == TOTAL - RESERVED - 5000 * MIB
    assert "PID 5" in card.holders[0]
    assert "no systemd unit" in card.holders[0]


Refused = Callable[..., ServingError]
Ask = Callable[..., dict[str, Any]]


def test_another_holder_on_one_card(ask: Ask, refused: Refused, kimi: dict[str, Any]) -> None:
    gpus = [*(gpu(index) for index in range(7)), gpu(7, 31000, [holder(30996, unit="jupyter.service")])]
    asked: dict[str, Any] = {"tp": 8, "weights_bytes": 400_000_000_000, "gpu_memory_utilization": 0.93}
    error = refused(kimi, cards=read_cards(gpus, ["vllm-kimi"]), **asked)
    assert error.what == "GPU 7 has too little free memory"
    assert "64.70 GiB" in str(error.why)
    assert "jupyter.service" in str(error.why)
    assert "Free memory on device cuda:7 (64.14/94.97 GiB) on startup" in str(error.why)
    assert error.facts["limiting_gpu"] == 7
    assert ask(kimi, cards=read_cards(gpus[:7], []), **{**asked, "tp": 4, "weights_bytes": 200_000_000_000})["fits"]
    lowered = ask(kimi, cards=read_cards(gpus, []), **{**asked, "weights_bytes": 300_000_000_000}, fit_to_free=True)
    assert any("lowered from 0.93 to 0.67" in note and "GPU 7" in note for note in lowered["notes"])
    assert ask(kimi, cards=read_cards(gpus, ["jupyter"]), **asked)["fits"]


def test_no_change_needs_memory_that_somebody_else_holds(ask: Ask, kimi: dict[str, Any]) -> None:
    """GPU 7 has 94.4 GiB less 8 GiB free: 0.90 would start, 0.95 would not."""
    cards = read_cards([*[gpu(index) for index in range(7)], gpu(7, used_mib=8192)], [])
    common = {"tp": 8, "version": "0.16.0", "weights_bytes_per_gpu": 60 << 30, "kv_cache_dtype": "bfloat16"}
    changes = [row["change"] for row in ask(kimi, cards=cards, **common)["alternatives"]]
    assert "--gpu-memory-utilization 0.85" in changes
    assert "--gpu-memory-utilization 0.95" not in changes


def test_memory_that_nobody_is_listed_for(refused: Refused, kimi: dict[str, Any]) -> None:
    gpus = [gpu(index, 36000 if index == 3 else 4) for index in range(8)]
    error = refused(kimi, tp=8, cards=read_cards(gpus, []), weights_bytes=1)
    assert "GPU 3" in error.what
    assert "no process that nvidia-smi lists" in str(error.why)


def test_the_engines_own_context_is_not_free(refused: Refused, kimi: dict[str, Any]) -> None:
    assert "GPU 0" in refused(kimi, cards=read_cards([gpu()], []), weights_bytes=1, gpu_memory_utilization=1.0).what


def test_fewer_cards_than_ranks(refused: Refused, kimi: dict[str, Any]) -> None:
    error = refused(kimi, tp=8, cards=read_cards([gpu(index) for index in range(7)], []), weights_bytes=1)
    assert error.what == "8 ranks need as many cards"


def test_the_smallest_card_decides(ask: Ask, kimi: dict[str, Any]) -> None:
    smaller = gpu(1)
    smaller["memory"] = {**smaller["memory"], "torch_total_bytes": TOTAL - RESERVED - 100 * MIB}
    budget = ask(kimi, tp=2, cards=read_cards([gpu(0), smaller], []), weights_bytes=100_000_000_000)
    assert budget["memory"]["total"] == TOTAL - RESERVED - 100 * MIB


def without(field: str, value: object = None) -> dict[str, Any]:
    changed = gpu(3)
    changed["memory"] = {**changed["memory"], field: value}
    return changed


def test_total_without_what_torch_sees() -> None:
    changed = without("torch_total_bytes")
    assert read_cards([changed], [])[0].total_bytes == TOTAL - RESERVED


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        ([], "no card is given"),
        ([gpu(3, mig=True)], "GPU 3 is split by MIG"),
        ([gpu(3, mig="Enabled")], "GPU 3 is split by MIG"),
        ([gpu(3, memory=None)], "the memory of GPU 3 is not known"),
        ([{**gpu(3), "memory": {"total_bytes": None}}], "the memory of GPU 3 is not known"),
        ([{**without("free_bytes"), "memory": {"torch_total_bytes": TOTAL}}], "the memory of GPU 3 is not known"),
        ([without("torch_total_bytes", "97249 MiB")], "the memory of GPU 3 is not known"),
        ([{"name": NAME}], "a card has no index"),
        ([gpu(0), gpu(1, name="NVIDIA H200")], "the cards are of different kinds"),
    ],
)
def test_cards_that_cannot_be_read(gpus: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(ServingError, match=says):
        read_cards(gpus, [])


def test_the_unreadable_field_is_named() -> None:
    with pytest.raises(ServingError) as caught:
        read_cards([gpu(3, memory=None)], [])
    assert caught.value.where == "gpus[3].memory"
    with pytest.raises(ServingError) as caught:
        read_cards([without("torch_total_bytes", "97249 MiB")], [])
    assert caught.value.where == "gpus[3].memory.total_bytes"


@pytest.mark.parametrize("mig", [None, False, "Disabled", "[N/A]"])
def test_cards_without_mig(mig: object) -> None:
    assert read_cards([gpu(2, mig=mig)], [])[0].index == 2
