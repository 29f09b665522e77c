# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers of an earlier start, and given ones, in place of estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import Card
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.measured import Measured

GIB = 1 << 30
KIMI_BYTES = 591_000_000_000
CAPACITY_190K = 13_351_680_000

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def record(eight_cards: list[Card]) -> dict[str, Any]:
    """The record's start: TP 8, 16-bit cache, vLLM 0.16, 0.90 of each card."""
    return {
        "tp": 8,
        "version": "0.16.0rc2.dev313",
        "kv_cache_dtype": "bfloat16",
        "cards": eight_cards,
        "compute_capability": "12.0",
        "weights_bytes_per_gpu": int(70.81 * GIB),
    }


def test_measured_terms_replace_estimates(ask: Ask, kimi: dict[str, Any], record: dict[str, Any]) -> None:
    del record["weights_bytes_per_gpu"]
    available = int(11.7 * GIB)
    measured = Measured(weights_bytes=int(70.81 * GIB), available_bytes=available, tokens=178_768)
    budget = ask(kimi, **record, measured=measured)
    assert budget["memory"]["available_kv_cache"] == available
    assert budget["kv_cache"]["token_capacity"] == 178_768
    assert sum("measured at an earlier start" in line for line in budget["explanation"]) == 2
    # at another utilization the same terms hold
    more = ask(kimi, **record, measured=measured, gpu_memory_utilization=0.95)
    assert more["memory"]["available_kv_cache"] == available
    moved = Measured(weights_bytes=int(70.81 * GIB), available_bytes=available, gpu_memory_utilization=0.90)
    more = ask(kimi, **record, measured=moved, gpu_memory_utilization=0.95)
    assert more["memory"]["available_kv_cache"] - available == pytest.approx(0.05 * more["memory"]["total"], abs=2)
    off = ask(kimi, **record, measured=Measured(weights_bytes=int(70.81 * GIB), tokens=100_000))
    assert any("printed 100,000 tokens" in note for note in off["notes"])


def test_other_settings_move_what_was_measured_by_the_estimate(
    ask: Ask, kimi: dict[str, Any], record: dict[str, Any]
) -> None:
    """Measured with 1,024 sequences and 262,144 tokens; asked with 64 and 131,072 on vLLM 0.24."""
    asked: dict[str, Any] = {**record, "version": "0.24.0", "gpu_memory_utilization": 0.92}
    measured = Measured(
        weights_bytes=71 * GIB,
        available_bytes=10 * GIB,
        cuda_graph_bytes=3 * GIB,
        cuda_graph_estimated_bytes=int(2.5 * GIB),
        max_model_len=131_072,
        max_num_seqs=1024,
    )
    del asked["weights_bytes_per_gpu"]
    same = ask(kimi, **asked, max_model_len=131_072, measured=measured)
    fewer = ask(kimi, **asked, max_model_len=131_072, max_num_seqs=64, measured=measured)
    plain, plain_fewer = (
        ask(kimi, **asked, weights_bytes=KIMI_BYTES, max_model_len=131_072, max_num_seqs=seqs) for seqs in (None, 64)
    )
    assert same["memory"]["available_kv_cache"] == 10 * GIB
    assert same["memory"]["cuda_graphs"] == int(2.5 * GIB)
    assert same["basis"] == {
        "weights": "measured",
        "overhead": "measured",
        "cuda_graphs": "measured",
        "available_kv_cache": "reckoned",
    }
    saved = plain["memory"]["cuda_graphs"] - plain_fewer["memory"]["cuda_graphs"]
    assert same["memory"]["cuda_graphs"] - fewer["memory"]["cuda_graphs"] == saved > GIB
    assert any("by an earlier start's 2.50 GiB and what the settings changed" in line for line in fewer["explanation"])
    # the alternatives of a measured budget say the same
    change = next(row for row in same["alternatives"] if row["change"] == "--max-num-seqs 64")
    assert change["token_capacity"] == fewer["kv_cache"]["token_capacity"]
    eager = ask(kimi, **asked, max_model_len=131_072, enforce_eager=True, measured=measured)
    assert eager["memory"]["cuda_graphs"] == 0


def test_a_measurement_that_the_card_cannot_have_made(ask: Ask, kimi: dict[str, Any], record: dict[str, Any]) -> None:
    """14.66 GiB are left beside the weights; what rounding and libraries explain is taken, what they cannot is not."""
    plain = ask(kimi, **record)
    kept = ask(kimi, **record, measured=Measured(available_bytes=int(14.7 * GIB)))
    assert (kept["basis"]["overhead"], kept["memory"]["overhead"], kept["notes"]) == ("measured", 0, plain["notes"])
    other = ask(kimi, **record, measured=Measured(available_bytes=40 * GIB))
    assert other["memory"] == plain["memory"]
    assert other["basis"]["overhead"] == "estimated"
    note = next(note for note in other["notes"] if "earlier start" in note)
    assert "40.00 GiB" in note
    assert "70.81 GiB" in note
    assert "85.47 GiB" in note


def test_given_terms_win(ask: Ask, kimi: dict[str, Any], record: dict[str, Any]) -> None:
    budget = ask(
        kimi,
        **{**record, "version": "0.33.0"},
        overhead_bytes_per_gpu=3 * GIB,
        cuda_graph_bytes_per_gpu=GIB,
        gpu_memory_utilization=0.9,
    )
    memory = budget["memory"]
    assert (memory["overhead"], memory["cuda_graphs"]) == (3 * GIB, GIB)
    assert memory["available_kv_cache"] == memory["usable"] - memory["weights"] - 4 * GIB
