# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a draft adds to the cache: MTP layers, draft models, longer states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.speculative import read_draft

GIB = 1 << 30
RECORD = int(11.7 * GIB)

Ask = Callable[..., dict[str, Any]]
Config = Callable[[str], dict[str, Any]]
Refused = Callable[..., ServingError]


def test_drafted_tokens_lengthen_the_state(ask: Ask, published: Config) -> None:
    """8,432 tokens per block were printed with MTP of three tokens; a block holds less without."""
    super_120b = published("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4")
    asked: dict[str, Any] = {"kv_cache_dtype": "fp8", "version": "0.19.1", "available_kv_cache_bytes": 20 * GIB}
    drafting = {"speculative_config": {"method": "mtp", "num_speculative_tokens": 3}}
    assert ask(super_120b, **asked, **drafting)["kv_cache"]["block_size"] == 8432
    assert ask(super_120b, **asked)["kv_cache"]["block_size"] == 8320


@pytest.mark.parametrize(
    ("method", "config", "more"),
    [
        ("mtp", "deepseek-ai__DeepSeek-R1", 576 * 2),
        ("deepseek_mtp", "deepseek-ai__DeepSeek-R1", 576 * 2),
        ("mtp", "zai-org__GLM-5.1", 576 * 2 + 132),
        ("ngram", "deepseek-ai__DeepSeek-R1", 0),
        ("mtp", "MiniMaxAI__MiniMax-M2.5", 2 * 8 * 128 * 2),
    ],
)
def test_layers_of_drafts(ask: Ask, published: Config, method: str, config: str, more: int) -> None:
    asked: dict[str, Any] = {"kv_cache_dtype": "bfloat16", "available_kv_cache_bytes": 20 * GIB, "max_model_len": 4096}
    plain, drafting = (
        ask(published(config), **asked, **extra)["kv_cache"]["bytes_per_token_per_gpu"]
        for extra in ({}, {"speculative_config": {"method": method, "num_speculative_tokens": 1}})
    )
    assert drafting - plain == more


def test_a_draft_model_by_its_own_configuration(ask: Ask, refused: Refused, kimi: dict[str, Any]) -> None:
    draft = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": 7168,
        "num_hidden_layers": 1,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "head_dim": 128,
    }
    asked: dict[str, Any] = {"tp": 8, "kv_cache_dtype": "bfloat16", "available_kv_cache_bytes": RECORD}
    drafting = {"method": "eagle3", "num_speculative_tokens": 3, "draft_config": draft}
    with_draft = ask(kimi, **asked, speculative_config=drafting)["kv_cache"]["bytes_per_token_per_gpu"]
    assert with_draft == 70272 + 64 // 8 * 2 * 128 * 2
    error = refused(kimi, **asked, speculative_config={"method": "eagle3", "num_speculative_tokens": 3})
    assert "draft_config" in str(error.remedy)


@pytest.mark.parametrize(
    ("speculative", "config", "names"),
    [
        ({"method": "mtp"}, "nvidia__Kimi-K2.5-NVFP4", "num_nextn_predict_layers"),
        ({"method": "mtp"}, "openai__gpt-oss-20b", "MTP"),
        ({"method": "dspark"}, "nvidia__Kimi-K2.5-NVFP4", "dspark"),
    ],
)
def test_drafts_that_are_not_known(
    refused: Refused, published: Config, speculative: dict[str, Any], config: str, names: str
) -> None:
    assert names in str(refused(published(config), available_kv_cache_bytes=RECORD, speculative_config=speculative))


@pytest.mark.parametrize(
    ("name", "change", "drafted"),
    [
        ("XiaomiMiMo__MiMo-V2-Flash", {}, [128]),  # vLLM runs the first MTP layer only
        ("XiaomiMiMo__MiMo-V2-Flash", {"sliding_window_size": None}, [None]),
        ("google__gemma-4-26B-A4B", {}, []),  # drafts read the model's own cache
        ("stepfun-ai__Step-3.7-Flash", {"mtp_layer_types": ["sliding_attention"] * 3}, [512, 512, 512]),
    ],
)
def test_mtp_layers_of_models_with_windows(
    name: str, change: dict[str, Any], drafted: list[int | None], published: Config
) -> None:
    layers = read_draft({"method": "mtp"}, {**published(name), **change}).layers
    assert [getattr(cache, "window", None) for layer in layers for cache in layer] == drafted


def test_mtp_layers_behind_the_last_layer_type(published: Config) -> None:
    config = published("stepfun-ai__Step-3.7-Flash")
    longer = {**config, "layer_types": [*config["layer_types"], "sliding_attention", "full_attention", "x"]}
    assert len(read_draft({"method": "mtp"}, {**longer, "num_nextn_predict_layers": 2}).layers) == 2
    for broken in (longer, config):
        with pytest.raises(ServingError, match="cannot estimate"):
            read_draft({"method": "mtp"}, broken)
