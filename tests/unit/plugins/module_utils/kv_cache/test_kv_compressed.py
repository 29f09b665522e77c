# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DeepSeek-V4: a window on every layer, a compressed history on most, pages of several sizes in one block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError

Ask = Callable[..., dict[str, Any]]
Config = Callable[[str], dict[str, Any]]
GIB = 1 << 30
FLASH = "deepseek-ai__DeepSeek-V4-Flash"


@pytest.mark.parametrize(
    ("version", "bytes_per_block", "concurrency"),
    [
        ("0.20.2", 22 * (37440 + 8640 + 1728), 9.41),
        ("0.22.0", 22 * (37440 + 8640 + 1728), 9.41),
        ("0.23.0", 22 * 37440 + 21 * 8640 + 20 * 1728, 9.52),  # as printed on two H200
        ("0.25.0", 22 * 37440 + 21 * 8640 + 20 * 1728, 9.52),
        ("0.27.1", 21 * 37440 + 21 * 8640 + 20 * 1728, 4.78),
        ("0.33.0", 21 * 37440 + 21 * 8640 + 20 * 1728, 4.78),
    ],
)
def test_blocks_and_requests_by_release(
    version: str, bytes_per_block: int, concurrency: float, ask: Ask, published: Config
) -> None:
    budget = ask(
        published(FLASH),
        version=version,
        kv_cache_dtype="fp8",
        max_model_len=131072,
        available_kv_cache_bytes=round(32.08 * GIB),
    )["kv_cache"]
    assert (budget["dtype"], budget["block_size"]) == ("fp8_ds_mla", 256)
    assert budget["bytes_per_block"] == bytes_per_block
    assert round(budget["max_concurrency"], 2) == concurrency


def test_both_spellings_of_the_ratios(ask: Ask, published: Config) -> None:
    config = published(FLASH)
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    renamed = {key: value for key, value in config.items() if key != "compress_ratios"}
    renamed["layer_types"] = [kinds[ratio] for ratio in config["compress_ratios"]]
    renamed["compress_rates"] = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    one, other = (
        ask(each, kv_cache_dtype="fp8", available_kv_cache_bytes=20 * GIB)["kv_cache"] for each in (config, renamed)
    )
    assert one == other


def test_an_mtp_layer_keeps_a_window_only(ask: Ask, published: Config) -> None:
    common = {"kv_cache_dtype": "fp8", "available_kv_cache_bytes": 20 * GIB, "max_model_len": 131072}
    plain = ask(published(FLASH), **common)["kv_cache"]
    drafted = ask(published(FLASH), **common, speculative_config={"method": "mtp", "num_speculative_tokens": 1})
    windows = [
        sum(group["layers"] for group in each["groups"] if group["block_size"] == 64)
        for each in (plain, drafted["kv_cache"])
    ]
    assert windows == [43, 44]


@pytest.mark.parametrize(
    ("change", "given", "named"),
    [
        ({"head_dim": 256}, {}, "head_dim"),
        ({"compress_ratios": [0, 8] * 22}, {}, "compress_ratios"),
        ({"compress_ratios": [0, 4]}, {}, "compress_ratios"),
        ({"compress_ratios": None}, {}, "compress_ratios"),
        ({"compress_ratios": None, "compress_rates": {"a": "4"}, "layer_types": ["a"] * 43}, {}, "compress_rates"),
        ({"sliding_window": None}, {}, "sliding_window"),
        ({}, {"kv_cache_dtype": "bfloat16"}, "kv_cache_dtype"),
        ({}, {"version": "0.19.0"}, "0.19"),
        ({}, {"block_size": 64}, "block_size"),
        ({}, {"tp": 8, "dcp": 2}, "decode_context_parallel_size"),
        ({}, {"attention_backend": "FLASHINFER_MLA_SPARSE_DSV4", "compute_capability": "10.0"}, "attention_backend"),
    ],
)
def test_what_is_not_known_is_refused(
    change: dict[str, Any], given: dict[str, Any], named: str, ask: Ask, published: Config
) -> None:
    arguments = {"kv_cache_dtype": "fp8", "available_kv_cache_bytes": 20 * GIB, **given}
    with pytest.raises(ServingError) as caught:
        ask({**published(FLASH), **change}, **arguments)
    assert named in str(caught.value)


def test_auto_means_packed_from_0_30_and_is_noted_before(ask: Ask, published: Config) -> None:
    for version, noted in (("0.28.0", True), ("0.33.0", False)):
        budget = ask(published(FLASH), version=version, available_kv_cache_bytes=20 * GIB)
        assert budget["kv_cache"]["dtype"] == "fp8_ds_mla"
        assert any("--kv-cache-dtype fp8" in note for note in budget["notes"]) is noted


def test_minimax_m3_keeps_16_bit_index_keys(ask: Ask, published: Config) -> None:
    """vLLM's MiniMaxM3IndexerCache: sparse_index_dim elements of bfloat16, whatever the KV cache dtype."""
    for dtype, element in (("bfloat16", 2), ("fp8", 1)):
        budget = ask(published("MiniMaxAI__MiniMax-M3"), tp=4, kv_cache_dtype=dtype, available_kv_cache_bytes=20 * GIB)
        assert budget["kv_cache"]["bytes_per_token_per_gpu"] == 60 * 2 * 128 * element + 57 * 128 * 2
        assert budget["kv_cache"]["block_size"] == 128


def test_falcon_keeps_its_dtype_whatever_the_flag_says(ask: Ask) -> None:
    config = {
        "architectures": ["FalconForCausalLM"],
        "model_type": "falcon",
        "hidden_size": 4544,
        "num_hidden_layers": 32,
        "num_attention_heads": 71,
        "multi_query": True,
        "torch_dtype": "bfloat16",
    }
    budget = ask(config, kv_cache_dtype="fp8", available_kv_cache_bytes=GIB)
    assert budget["kv_cache"]["dtype"] == "bfloat16"
    assert budget["kv_cache"]["bytes_per_token_per_gpu"] == 32 * 2 * 64 * 2
    assert any("FalconForCausalLM" in note for note in budget["notes"])


def test_lightning_attention_keeps_one_matrix_per_head(ask: Ask) -> None:
    """MiniMax-Text-01: 80 layers, every eighth with attention; 64 heads of 128 x 128 elements on the others."""
    config = {
        "architectures": ["MiniMaxText01ForCausalLM"],
        "model_type": "minimax_text_01",
        "hidden_size": 6144,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10,
        "max_position_embeddings": 1048576,
        "torch_dtype": "bfloat16",
    }
    budget = ask(config, tp=8, version="0.20.2", available_kv_cache_bytes=20 * GIB)
    assert budget["family"] == "gqa+lightning"
    state = 64 // 8 * 128 * 128 * 2
    assert budget["kv_cache"]["block_size"] >= state / (2 * 128 * 2)
    assert {group["kind"] for group in budget["kv_cache"]["groups"]} == {"full_attention", "mamba"}
