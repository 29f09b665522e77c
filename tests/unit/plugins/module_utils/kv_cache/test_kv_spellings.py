# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of config.json by all their names and nestings; those that are missing or impossible are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.family import family_of
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.shape import read_shape

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    "change",
    [
        {"sliding_window": None},
        {"sliding_window": 0},
        {"sliding_window": 4096, "use_sliding_window": False},
        {"sliding_window": 4096, "model_type": "qwen3"},
        {"layer_types": ["full_attention"] * 32},
        {"attention_chunk_size": None},
        {"architectures": ["SmolLM3ForCausalLM"], "no_rope_layers": [1, 1, 1, 0] * 8},
    ],
)
def test_a_window_that_is_off_is_none(change: dict[str, Any]) -> None:
    assert family_of({**LLAMA, **change}) == "gqa"


@pytest.mark.parametrize(
    ("change", "windows"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, 32),
        ({"model_type": "mistral"}, 32),  # the configuration class fills in 4,096
        ({"model_type": "mistral", "sliding_window": None}, 0),
        ({"layer_types": ["sliding_attention", "full_attention"] * 16, "sliding_window": 512}, 16),
        ({"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 512, "max_window_layers": 24}, 8),
        ({"model_type": "gemma2", "sliding_window": 4096}, 16),
        ({"model_type": "gemma3_text", "sliding_window": 1024}, 27),
        ({"model_type": "gemma3_text", "sliding_window": 1024, "sliding_window_pattern": 4}, 24),
        ({"model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLLG"}, 24),
        ({"model_type": "gpt_oss", "sliding_window": 128}, 16),
    ],
)
def test_spellings_of_windows(change: dict[str, Any], windows: int) -> None:
    shape = read_shape({**LLAMA, **change})
    assert sum(1 for cache in shape.caches if getattr(cache, "window", None)) == windows


def test_cohere_counts_the_token_itself() -> None:
    config = {**LLAMA, "architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", "sliding_window": 4096}
    assert {getattr(cache, "window", 0) for cache in read_shape(config).caches} == {None, 4097}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": "32"}, "num_attention_heads"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": 4095}, "head_dim"),
        ({"num_key_value_heads": 0}, "num_key_value_heads"),
        ({"head_dim": True}, "head_dim"),
        ({"architectures": []}, "architecture"),
        ({"architectures": None}, "architecture"),
        ({"layer_types": ["full_attention"] * 31}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 32}, "sliding_window"),
        ({"layer_types": "full_attention"}, "layer_types"),
        ({"layer_types": ["full_attention", "... 31 entries in the original"]}, "layer_types"),
    ],
)
def test_missing_and_impossible_fields_are_named(change: dict[str, Any], names: str) -> None:
    with pytest.raises(ServingError) as caught:
        read_shape({**LLAMA, **change})
    assert names in str(caught.value)


@pytest.mark.parametrize(
    ("change", "kv_heads"),
    [
        ({"num_key_value_heads": None}, 32),
        ({"num_key_value_heads": None, "num_kv_heads": 4}, 4),
        ({"num_key_value_heads": None, "n_head_kv": 4}, 4),
        ({"num_key_value_heads": None, "multi_query_group_num": 2}, 2),
        ({"num_key_value_heads": None, "num_attention_groups": 8}, 8),
        ({"architectures": ["DbrxForCausalLM"], "attn_config": {"kv_n_heads": 8}}, 8),
        ({"architectures": ["FalconForCausalLM"], "multi_query": True}, 1),
        ({"architectures": ["FalconForCausalLM"], "multi_query": True, "new_decoder_architecture": True}, 8),
    ],
)
def test_spellings_of_key_value_heads(change: dict[str, Any], kv_heads: int) -> None:
    assert read_shape({**LLAMA, **change}).num_key_value_heads == kv_heads


@pytest.mark.parametrize(
    "nest",
    [
        lambda text: {"text_config": text},
        lambda text: {"llm_config": text},
        lambda text: {"language_config": text},
        lambda text: {"thinker_config": {"text_config": text}},
        lambda text: {"thinker_config": {"text_config": text}, "talker_config": {"text_config": {}}},
    ],
)
def test_nestings(nest: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    text = {key: value for key, value in LLAMA.items() if key != "architectures"}
    nested = {"architectures": ["Qwen3OmniMoeForConditionalGeneration"], **nest(text)}
    assert read_shape(nested).kept == read_shape(LLAMA).kept


def test_head_dim_wins_over_the_quotient_and_0_means_not_set() -> None:
    assert read_shape({**LLAMA, "head_dim": 256}).head_size == 256
    assert read_shape({**LLAMA, "head_dim": 0}).head_size == 128
    assert read_shape({**LLAMA, "model_type": "qwen3", "hidden_size": 5120}).head_size == 128
