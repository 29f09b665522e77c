# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which kind of KV cache a model has. What is not known here is refused by name, never read as something else.

An MLA model read as GQA would be 28 times too large; a sliding window read as full attention is wrong the other way.
The architectures are those whose vLLM model class (0.32.0, model_executor/models/registry.py) gives every layer
the same attention; the MLA model types are the list in transformers_utils/model_arch_config_convertor.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn

from ..errors import ServingError
from .config_fields import architecture_of, text_config

Family = Literal["gqa", "mla"]

# Every layer holds keys and values of num_key_value_heads for every token.
_GQA = frozenset(
    {
        "ArceeForCausalLM",
        "ChatGLMForConditionalGeneration",
        "ChatGLMModel",
        "CohereForCausalLM",
        "DbrxForCausalLM",
        "Ernie4_5ForCausalLM",
        "Ernie4_5_MoeForCausalLM",
        "FalconForCausalLM",
        "GemmaForCausalLM",
        "Glm4ForCausalLM",
        "Glm4MoeForCausalLM",
        "Glm4vForConditionalGeneration",
        "Glm4vMoeForConditionalGeneration",
        "GraniteForCausalLM",
        "GraniteMoeForCausalLM",
        "GraniteMoeSharedForCausalLM",
        "InternLM2ForCausalLM",
        "InternLM3ForCausalLM",
        "LLaMAForCausalLM",
        "LlamaForCausalLM",
        "MiMoForCausalLM",
        "MiniMaxM2ForCausalLM",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "NemotronForCausalLM",
        "OlmoeForCausalLM",
        "Phi3ForCausalLM",
        "PhiMoEForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "SeedOssForCausalLM",
        "SolarForCausalLM",
        "StableLmForCausalLM",
    }
)

# Every layer holds one latent vector per token, whatever the number of heads.
_MLA = frozenset(
    {
        "AXK1ForCausalLM",
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "KimiK25ForConditionalGeneration",
        "KimiVLForConditionalGeneration",
        "PanguUltraMoEForCausalLM",
    }
)
_MLA_MODEL_TYPES = frozenset({"axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "pangu_ultra_moe"})

# A field that a plain GQA or MLA model does not have -> what its presence means.
_OTHER_CACHES = {
    "index_topk": "a sparse attention indexer (DSA)",
    "sparse_attention_config": "sparse attention",
    "compress_ratios": "compressed attention states",
    "linear_attn_config": "linear attention layers (KDA)",
    "full_attention_interval": "linear attention layers (GDN)",
    "linear_num_value_heads": "linear attention layers (GDN)",
    "hybrid_override_pattern": "Mamba layers",
    "layers_block_type": "layers of several kinds",
    "mamba_num_heads": "Mamba layers",
    "mamba_d_state": "Mamba layers",
    "attention_chunk_size": "chunked attention",
    "no_rope_layers": "chunked attention",
    "block_configs": "layers of different shapes (NAS)",
    "num_kv_shared_layers": "layers that share a cache",
    "cross_attention_layers": "cross attention",
    "sliding_window_pattern": "sliding windows",
}


def family_of(config: Mapping[str, Any]) -> Family:
    """ "mla" or "gqa". Raises ServingError, naming the architecture and what stands in the way, for everything else."""
    architecture = architecture_of(config)
    text = text_config(config)
    if config.get("is_encoder_decoder") is True:
        refuse(architecture, "it is an encoder-decoder")
    for field, meaning in _OTHER_CACHES.items():
        if text.get(field) not in (None, [], {}):
            refuse(architecture, f"{field} in config.json says that it has {meaning}")
    if 0 in (text.get("attn_type_list") or ()):  # MiniMax; 1 is full attention
        refuse(architecture, "attn_type_list in config.json says that it has lightning attention layers")
    if architecture in _MLA:
        return _mla(architecture, text)
    _refuse_windows(architecture, text)
    if architecture not in _GQA:
        refuse(architecture, "its kinds of cache layers are not known to this release")
    if text.get("kv_lora_rank") is not None:
        refuse(architecture, "it is known as grouped-query attention, but config.json has kv_lora_rank (MLA)")
    return "gqa"


def _mla(architecture: str, text: Mapping[str, Any]) -> Family:
    model_type = text.get("model_type")
    if model_type not in _MLA_MODEL_TYPES:
        refuse(architecture, f"vLLM does not run model_type {model_type!r} with MLA")
    if text.get("kv_lora_rank") is None:
        refuse(architecture, "without kv_lora_rank vLLM does not run it with MLA")
    return "mla"


def _refuse_windows(architecture: str, text: Mapping[str, Any]) -> None:
    """vLLM takes sliding_window from the config unless use_sliding_window is false; 0 and null mean none.

    Qwen2 and Qwen3 configs without use_sliding_window have no window (transformers' default for them is false).
    """
    default = not str(text.get("model_type")).startswith(("qwen2", "qwen3"))
    if text.get("sliding_window") and text.get("use_sliding_window", default) is not False:
        refuse(architecture, f"config.json sets sliding_window to {text['sliding_window']}")
    kinds = text.get("layer_types")
    if isinstance(kinds, (list, tuple)):
        others = sorted({str(kind) for kind in kinds} - {"full_attention"})
        if others:
            refuse(architecture, f"layer_types in config.json has {', '.join(others)}")


def refuse(what: str, why: str) -> NoReturn:
    """Raise the one error for a model whose cache this release cannot compute."""
    raise ServingError(
        f"cannot estimate {what}",
        where="config.json",
        why=why,
        remedy=(
            "Give available_kv_cache_bytes and kv_bytes_per_token_per_gpu, both from the log of an earlier start, or "
            "extend plugins/module_utils/kv_cache/family.py"
        ),
    )
