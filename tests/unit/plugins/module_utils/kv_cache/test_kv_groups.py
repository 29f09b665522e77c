# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of several kinds in groups: check values of vLLM's planner, releases, drafts, dtypes, what always holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import Card
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.grouping import groups_of_stages
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import LayerSpec, Serving
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.planner import Planner
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.specs import hybrid_block_size
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 1 << 30
RECORD = int(11.7 * GIB)

Ask = Callable[..., dict[str, Any]]
Config = Callable[[str], dict[str, Any]]
Refused = Callable[..., ServingError]


@pytest.mark.parametrize(
    ("name", "given_values", "tokens", "concurrency"),
    [
        # 20 GiB on one card of the named release with 4,096 tokens in flight (0.33: two batches of 2,048).
        ("openai__gpt-oss-120b", {"max_num_batched_tokens": 2048, "max_model_len": 131072}, 564_274, 4.31),
        ("google__gemma-3-27b-it", {"max_num_batched_tokens": 2048, "max_model_len": 131072}, 212_243, 1.62),
    ],
)
def test_check_values(
    ask: Ask, published: Config, name: str, given_values: dict[str, Any], tokens: int, concurrency: float
) -> None:
    cache = ask(published(name), version="0.33.0", available_kv_cache_bytes=20 * GIB, **given_values)["kv_cache"]
    assert cache["token_capacity"] == tokens
    assert round(cache["max_concurrency"], 2) == concurrency


@pytest.mark.parametrize(
    ("asked", "block_size", "tokens"),
    [
        ({}, 544, 862_711),
        ({"mamba_ssm_cache_dtype": "float32"}, 1056, 846_848),  # 6.46x, by vLLM 0.33's planner
        ({"mamba_cache_dtype": "float32"}, 1072, 847_806),
        ({"mamba_cache_dtype": "bfloat16", "mamba_ssm_cache_dtype": "bfloat16"}, 544, 862_711),
    ],
)
def test_states_of_another_dtype(
    ask: Ask, published: Config, asked: dict[str, str], block_size: int, tokens: int
) -> None:
    """20 GiB for Qwen3-Next; the convolution's state and the recurrent one have a dtype each."""
    config = published("Qwen__Qwen3-Next-80B-A3B-Instruct")
    common = {"version": "0.33.0", "available_kv_cache_bytes": 20 * GIB, "max_model_len": 131072}
    cache = ask(config, mamba_cache_mode="none", **common, **asked)["kv_cache"]
    assert (cache["block_size"], cache["token_capacity"]) == (block_size, tokens)


def test_sparse_attention_with_its_packed_cache(ask: Ask, published: Config) -> None:
    """656 bytes per latent vector and 132 per indexer key: 261,312 tokens in 11.7 GiB."""
    cache = ask(
        published("deepseek-ai__DeepSeek-V3.2"),
        tp=8,
        version="0.33.0",
        kv_cache_dtype="fp8",
        compute_capability="12.0",
        max_model_len=131072,
        available_kv_cache_bytes=RECORD,
    )["kv_cache"]
    assert (cache["dtype"], cache["block_size"], cache["token_capacity"]) == ("fp8_ds_mla", 64, 261_312)
    assert cache["bytes_per_token_per_gpu"] == 61 * (656 + 132)


def test_padding_layers(ask: Ask, published: Config) -> None:
    """10 layers that see everything and 52 that slide: six groups of ten, the last of eight layers and two padded."""
    groups = ask(published("google__gemma-3-27b-it"), available_kv_cache_bytes=20 * GIB)["kv_cache"]["groups"]
    assert [(group["kind"], group["layers"]) for group in groups] == [
        ("sliding_window", 9),
        ("sliding_window", 9),
        ("sliding_window", 9),
        ("sliding_window", 9),
        ("sliding_window", 8),
        ("sliding_window", 8),
        ("full_attention", 10),
    ]


def test_heads_of_two_sizes_share_a_page(ask: Ask, published: Config) -> None:
    """Gemma 4: a page of 16 tokens of a sliding layer holds 32 tokens of a layer that sees everything."""
    groups = ask(published("google__gemma-4-26B-A4B"), version="0.32.0", available_kv_cache_bytes=20 * GIB)["kv_cache"]
    sizes = {group["kind"]: group["block_size"] for group in groups["groups"]}
    assert sizes == {"sliding_window": 16, "full_attention": 32}


@pytest.mark.parametrize(
    ("name", "tp", "dtype", "block"),
    [
        ("Qwen__Qwen3-Next-80B-A3B-Instruct", 2, "bfloat16", 544),  # printed by vLLM 0.11.2
        ("nvidia__Qwen3.6-35B-A3B-NVFP4", 1, "bfloat16", 1056),  # printed by vLLM 0.19.2
        ("nvidia__Qwen3.6-27B-NVFP4", 2, "fp8", 1568),  # printed with Qwen3.8-27B
    ],
)
def test_blocks_that_hold_a_state(ask: Ask, published: Config, name: str, tp: int, dtype: str, block: int) -> None:
    budget = ask(published(name), tp=tp, kv_cache_dtype=dtype, version="0.24.0", available_kv_cache_bytes=20 * GIB)
    assert budget["kv_cache"]["block_size"] == block


def test_alignment_of_mla_hybrids_by_release() -> None:
    sizes = [
        hybrid_block_size(16, 1152, 2_211_840, uses_mla=True, release=parse_release(version))
        for version in ("0.19.0", "0.20.0", "0.27.0")
    ]
    assert sizes == [1920, 1920, 1920]
    assert hybrid_block_size(16, 1152, 2_170_000, uses_mla=True, release=parse_release("0.26.0")) == 1888
    assert hybrid_block_size(16, 1152, 2_170_000, uses_mla=True, release=parse_release("0.27.0")) == 1920
    assert hybrid_block_size(16, 1152, 2_170_000, uses_mla=True, release=parse_release("0.19.0")) == 1920


def test_states_per_request_by_release_and_mode(ask: Ask, published: Config) -> None:
    qwen = published("nvidia__Qwen3.6-35B-A3B-NVFP4")

    def blocks(version: str, **more: Any) -> int:
        cache = ask(qwen, version=version, max_model_len=4096, available_kv_cache_bytes=20 * GIB, **more)["kv_cache"]
        return sum(group["blocks_per_request"] for group in cache["groups"] if group["kind"] == "mamba")

    assert blocks("0.25.0") == 3
    assert blocks("0.25.0", mamba_cache_mode="align") == 6
    assert blocks("0.27.0") == 3
    assert blocks("0.28.0") == 6
    assert blocks("0.28.0", mamba_cache_mode="none") == 3
    assert blocks("0.25.0", mamba_cache_mode="all") == 3 * 4  # blocks of 1,280 tokens
    assert blocks("0.32.0", mamba_cache_mode="all") == 6


def test_a_hybrid_without_cached_prefixes(ask: Ask, refused: Refused, published: Config) -> None:
    """A public log of vLLM 0.26.0 with Qwen3.8-27B-FP8, of the same layers, on an L40S: no argument about prefixes."""
    cards = [Card(0, "NVIDIA L40S", round(44.39 * GIB), round(43.97 * GIB), ())]
    asked = {"version": "0.26.0", "compute_capability": "8.9", "max_model_len": 131_072, "cards": cards}
    model = published("Qwen__Qwen3.5-27B")
    for available, max_num_seqs, tokens in ((8.82, None, 141_036), (9.75, 16, 155_600)):
        budget = ask(model, **asked, available_kv_cache_bytes=int(available * GIB), max_num_seqs=max_num_seqs)
        assert budget["kv_cache"]["token_capacity"] == tokens
        # with 256 sequences, the default of such a card, the same start ended with this
        words = "max_num_seqs (256) exceeds available Mamba cache blocks (184). Each decode sequence requires one Mamba"
        assert any(words in note for note in budget["notes"]) == (max_num_seqs is None)
    error = refused(model, **asked, available_kv_cache_bytes=int(7.04 * GIB))
    assert "8.18 GiB KV cache is needed" in str(error.why)
    assert "the estimated maximum model length is 112896" in str(error.why)


def test_more_requests_than_states(ask: Ask, published: Config) -> None:
    qwen = published("Qwen__Qwen3.5-27B")

    def said(config: dict[str, Any] = qwen, **more: Any) -> bool:
        notes = ask(config, version="0.26.0", max_model_len=4096, available_kv_cache_bytes=GIB, **more)["notes"]
        return any("blocks that can hold a request's states" in note for note in notes)

    assert said(max_num_seqs=256)
    assert not said(max_num_seqs=256, enforce_eager=True)
    assert not said(max_num_seqs=2)
    assert not said()  # neither given nor a card that has a default
    assert not said(published("Qwen__Qwen3-0.6B"), max_num_seqs=100_000)


@pytest.mark.parametrize(
    ("name", "version", "capability", "states"),
    [
        ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0.31.0", None, 2),
        ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0.32.0", None, 3),
        ("moonshotai__Kimi-K3", "0.28.0", "12.0", 2),
        ("moonshotai__Kimi-K3", "0.29.0", "12.0", 3),
        ("moonshotai__Kimi-K3", "0.29.0", "8.0", 2),
        ("nvidia__Qwen3.6-27B-NVFP4", "0.32.0", "12.0", 2),
        ("nvidia__Qwen3.6-27B-NVFP4", "0.33.0", "12.0", 3),
        ("nvidia__Qwen3.6-27B-NVFP4", "0.33.0", "8.9", 2),
    ],
)
def test_a_prefill_kernel_that_exports_a_state_keeps_one_more(
    ask: Ask, published: Config, name: str, version: str, capability: str | None, states: int
) -> None:
    budget = ask(
        published(name),
        version=version,
        compute_capability=capability,
        max_model_len=4096,
        available_kv_cache_bytes=20 * GIB,
        kv_cache_dtype="bfloat16",
    )
    groups = budget["kv_cache"]["groups"]
    assert {group["blocks_per_request"] for group in groups if group["kind"] == "mamba"} == {states}


def test_windows_reserve_for_every_batch_in_flight(ask: Ask, published: Config) -> None:
    gpt = published("openai__gpt-oss-20b")

    def blocks(version: str, **more: Any) -> int:
        asked = {"max_model_len": 131072, "max_num_batched_tokens": 2048, "available_kv_cache_bytes": 20 * GIB}
        groups = ask(gpt, version=version, **{**asked, **more})["kv_cache"]["groups"]
        return next(int(group["blocks_per_request"]) for group in groups if group["kind"] == "sliding_window")

    assert blocks("0.25.0") == -(-(127 + 2048) // 16) + 1
    assert blocks("0.26.0") == -(-(127 + 2 * 2048) // 16) + 1
    assert blocks("0.26.0", async_scheduling=False) == blocks("0.25.0")
    assert blocks("0.26.0", pp=2) == blocks("0.26.0")
    assert blocks("0.30.0", pp=2) == -(-(127 + 3 * 2048) // 16) + 1
    ngram = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}
    assert blocks("0.26.0", **ngram) == blocks("0.25.0")


def test_without_the_hybrid_manager_windows_keep_everything(ask: Ask, published: Config) -> None:
    gpt = published("openai__gpt-oss-20b")
    (group,) = ask(gpt, disable_hybrid_kv_cache_manager=True, available_kv_cache_bytes=20 * GIB)["kv_cache"]["groups"]
    assert (group["kind"], group["layers"]) == ("full_attention", 24)
    (group,) = ask(
        published("meta-llama__Llama-4-Scout-17B-16E-Instruct"), available_kv_cache_bytes=20 * GIB, max_model_len=32768
    )["kv_cache"]["groups"]
    assert (group["kind"], group["layers"]) == ("full_attention", 48)


def test_pages_that_cannot_be_made_equal_are_refused_before_the_release_that_pads(
    ask: Ask, refused: Refused, published: Config
) -> None:
    """MiMo-V2-Flash at TP 8: a page of keys and values of a layer that sees everything does not divide the other."""
    mimo = {**published("XiaomiMiMo__MiMo-V2-Flash"), "swa_head_dim": 128, "swa_v_head_dim": 128}
    asked: dict[str, Any] = {"available_kv_cache_bytes": 20 * GIB, "max_model_len": 4096}
    assert "pages of one size" in str(refused(mimo, version="0.23.0", **asked))
    assert ask(mimo, version="0.24.0", **asked)["fits"]


layers = st.lists(
    st.one_of(
        st.builds(lambda size: LayerSpec("full_attention", 16, 2 * size, layout=(size,)), st.sampled_from([64, 128])),
        st.builds(
            lambda window, size: LayerSpec("sliding_window", 16, 2 * size, window=window, layout=(size,)),
            st.sampled_from([128, 1024]),
            st.sampled_from([64, 128]),
        ),
        st.builds(lambda bytes_: LayerSpec("mamba", 16, state_bytes=bytes_, padded_page=4096), st.integers(1, 4096)),
    ),
    min_size=1,
    max_size=24,
)
planners = st.builds(
    lambda specs, cut, version, in_flight: Planner(
        groups_of_stages([specs[:cut], specs[cut:]] if 0 < cut < len(specs) else [specs], parse_release(version)),
        16,
        Serving(in_flight_tokens=in_flight, state_blocks=2),
        parse_release(version),
    ),
    specs=layers,
    cut=st.integers(0, 24),
    version=st.sampled_from(["0.26.0", "0.29.0", "0.33.0"]),
    in_flight=st.sampled_from([2048, 16384]),
)


@settings(deadline=None)
@given(planners, st.integers(0, 1 << 32), st.integers(0, 1 << 30), st.integers(1, 300_000), st.integers(0, 5000))
def test_what_always_holds(planner: Planner, available: int, memory: int, length: int, longer: int) -> None:
    assert planner.num_blocks(available) <= planner.num_blocks(available + memory)
    assert planner.token_capacity(length, available) <= planner.token_capacity(length, available + memory)
    assert planner.bytes_needed(length) <= planner.bytes_needed(length + longer)
    needed = planner.bytes_needed(length) + planner.held_back_bytes
    assert planner.fits(length, needed)
    assert not planner.fits(length, needed - 1)
    limit = 1 << 20
    largest = planner.largest_that_fits(available, limit)
    assert largest == 0 or planner.fits(largest, available)
    assert largest == limit or not planner.fits(largest + 1, available)
    assert largest <= planner.largest_that_fits(available + memory, limit)


@given(layers, st.sampled_from(["0.26.0", "0.33.0"]))
def test_no_layer_is_lost_and_all_pages_are_one_size(specs: list[LayerSpec], version: str) -> None:
    (groups,) = groups_of_stages([specs], parse_release(version))
    assert sum(len(group.layers) for group in groups) == len(specs)
    if len(groups) > 1:
        assert len({layer.page_bytes for group in groups for layer in group.layers}) == 1
        assert max(len(group.layers) for group in groups) <= len(specs)


def test_an_encoder_is_reserved_for_by_the_batch(ask: Ask) -> None:
    whisper = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "d_model": 1280,
        "decoder_layers": 32,
        "decoder_attention_heads": 20,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "torch_dtype": "bfloat16",
    }
    cache = ask(whisper, version="0.32.0", max_num_batched_tokens=8192, available_kv_cache_bytes=10 * GIB)["kv_cache"]
    assert [(group["kind"], group["blocks_per_request"]) for group in cache["groups"]] == [
        ("full_attention", 448 // 16),
        ("cross_attention", 8192 // 16),
    ]
