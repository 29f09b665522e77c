# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole budgets: the record's host, what is refused and in which words, memory terms, alternatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import Card
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.measured import Measured

GIB = 1 << 30
MIB = 1 << 20
KIMI_BYTES = 591_000_000_000
CAPACITY_190K = 13_351_680_000

Ask = Callable[..., dict[str, Any]]
Refused = Callable[..., ServingError]


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


def test_the_record(ask: Ask, kimi: dict[str, Any], record: dict[str, Any]) -> None:
    """11.7 GiB were left, and 178,768 tokens were printed."""
    budget = ask(kimi, **record)
    assert f"{budget['memory']['available_kv_cache'] / GIB:.2f}" == "11.70"
    assert budget["kv_cache"]["token_capacity"] == 178_768
    assert budget["max_model_len"]["recommended"] == 131_072
    assert budget["max_model_len"]["model_limit"] == 262_144
    assert "not divided by tensor parallelism" in budget["explanation"][0]


def test_the_records_length_is_refused_in_the_engines_words(
    refused: Refused, kimi: dict[str, Any], record: dict[str, Any]
) -> None:
    error = refused(kimi, **{**record, "overhead_bytes_per_gpu": None}, max_model_len=262_144)
    assert error.where == "max_model_len"
    assert "(262144), (17.16 GiB KV cache is needed" in str(error.why)
    assert "the models's max seq len" in str(error.why)
    assert "max_model_len 131072" in str(error.remedy)
    assert "--decode-context-parallel-size 8" in str(error.remedy)
    assert error.facts["fits"] is False
    assert error.facts["max_model_len"] == {
        "requested": 262_144,
        "largest_that_fits": error.facts["kv_cache"]["token_capacity"],  # type: ignore[index]
        "recommended": 131_072,
        "model_limit": 262_144,
    }


def test_which_tensor_parallel_sizes_hold_the_model(ask: Ask, kimi: dict[str, Any], eight_cards: list[Card]) -> None:
    for weights in (KIMI_BYTES, 540_000_000_000):
        rows = ask(kimi, tp=8, kv_cache_dtype="bfloat16", cards=eight_cards, weights_bytes=weights)[
            "tensor_parallel_sizes"
        ]
        assert [(row["size"], row["fits"], row["token_capacity"] > 0) for row in rows] == [
            (1, False, False),
            (2, False, False),
            (4, False, False),
            (8, True, True),
        ]


def test_weights_alone_exceed_four_cards(ask: Ask, refused: Refused, kimi: dict[str, Any]) -> None:
    asked: dict[str, Any] = {
        "gpu_memory_bytes": 97887 * MIB,
        "weights_bytes": 540_000_000_000,
        "overhead_bytes_per_gpu": 5 * GIB,
        "gpu_memory_utilization": 0.93,
    }
    error = refused(kimi, tp=4, **asked)
    assert "88.90 GiB usable" in str(error.why)
    assert "No available memory for the cache blocks." in str(error.why)
    assert error.remedy == "Choose tensor_parallel_size 8"
    assert int(str(error.facts["short_by_bytes"])) >= 41.8 * GIB
    eight = ask(kimi, tp=8, **asked)
    assert eight["fits"]
    # 62.86 GiB are an even eighth; the attention's down-projections and routers are on every rank
    assert 62.86 * GIB < eight["memory"]["weights"] < 65 * GIB
    assert any("62.86 GiB (67.5 GB) per card" in line for line in eight["explanation"])


@pytest.mark.parametrize(("dcp", "capacity", "recommended"), [(1, 190_000, 189_440), (4, 760_000, 262_144)])
def test_only_decode_context_parallelism_divides_mla(
    ask: Ask, kimi: dict[str, Any], dcp: int, capacity: int, recommended: int
) -> None:
    budget = ask(
        kimi,
        tp=8,
        dcp=dcp,
        kv_cache_dtype="bfloat16",
        headroom=0.0,
        available_kv_cache_bytes=CAPACITY_190K,
    )
    assert budget["kv_cache"]["token_capacity"] == capacity
    assert budget["max_model_len"]["recommended"] == recommended
    assert {"change": "--decode-context-parallel-size 8", "token_capacity": 1_520_000} in budget["alternatives"]


def test_a_floor_that_is_missed_says_by_how_much(refused: Refused, kimi: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"tp": 8, "kv_cache_dtype": "bfloat16"}
    error = refused(kimi, available_kv_cache_bytes=CAPACITY_190K, min_model_len=200_000, **asked)
    assert error.facts["short_by_bytes"] == 702_720_000
    assert "702,720,000 bytes" in str(error.why)
    assert error.where == "min_model_len"
    assert str(error.remedy).startswith("Choose min_model_len 189984 (at most 189984 fit); or ")
    error = refused(kimi, available_kv_cache_bytes=20_272 * 70_272, min_model_len=32_768, **asked)
    assert error.facts["max_model_len"]["recommended"] is None  # type: ignore[index]


def test_not_even_a_block(refused: Refused, kimi: dict[str, Any]) -> None:
    """Nobody asked for a length: the option to look at is the one that gives the memory."""
    error = refused(kimi, tp=8, available_kv_cache_bytes=1000)
    assert (error.where, "no block fits" in error.what) == ("available_kv_cache_bytes", True)


def test_another_dtype_is_a_question_for_the_backends_too(refused: Refused, kimi: dict[str, Any]) -> None:
    """vLLM 0.16 has no FP8 cache of latent vectors on these cards."""
    error = refused(
        kimi,
        tp=8,
        version="0.16.0",
        available_kv_cache_bytes=CAPACITY_190K,
        max_model_len=262_144,
        kv_cache_dtype="auto",
    )
    assert "--kv-cache-dtype fp8 (380,000 tokens, if an attention backend of the cards serves it)" in str(error.remedy)


def test_a_length_above_the_models(refused: Refused, kimi: dict[str, Any]) -> None:
    text = {
        **kimi["text_config"],
        "rope_scaling": {"type": "yarn", "factor": 64, "original_max_position_embeddings": 4096},
    }
    for positions in (262_144, 4_096):
        config = {**kimi, "text_config": {**text, "max_position_embeddings": positions}}
        error = refused(config, available_kv_cache_bytes=3_000_000 * 70_272, max_model_len=1_000_000)
        assert error.facts["max_model_len"]["model_limit"] == 262_144  # type: ignore[index]
        assert "User-specified max_model_len (1000000) is greater than the derived" in str(error.why)


def test_dropping_fp8_halves_the_tokens(ask: Ask, kimi: dict[str, Any]) -> None:
    tokens = {
        dtype: ask(kimi, tp=8, kv_cache_dtype=dtype, available_kv_cache_bytes=CAPACITY_190K)["kv_cache"]
        for dtype in ("fp8_e4m3", "bfloat16", "auto")
    }
    assert tokens["fp8_e4m3"]["token_capacity"] == 380_000
    assert tokens["bfloat16"]["token_capacity"] == tokens["auto"]["token_capacity"] == 190_000
    assert tokens["auto"]["dtype"] == "bfloat16"


@pytest.mark.parametrize("dtype", ["nvfp4", "bf16"])
def test_packed_and_unknown_dtypes_are_refused_by_name(refused: Refused, kimi: dict[str, Any], dtype: str) -> None:
    assert dtype in refused(kimi, kv_cache_dtype=dtype, available_kv_cache_bytes=GIB).what


def test_activations_grow_with_the_batch(ask: Ask, kimi: dict[str, Any], eight_cards: list[Card]) -> None:
    budgets = [
        ask(kimi, tp=8, cards=eight_cards, weights_bytes=KIMI_BYTES, max_num_batched_tokens=batch)
        for batch in (4096, 8192, 16384)
    ]
    capacities = [budget["kv_cache"]["token_capacity"] for budget in budgets]
    activations = [budget["memory"]["activations"] for budget in budgets]
    assert capacities == sorted(capacities, reverse=True)
    assert len(set(capacities)) == 3
    assert activations[1] >= 2 * activations[0]
    assert activations[2] >= 2 * activations[1]
    unset = ask(kimi, tp=8, cards=eight_cards, weights_bytes=KIMI_BYTES)
    assert unset["memory"] == budgets[1]["memory"]
    assert any("8,192 tokens (max_num_batched_tokens)" in line for line in unset["explanation"])
    assert any(row["change"] == "--max-num-batched-tokens 4096" for row in unset["alternatives"])


def test_newer_releases_subtract_cuda_graphs(ask: Ask, kimi: dict[str, Any], eight_cards: list[Card]) -> None:
    asked: dict[str, Any] = {
        "tp": 8,
        "cards": eight_cards,
        "weights_bytes": KIMI_BYTES,
        "compute_capability": "12.0",
        "kv_cache_dtype": "bfloat16",
        "max_model_len": 131_072,
    }
    old, new = ask(kimi, version="0.16.0", **asked), ask(kimi, version="0.24.0", **asked)
    assert old["memory"]["cuda_graphs"] == 0
    assert new["memory"]["cuda_graphs"] / GIB == pytest.approx(2.1, abs=0.05)
    assert (old["memory"]["usable"], new["memory"]["usable"]) == (
        -(-eight_cards[0].total_bytes * 90 // 100),
        -(-eight_cards[0].total_bytes * 92 // 100),
    )
    fewer = next(row for row in new["alternatives"] if row["change"] == "--max-num-seqs 64")
    assert fewer["token_capacity"] > new["kv_cache"]["token_capacity"]
    assert ask(kimi, version="0.24.0", enforce_eager=True, **asked)["memory"]["cuda_graphs"] == 0
    unknown = ask(kimi, version="0.24.0", **{**asked, "compute_capability": None})
    assert any("CUDA graphs: not known" in note for note in unknown["notes"])


def test_newer_releases_reserve_the_decode_scratch_on_top(
    ask: Ask, kimi: dict[str, Any], record: dict[str, Any]
) -> None:
    """From 0.25 it is shown beside the graphs' share, and is no longer taken off the KV cache."""
    asked: dict[str, Any] = {**record, "max_model_len": 131_072}
    counted, beside = ask(kimi, **{**asked, "version": "0.24.0"}), ask(kimi, **{**asked, "version": "0.33.0"})
    assert counted["memory"]["cuda_graphs"] / GIB == pytest.approx(2.10, abs=0.01)
    assert counted["memory"]["beyond_utilization"] == 0
    assert beside["memory"]["cuda_graphs"] == 100 * MIB
    assert beside["memory"]["beyond_utilization"] == 1024 * 8 * 256 * 513 * 4
    line = next(line for line in beside["explanation"] if line.startswith("CUDA graphs"))
    assert "0.10 GiB for TRITON_MLA" in line
    assert "4.01 GiB of decode scratch for 1,024 requests (max_num_seqs)" in line
    for budget in (counted, beside):
        fewer = next(row for row in budget["alternatives"] if row["change"] == "--max-num-seqs 64")
        assert fewer["token_capacity"] > budget["kv_cache"]["token_capacity"]
    assert beside["notes"] == []
    # on a card that has no room for it, a higher utilization is no alternative
    assert "--gpu-memory-utilization 0.95" in [row["change"] for row in counted["alternatives"]]
    longer = ask(kimi, **{**asked, "version": "0.33.0", "max_model_len": 200_000})
    assert "--gpu-memory-utilization 0.95" not in [row["change"] for row in longer["alternatives"]]
    high = ask(kimi, **{**asked, "version": "0.33.0", "gpu_memory_utilization": 0.97, "max_model_len": 200_000})
    assert any("may run out of memory while it starts" in note for note in high["notes"])


def test_an_unknown_model_with_given_bytes(ask: Ask, refused: Refused) -> None:
    config = {"architectures": ["BrandNewForCausalLM"], "max_position_embeddings": 65536, "dtype": "bfloat16"}
    budget = ask(config, kv_bytes_per_token_per_gpu=1000, available_kv_cache_bytes=16_000_000, version="0.28.0")
    assert (budget["family"], budget["kv_cache"]["token_capacity"]) == ("given", 16_000)
    assert "available_kv_cache_bytes" in str(refused(config, kv_bytes_per_token_per_gpu=1000, gpu_memory_bytes=GIB))
    assert "BrandNewForCausalLM" in str(refused(config, available_kv_cache_bytes=GIB))


@pytest.mark.parametrize(
    ("given_values", "names"),
    [
        ({}, "available_kv_cache_bytes"),
        ({"gpu_memory_bytes": 80 * GIB}, "weights_bytes"),
        ({"gpu_memory_bytes": -1, "weights_bytes": 1}, "gpu_memory_bytes"),
        ({"gpu_memory_bytes": 80 * GIB, "weights_bytes": 0}, "weights_bytes"),
        ({"available_kv_cache_bytes": -1}, "available_kv_cache_bytes"),
        ({"available_kv_cache_bytes": 0}, "no memory is available"),
        ({"available_kv_cache_bytes": GIB, "gpu_memory_utilization": 1.5}, "gpu_memory_utilization"),
        ({"available_kv_cache_bytes": GIB, "gpu_memory_utilization": 0.0}, "gpu_memory_utilization"),
        ({"available_kv_cache_bytes": GIB, "headroom": 1.0}, "headroom"),
        ({"available_kv_cache_bytes": GIB, "headroom": -0.1}, "headroom"),
        ({"available_kv_cache_bytes": GIB, "round_to": 0}, "round_to"),
        ({"available_kv_cache_bytes": GIB, "measured": Measured(weights_bytes=-1)}, "measured.weights_bytes"),
        ({"available_kv_cache_bytes": GIB, "speculative_config": {"method": "mtp"}}, "MTP"),
        ({"available_kv_cache_bytes": GIB, "min_model_len": 300_000}, "min_model_len"),
        ({"available_kv_cache_bytes": 1000}, "no block fits"),
    ],
)
def test_impossible_input_is_one_named_error(
    refused: Refused, kimi: dict[str, Any], given_values: dict[str, Any], names: str
) -> None:
    assert names in str(refused(kimi, **given_values))


def test_ngram_speculation_needs_no_cache(ask: Ask, kimi: dict[str, Any]) -> None:
    plain = ask(kimi, available_kv_cache_bytes=GIB)
    assert ask(kimi, available_kv_cache_bytes=GIB, speculative_config={"method": "ngram"}) == plain
