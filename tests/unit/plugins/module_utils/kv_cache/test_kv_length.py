# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How lengths are written, and how long a context a model allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.length import (
    model_length_limit,
    parse_length,
    parse_max_model_len,
)
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release
from hypothesis import given
from hypothesis import strategies as st

Ask = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("128k", 128_000),
        ("128K", 131_072),
        ("262144", 262_144),
        (131072, 131_072),
        ("1.5k", 1_500),
        ("25.6k", 25_600),
        ("1M", 1_048_576),
        (" 8192 ", 8_192),
        ("auto", None),
        ("AUTO", None),
        ("-1", None),
        (-1, None),
    ],
)
def test_lengths_are_read_as_the_engine_reads_them(written: str | int, tokens: int | None) -> None:
    assert parse_max_model_len(written) == tokens


@pytest.mark.parametrize("written", ["1.5K", "131,072", "128 k", "0", "-2", "", "12kk", "1e5", "k", "12\u0663"])
def test_what_the_engine_would_not_read_is_refused(written: str) -> None:
    with pytest.raises(ServingError, match="cannot be read as a number of tokens"):
        parse_max_model_len(written)


@given(st.integers(min_value=1, max_value=10**7))
def test_suffixes_multiply(count: int) -> None:
    assert parse_length(f"{count}k", "x") == count * 1000
    assert parse_length(f"{count}K", "x") == count * 1024
    assert parse_length(str(count), "x") == count


def limit_of(config: dict[str, Any], version: str | None) -> int:
    return model_length_limit(config, parse_release(version)).tokens


YARN = {"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize("positions", [262144, 4096])
@pytest.mark.parametrize("version", [None, "0.16.0", "0.29.0"])
def test_yarn_is_not_counted_twice(positions: int, version: str | None) -> None:
    assert limit_of({"max_position_embeddings": positions, "rope_scaling": YARN}, version) == 262144


def test_from_0_30_the_engine_goes_by_the_positions_and_the_budget_says_so() -> None:
    config = {"max_position_embeddings": 4096, "rope_scaling": YARN}
    limit = model_length_limit(config, parse_release("0.32.0"))
    assert limit.tokens == 4096
    assert limit.note is not None
    assert "262144" in limit.note
    assert limit_of({"max_position_embeddings": 262144, "rope_scaling": YARN}, "0.32.0") == 262144


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"max_position_embeddings": 131072}, 131072),
        ({"max_position_embeddings": 8192, "rope_scaling": {"type": "linear", "factor": 4.0}}, 32768),
        ({"max_position_embeddings": 8192, "rope_scaling": {"type": "linear", "factor": float("inf")}}, 8192),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        ({"max_position_embeddings": 131072, "rope_parameters": {"rope_type": "default"}}, 131072),
        ({"max_position_embeddings": 4096, "rope_parameters": {"full_attention": YARN}}, 262144),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        # Gemma-3's positions already contain its factor
        (
            {
                "model_type": "gemma3",
                "max_position_embeddings": 131072,
                "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            },
            131072,
        ),
        (
            {"text_config": {"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0}}},
            131072,
        ),
        ({"n_positions": 2048}, 2048),
        ({"text_config": {"max_position_embeddings": 262144}}, 262144),
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, 32768),
    ],
)
def test_positions_and_scalings(config: dict[str, Any], tokens: int) -> None:
    assert limit_of(config, "0.20.0") == tokens


@pytest.mark.parametrize("positions", [None, 0, "131072", 4096.0])
def test_a_config_without_positions_is_refused(positions: object) -> None:
    with pytest.raises(ServingError, match="how many positions"):
        limit_of({"max_position_embeddings": positions}, None)


MAMBA = {
    "architectures": ["MambaForCausalLM"],
    "model_type": "mamba",
    "hidden_size": 2560,
    "intermediate_size": 5120,
    "num_hidden_layers": 64,
    "state_size": 16,
    "conv_kernel": 4,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("asked", "limit"),
    [({}, 2048), ({"max_model_len": 65536}, 65536), ({"max_model_len_cap": 8192}, 8192)],
)
def test_a_model_that_counts_no_positions_takes_any_length(ask: Ask, asked: dict[str, int], limit: int) -> None:
    """state-spaces/mamba-2.8b-hf as it was published: vLLM serves 2,048 tokens, or as many as it is told."""
    budget = ask(MAMBA, available_kv_cache_bytes=1 << 30, version="0.32.0", **asked)
    assert (budget["family"], budget["max_model_len"]["model_limit"]) == ("state", limit)
    assert budget["max_model_len"]["recommended"] == limit
    assert bool(budget["notes"]) is (not asked)


def test_a_given_cache_needs_no_positions(ask: Ask) -> None:
    common = {"available_kv_cache_bytes": 1 << 30, "kv_bytes_per_token_per_gpu": 1024}
    budget = ask({"architectures": ["NewForCausalLM"]}, max_model_len=4096, **common)
    assert (budget["family"], budget["max_model_len"]["model_limit"]) == ("given", 4096)
