# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Composed models: the language model that text_config (or its other names) describes decides the cache."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.families.names import COMPOSED, LANGUAGE_MODELS
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.shape import read_shape


def text(model_type: str, layers: int, heads: int, kv_heads: int, **fields: Any) -> dict[str, Any]:
    sizes = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
    return {"model_type": model_type, "hidden_size": 4096, "intermediate_size": 8192, **sizes, **fields}


MIXED = ["sliding_attention"] * 10 + ["full_attention"] * 2
MISTRAL = text("mistral", 40, 32, 8, sliding_window=None)
NEMOTRON = {
    "mamba_num_heads": 128,
    "mamba_head_dim": 80,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "hybrid_override_pattern": "M-M*-M-M-",
}


@pytest.mark.parametrize(
    ("architecture", "nested", "family", "kept"),
    [
        ("Mistral3ForConditionalGeneration", {"text_config": MISTRAL}, "gqa", 40),
        ("Mistral3ForConditionalGeneration", {"text_config": text("ministral3", 34, 32, 8)}, "gqa", 34),
        ("InternVLChatModel", {"llm_config": text("qwen3", 36, 32, 8, architectures=["Qwen3ForCausalLM"])}, "gqa", 36),
        (
            "InternVLChatModel",
            {"llm_config": text("gpt_oss", 24, 64, 8, architectures=["GptOssForCausalLM"])},
            "gqa+sliding",
            24,
        ),
        ("LlavaForConditionalGeneration", {"text_config": text("llama", 32, 32, 32)}, "gqa", 32),
        ("LlavaOnevisionForConditionalGeneration", {"text_config": text("qwen2", 28, 32, 4)}, "gqa", 28),
        ("AyaVisionForConditionalGeneration", {"text_config": text("cohere2", 32, 32, 8)}, "gqa+sliding", 32),
        ("PaliGemmaForConditionalGeneration", {"text_config": text("gemma2", 26, 8, 4)}, "gqa+sliding", 26),
        ("NemotronH_Nano_VL_V2", {"llm_config": text("nemotron_h", 9, 40, 8, **NEMOTRON)}, "gqa+mamba2", 5),
        (
            "DeepseekVLV2ForCausalLM",
            {"language_config": text("deepseek_v2", 27, 16, 16, kv_lora_rank=512, qk_rope_head_dim=64)},
            "mla",
            27,
        ),
        (
            "DeepseekOCRForCausalLM",
            {
                "language_config": text(
                    "deepseek_v2", 12, 10, 10, kv_lora_rank=None, qk_nope_head_dim=0, qk_rope_head_dim=0, head_dim=128
                )
            },
            "gqa",
            12,
        ),
        ("Lfm2VlForConditionalGeneration", {"text_config": text("lfm2", 4, 32, 8, conv_L_cache=3)}, "gqa", 4),
        (
            "Gemma4UnifiedForConditionalGeneration",
            {"text_config": text("gemma4_text", 12, 16, 8, layer_types=MIXED)},
            "gqa+sliding",
            12,
        ),
        (
            "Step3VLForConditionalGeneration",
            {"text_config": {**text("step3_text", 61, 64, 64), "num_attention_groups": 1, "head_dim": 256}},
            "gqa",
            61,
        ),
    ],
)  # fmt: skip
def test_the_language_model_decides(architecture: str, nested: dict[str, Any], family: str, kept: int) -> None:
    shape = read_shape({"architectures": [architecture], "model_type": "outer", **nested})
    assert (shape.family, len(shape.caches)) == (family, kept)


@pytest.mark.parametrize(
    ("nested", "says"),
    [
        ({"text_config": text("mistral4", 36, 32, 8, kv_lora_rank=256)}, "kv_lora_rank"),
        ({"text_config": text("something_new", 36, 32, 8)}, "something_new"),
        ({"text_config": text("x", 36, 32, 8, architectures=["BrandNewForCausalLM"])}, "not known"),
        ({}, "None"),
    ],
)
def test_another_language_model_is_refused_by_name(nested: dict[str, Any], says: str) -> None:
    with pytest.raises(ServingError) as caught:
        read_shape({"architectures": ["Mistral3ForConditionalGeneration"], **nested})
    assert caught.value.what.startswith("cannot estimate")
    assert says in str(caught.value.why)


def test_gemma_3_as_published_leaves_out_what_its_class_fills_in() -> None:
    """google/gemma-3-4b-it names neither heads nor positions."""
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
    }
    shape = read_shape(config)
    assert (shape.num_attention_heads, shape.num_key_value_heads, shape.head_size) == (8, 4, 256)
    assert Counter(getattr(cache, "window", None) for cache in shape.caches) == {1024: 29, None: 5}


@pytest.mark.parametrize(
    "fields",
    [
        {"intermediate_size": [8192] * 32},
        {"num_local_experts": 0},
        {"num_experts": 64, "moe_topk": [8] * 32, "moe_intermediate_size": [3072] * 32},
        {"moe_num_experts": [64, 64], "moe_intermediate_size": [1536, 512], "moe_k": 6},
        {"moe_intermediate_size": None, "n_routed_experts": None},
    ],
)
def test_fields_of_feed_forward_layers_never_refuse_a_cache(fields: dict[str, Any]) -> None:
    config = {"architectures": ["LlamaForCausalLM"], **text("llama", 32, 32, 8), **fields}
    assert read_shape(config).family == "gqa"


def test_every_language_model_is_known() -> None:
    assert not set(LANGUAGE_MODELS.values()) & set(COMPOSED)
    for model_type, architecture in LANGUAGE_MODELS.items():
        config = {"architectures": ["LlavaForConditionalGeneration"], "text_config": text(model_type, 8, 32, 8)}
        try:
            read_shape(config)
        except ServingError as error:
            assert architecture in str(error) or "config.json" in str(error)
            assert "not known to this release" not in str(error)
