# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known, what is refused by name, and impossible fields."""

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
    ("name", "family", "layers", "kv_heads", "head_size"),
    [
        ("nvidia__Kimi-K2.5-NVFP4", "mla", 61, 1, 576),
        ("moonshotai__Kimi-K2.5", "mla", 61, 1, 576),
        ("moonshotai__Kimi-K2-Instruct", "mla", 61, 1, 576),
        ("deepseek-ai__DeepSeek-R1", "mla", 61, 1, 576),
        ("deepseek-ai__DeepSeek-V2-Lite", "mla", 27, 1, 576),
        ("meta-llama__Meta-Llama-3.1-405B", "gqa", 126, 8, 128),
        ("Qwen__Qwen3-235B-A22B", "gqa", 94, 4, 128),
        ("Qwen__Qwen3-VL-8B-Instruct", "gqa", 36, 8, 128),
        ("Qwen__Qwen2.5-0.5B-Instruct", "gqa", 24, 2, 64),
        ("MiniMaxAI__MiniMax-M2.7", "gqa", 62, 8, 128),
        ("XiaomiMiMo__MiMo-7B-Base", "gqa", 36, 8, 128),
        ("microsoft__phi-4", "gqa", 40, 10, 128),
    ],
)
def test_shapes_of_published_models(
    published: Callable[[str], dict[str, Any]], name: str, family: str, layers: int, kv_heads: int, head_size: int
) -> None:
    shape = read_shape(published(name))
    assert (shape.family, shape.layers, shape.num_key_value_heads, shape.head_size) == (
        family,
        layers,
        kv_heads,
        head_size,
    )


@pytest.mark.parametrize(
    ("name", "architecture", "reason"),
    [
        ("openai__gpt-oss-120b", "GptOssForCausalLM", "sliding_window"),
        ("google__gemma-2-27b-it", "Gemma2ForCausalLM", "sliding_window"),
        ("google__gemma-3-27b-it", "Gemma3ForConditionalGeneration", "sliding"),
        ("google__gemma-4-26B-A4B", "Gemma4ForConditionalGeneration", "share a cache"),
        ("meta-llama__Llama-4-Scout-17B-16E-Instruct", "Llama4ForConditionalGeneration", "chunked"),
        ("deepseek-ai__DeepSeek-V3.2", "DeepseekV32ForCausalLM", "index_topk"),
        ("deepseek-ai__DeepSeek-V4-Flash", "DeepseekV4ForCausalLM", "config.json says"),
        ("zai-org__GLM-5.1", "GlmMoeDsaForCausalLM", "DSA"),
        ("moonshotai__Kimi-K3", "KimiK3ForConditionalGeneration", "KDA"),
        ("Qwen__Qwen3-Next-80B-A3B-Instruct", "Qwen3NextForCausalLM", "GDN"),
        ("Qwen__Qwen3.5-397B-A17B", "Qwen3_5MoeForConditionalGeneration", "GDN"),
        ("nvidia__Nemotron-H-56B-Base-8K", "NemotronHForCausalLM", "Mamba"),
        ("nvidia__Llama-3_3-Nemotron-Super-49B-v1", "DeciLMForCausalLM", "NAS"),
        ("stepfun-ai__Step-3.7-Flash", "Step3p7FlashForCausalLM", "sliding_window"),
        ("MiniMaxAI__MiniMax-M3", "MiniMaxM3ForCausalLM", "sparse"),
    ],
)
def test_other_families_are_refused_by_name(
    published: Callable[[str], dict[str, Any]], name: str, architecture: str, reason: str
) -> None:
    with pytest.raises(ServingError) as caught:
        read_shape(published(name))
    assert caught.value.what == f"cannot estimate {architecture}"
    assert reason in str(caught.value.why)
    assert "available_kv_cache_bytes" in str(caught.value.remedy)


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ["BrandNewForCausalLM"]},
        {"kv_lora_rank": 512},
        {"sliding_window": 4096},
        {"layer_types": ["full_attention", "sliding_attention"]},
        {"is_encoder_decoder": True},
        {"architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512},
        {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"},
        {"architectures": ["MiniMaxM2ForCausalLM"], "attn_type_list": [0, 1]},
    ],
)
def test_nothing_is_read_as_something_else(change: dict[str, Any]) -> None:
    with pytest.raises(ServingError, match="cannot estimate"):
        family_of({**LLAMA, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"sliding_window": None},
        {"sliding_window": 0},
        {"sliding_window": 4096, "use_sliding_window": False},
        {"sliding_window": 4096, "model_type": "qwen3"},
        {"layer_types": ["full_attention"] * 32},
        {"attention_chunk_size": None},
    ],
)
def test_a_window_that_is_off_is_none(change: dict[str, Any]) -> None:
    assert family_of({**LLAMA, **change}) == "gqa"


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
        ({"architectures": ["DbrxForCausalLM"], "attn_config": {"kv_n_heads": 8}}, 8),
        ({"architectures": ["FalconForCausalLM"], "multi_query": True}, 1),
        ({"architectures": ["FalconForCausalLM"], "multi_query": True, "new_decoder_architecture": True}, 8),
    ],
)
def test_spellings_of_key_value_heads(change: dict[str, Any], kv_heads: int) -> None:
    assert read_shape({**LLAMA, **change}).num_key_value_heads == kv_heads


def test_head_dim_wins_over_the_quotient_and_0_means_not_set() -> None:
    assert read_shape({**LLAMA, "head_dim": 256}).head_size == 256
    assert read_shape({**LLAMA, "head_dim": 0}).head_size == 128
