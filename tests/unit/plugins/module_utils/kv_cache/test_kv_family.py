# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known, what is refused by name, and impossible fields."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.families.architectures import ARCHITECTURES
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.family import family_of
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.shape import read_shape

CONFIGS = Path(__file__).parents[3] / "data" / "checkpoints" / "configs"
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
        ("openai__gpt-oss-120b", "gqa+sliding", 36, 8, 64),
        ("google__gemma-3-27b-it", "gqa+sliding", 62, 16, 128),
        ("google__gemma-4-26B-A4B", "gqa+sliding", 30, 8, 256),
        ("XiaomiMiMo__MiMo-V2-Flash", "gqa+sliding", 48, 4, 192),
        ("stepfun-ai__Step-3.7-Flash", "gqa+sliding", 45, 8, 128),
        ("meta-llama__Llama-4-Scout-17B-16E-Instruct", "gqa+chunked", 48, 8, 128),
        ("deepseek-ai__DeepSeek-V3.2", "mla+dsa", 61, 1, 576),
        ("zai-org__GLM-5.2", "mla+dsa", 78, 1, 576),
        ("moonshotai__Kimi-K3", "mla+kda", 93, 1, 576),
        ("Qwen__Qwen3-Next-80B-A3B-Instruct", "gqa+gdn", 48, 2, 256),
        ("Qwen__Qwen3.5-397B-A17B", "gqa+gdn", 60, 2, 256),
        ("nvidia__Nemotron-H-56B-Base-8K", "gqa+mamba2", 118, 8, 128),
        ("nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "gqa+mamba2", 108, 2, 128),
        ("nvidia__Llama-3_3-Nemotron-Super-49B-v1", "nas", 80, 8, 128),
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
    ("name", "kept"),
    [
        ("google__gemma-2-27b-it", {("full", 0): 23, ("window", 4096): 23}),
        ("google__gemma-3-27b-it", {("full", 0): 10, ("window", 1024): 52}),
        ("google__gemma-4-26B-A4B", {("full", 0): 5, ("window", 1024): 25}),
        ("openai__gpt-oss-20b", {("full", 0): 12, ("window", 128): 12}),
        ("XiaomiMiMo__MiMo-V2-Flash", {("full", 0): 9, ("window", 128): 39}),
        ("stepfun-ai__Step-3.7-Flash", {("full", 0): 12, ("window", 512): 33}),
        ("meta-llama__Llama-4-Scout-17B-16E-Instruct", {("full", 0): 12, ("chunk", 8192): 36}),
        ("nvidia__Llama-3_3-Nemotron-Super-49B-v1", {("full", 0): 49}),
        ("deepseek-ai__DeepSeek-V3.2", {("LatentCache", 0): 61, ("IndexerCache", 0): 61}),
        ("zai-org__GLM-5.2", {("LatentCache", 0): 78, ("IndexerCache", 0): 21}),
        ("moonshotai__Kimi-K3", {("LatentCache", 0): 24, ("StateCache", 0): 69}),
        ("Qwen__Qwen3.5-27B", {("full", 0): 16, ("StateCache", 0): 48}),
        ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {("full", 0): 6, ("StateCache", 0): 23}),
        ("deepseek-ai__DeepSeek-V4-Flash", {("window", 128): 63, ("window", 8): 42, ("CompressedCache", 0): 62}),
        ("deepseek-ai__DeepSeek-V4-Pro", {("window", 128): 92, ("window", 8): 60, ("CompressedCache", 0): 91}),
        ("MiniMaxAI__MiniMax-M3", {("full", 0): 60, ("IndexerCache", 0): 57}),
        ("nvidia__MiniMax-M3-NVFP4", {("full", 0): 60, ("IndexerCache", 0): 57}),
    ],
)
def test_what_the_layers_keep(
    published: Callable[[str], dict[str, Any]], name: str, kept: dict[tuple[str, int], int]
) -> None:
    def kind(cache: Any) -> tuple[str, int]:
        if not hasattr(cache, "window"):
            return type(cache).__name__, 0
        if cache.window:
            return "window", cache.window
        return ("chunk", cache.chunk) if getattr(cache, "chunk", None) else ("full", 0)

    assert Counter(kind(cache) for cache in read_shape(published(name)).caches) == kept


def test_every_published_configuration_has_a_family_or_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    families: Counter[str] = Counter()
    for path in sorted(CONFIGS.glob("*.json")):
        config = json.loads(path.read_text())
        try:
            families[read_shape(config).family] += 1
        except ServingError as error:
            families["refused"] += 1
            assert error.what == f"cannot estimate {config['architectures'][0]}"
            assert error.why
    with capsys.disabled():
        print(f"\n{families.total()} configurations:", dict(sorted(families.items())))
    assert families.total() == 104
    assert families["refused"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ["BrandNewForCausalLM"]},
        {"kv_lora_rank": 512},
        {"layer_types": ["full_attention", "linear_attention"] * 16, "sliding_window": 4096},
        {"is_encoder_decoder": True},
        {"architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512},
        {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"},
        {"architectures": ["MiniMaxM2ForCausalLM"], "attn_type_list": [0, 1]},
        {"architectures": ["HunYuanMoEV1ForCausalLM"], "use_cla": True},
        {"architectures": ["Mistral3ForConditionalGeneration"], "text_config": {"model_type": "mistral9"}},
        {"sparse_attention_config": {"use_sparse_attention": True}},
        {"architectures": ["MiniMaxM3SparseForCausalLM"]},
        {"architectures": ["DeepseekV4ForCausalLM"], "head_dim": 256},
        {"attention_chunk_size": 8192},
        {"index_topk": 2048},
        {"compress_ratios": [0, 4]},
        {"block_configs": [{"attention": {"no_op": True}}]},
        {"full_attention_interval": 4},
        {"mamba_num_heads": 64},
        {"hybrid_layer_pattern": [0, 1]},
        {"architectures": ["DeciLMForCausalLM"]},
        {"architectures": ["NemotronHForCausalLM"]},
        {"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear"},
    ],
)
def test_nothing_is_read_as_something_else(change: dict[str, Any]) -> None:
    with pytest.raises(ServingError, match="cannot estimate"):
        family_of({**LLAMA, **change})


def test_gemma_layers_that_read_an_earlier_layers_cache_keep_nothing() -> None:
    config = {
        **LLAMA,
        "architectures": ["Gemma3nForCausalLM"],
        "model_type": "gemma3n_text",
        "num_hidden_layers": 30,
        "num_kv_shared_layers": 10,
        "sliding_window": 512,
    }
    assert [bool(layer) for layer in read_shape(config).kept] == [True] * 20 + [False] * 10
    for shared in (30, -1, "10"):
        with pytest.raises(ServingError, match="num_kv_shared_layers"):
            read_shape({**config, "num_kv_shared_layers": shared})


@pytest.mark.parametrize(
    ("fields", "indexed"),
    [
        ({}, 12),
        ({"index_topk_freq": 4}, 4),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, 5),
        ({"index_topk_pattern": "FFFSSSFSSSFS"}, 5),
    ],
)
def test_which_layers_have_an_indexer(
    published: Callable[[str], dict[str, Any]], fields: dict[str, Any], indexed: int
) -> None:
    config = {**published("deepseek-ai__DeepSeek-V3.2"), "num_hidden_layers": 12, **fields}
    assert sum(len(layer) == 2 for layer in read_shape(config).kept) == indexed


def test_whisper_keeps_what_the_encoder_said() -> None:
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "d_model": 1280,
        "decoder_layers": 32,
        "decoder_attention_heads": 20,
        "encoder_layers": 32,
        "max_source_positions": 1500,
        "max_target_positions": 448,
    }
    shape = read_shape(config)
    assert (shape.family, shape.layers, len(shape.caches), shape.encoder_tokens) == ("encoder-decoder", 32, 64, 1500)


def test_a_state_alone() -> None:
    config = {
        "architectures": ["MambaForCausalLM"],
        "model_type": "mamba",
        "hidden_size": 2560,
        "intermediate_size": 5120,
        "num_hidden_layers": 64,
        "state_size": 16,
        "conv_kernel": 4,
        "torch_dtype": "bfloat16",
    }
    shape = read_shape(config)
    assert shape.family == "state"
    assert shape.state is not None
    assert shape.state.bytes(1, 2, 0) == 5120 * (3 + 16) * 2
    assert shape.state.bytes(4, 2, 0) == 5120 // 4 * (3 + 16) * 2


def test_architectures_are_named_once_and_sorted_into_known_families() -> None:
    assert {family.name for family in ARCHITECTURES.values()} == {
        "gqa",
        "gqa+sliding",
        "gqa+chunked",
        "nas",
        "mla",
        "mla+dsa",
        "mla+kda",
        "gqa+gdn",
        "gqa+mamba2",
        "gqa+mamba1",
        "gqa+conv",
        "gqa+indexer",
        "gqa+lightning",
        "mla+compressed",
        "mla+lightning",
        "state",
        "encoder-decoder",
    }
