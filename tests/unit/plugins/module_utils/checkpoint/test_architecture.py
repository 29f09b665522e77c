# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blueprint of every configuration in the collection of published ones, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.architecture import describe, uses_mla
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError

CONFIGS = Path(__file__).parents[3] / "data" / "checkpoints" / "configs"

# Attention by the language model's type; every type that is not named is grouped-query attention.
ATTENTION = {
    "deepseek_v2": "mla",
    "deepseek_v3": "mla",
    "deepseek_v32": "mla",
    "deepseek_v4": "mla",
    "glm_moe_dsa": "mla",
    "kimi_k2": "mla",
    "kimi_linear": "hybrid",
    "nemotron_h": "hybrid",
    "qwen3_5_moe_text": "hybrid",
    "qwen3_5_text": "hybrid",
    "qwen3_next": "hybrid",
    "deepseek_ref": "unknown",
}
SPARSE = {"deepseek_v32", "deepseek_v4", "glm_moe_dsa", "deepseek_ref"}


def load(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text())
    return config


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_published_configuration_has_a_blueprint(path: Path) -> None:
    blueprint = describe(load(path.stem))
    kind = blueprint.text_model_type
    assert blueprint.attention == ATTENTION.get(kind or "", "gqa")
    assert blueprint.use_sparse == (kind in SPARSE)
    assert blueprint.num_layers and blueprint.num_attention_heads and blueprint.hidden_size
    assert blueprint.head_size and blueprint.vocab_size and blueprint.max_position_embeddings
    assert blueprint.num_key_value_heads or kind == "nemotron-nas"
    assert blueprint.experts["routed"] is not None


def test_kimi_k25_is_described_from_its_text_config() -> None:
    blueprint = describe(load("nvidia__Kimi-K2.5-NVFP4"))
    assert blueprint.architecture == "KimiK25ForConditionalGeneration"
    assert (blueprint.model_type, blueprint.text_model_type) == ("kimi_k25", "deepseek_v3")
    assert (blueprint.num_layers, blueprint.head_size, blueprint.kv_lora_rank) == (61, 576, 512)
    assert blueprint.qk_rope_head_dim == 64
    assert blueprint.experts == {"routed": 384, "active": 8, "shared": None}
    assert blueprint.vocab_size == 163840
    assert blueprint.max_position_embeddings == 262144
    assert blueprint.dtype == "bfloat16"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"n_layer": 12, "n_head": 8, "n_embd": 512, "n_positions": 1024}, (12, 8, 64, 1024)),
        ({"llm_config": {"num_hidden_layers": 4, "num_attention_heads": 2, "hidden_size": 64}}, (4, 2, 32, None)),
        ({"num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 0, "hidden_size": 64}, (4, 8, 8, None)),
        (
            {"thinker_config": {"text_config": {"num_hidden_layers": 3, "num_attention_heads": 1, "head_dim": 7}}},
            (3, 1, 7, None),
        ),
    ],
)
def test_other_spellings_and_nestings(config: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = describe(config)
    assert (
        found.num_layers,
        found.num_attention_heads,
        found.head_size,
        found.max_position_embeddings,
    ) == expected


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, {"routed": 0, "active": 0, "shared": 0}),
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, {"routed": 8, "active": 2, "shared": None}),
        ({"n_routed_experts": 384, "n_shared_experts": 1}, {"routed": 384, "active": None, "shared": 1}),
        ({"num_experts": 60, "shared_expert_intermediate_size": 9}, {"routed": 60, "active": None, "shared": 1}),
        ({"moe_num_experts": [64, 64]}, {"routed": 64, "active": None, "shared": None}),
        ({"block_configs": [{}, {"n_routed_experts": 4}]}, {"routed": 4, "active": None, "shared": None}),
    ],
)
def test_experts(extra: dict[str, Any], expected: dict[str, int | None]) -> None:
    assert describe({"num_hidden_layers": 1, "num_attention_heads": 1, **extra}).experts == expected


def test_a_latent_rank_alone_does_not_make_mla() -> None:
    config = {"num_hidden_layers": 1, "num_attention_heads": 1, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert describe({**config, "model_type": "deepseek_v3"}).attention == "mla"
    assert describe({**config, "model_type": "tomorrow"}).attention == "unknown"
    assert not describe({**config, "model_type": "tomorrow"}).use_mla


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"vision_config": {}}, "config.json"),
        ({"text_config": [1]}, "config.json#/text_config"),
        ({"num_hidden_layers": "61", "num_attention_heads": 1}, "config.json#/num_hidden_layers"),
        ({"num_hidden_layers": True, "num_attention_heads": 1}, "config.json#/num_hidden_layers"),
        ({"num_hidden_layers": 1, "architectures": "X"}, "config.json#/architectures"),
        ({"num_hidden_layers": 1, "model_type": 5}, "config.json#/model_type"),
        ({"num_hidden_layers": float("inf")}, "config.json#/num_hidden_layers"),
        ({"num_hidden_layers": 1, "num_attention_heads": float("nan")}, "config.json#/num_attention_heads"),
    ],
)
def test_what_is_no_language_model_is_refused_by_name(config: dict[str, Any], where: str) -> None:
    with pytest.raises(ServingError) as caught:
        describe(config)
    assert caught.value.where == where


@pytest.mark.parametrize("model_type", [["kimi_k25"], {}])
def test_a_model_type_that_is_no_string_is_refused_by_name(model_type: object) -> None:
    with pytest.raises(ServingError) as caught:
        uses_mla({"num_hidden_layers": 1, "model_type": model_type})
    assert caught.value.where == "config.json#/model_type"
