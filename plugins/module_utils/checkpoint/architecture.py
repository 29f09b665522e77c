# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a config.json says about the language model: layers, attention, heads, experts, lengths, dtype."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .json_document import join_pointer, kind_of

Config = Mapping[str, Any]

# Where multimodal wrappers keep the language model's own config. Only `text_config` matters for vLLM's quantization.
TEXT_CONFIGS = (("text_config",), ("llm_config",), ("language_config",), ("thinker_config", "text_config"))

# Text model types that vLLM 0.33 runs with multi-head latent attention, if they set kv_lora_rank
# (is_deepseek_mla in vllm/transformers_utils/model_arch_config_convertor.py).
MLA_MODEL_TYPES = frozenset(
    (
        "axk1",
        "bailing_hybrid",
        "bailing_hybrid_mtp",
        "bailing_hybrid_v3_mtp",
        "deepseek_mtp",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_v4",
        "deepseek_v41",
        "dots3_note",
        "glm4_moe_lite",
        "glm4_moe_lite_mtp",
        "glm5_next",
        "glm5_next_text",
        "glm_moe_dsa",
        "hy_v4",
        "hy_v4_mtp",
        "k3_dspark",
        "kimi_k2",
        "kimi_linear",
        "longcat_flash",
        "pangu_ultra_moe",
        "pangu_ultra_moe_mtp",
    )
)

# The names that model families use for one and the same thing, as vLLM reads them, first match wins.
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KEY_VALUE_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
ROUTED_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
ACTIVE_EXPERTS = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k")
SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)


@dataclass(frozen=True)
class Architecture:
    """The blueprint of the language model; None is what config.json does not say. Lengths are in tokens."""

    architecture: str | None
    model_type: str | None
    text_model_type: str | None
    num_layers: int | None
    attention: str | None
    use_mla: bool
    use_sparse: bool
    head_size: int | None
    kv_lora_rank: int | None
    qk_rope_head_dim: int | None
    num_attention_heads: int | None
    num_key_value_heads: int | None
    experts: dict[str, int | None]
    hidden_size: int | None
    vocab_size: int | None
    max_position_embeddings: int | None
    dtype: str | None


def text_config_of(config: Config) -> tuple[str, Config]:
    """The language model's own config and its JSON pointer ("" when it is config.json itself)."""
    for path in TEXT_CONFIGS:
        inner: Any = config
        for depth, key in enumerate(path, 1):
            inner = inner.get(key)
            if inner is None:
                break
            if not isinstance(inner, Mapping):
                raise _unexpected(join_pointer(path[:depth]), inner, "an object")
        else:
            return join_pointer(path), inner
    return "", config


def describe(config: Config) -> Architecture:
    """The blueprint; a config.json that describes no language model is refused."""
    text = text_config_of(config)[1]
    num_layers = _number(text, LAYERS) or _length(text, ("layers_block_type", "hybrid_override_pattern"))
    heads = _number(text, HEADS)
    if num_layers is None and heads is None:
        raise ServingError(
            "config.json describes no language model",
            where="config.json",
            why="neither it nor a text_config in it says how many layers or attention heads there are",
            remedy="Name the folder of a model's checkpoint",
        )
    use_mla = uses_mla(text)
    kv_lora_rank = _number(text, ("kv_lora_rank",))
    rope = _number(text, ("qk_rope_head_dim",))
    return Architecture(
        architecture=_architecture(config),
        model_type=_text(config, "model_type"),
        text_model_type=_text(text, "model_type"),
        num_layers=num_layers,
        attention=_attention(text, use_mla, heads),
        use_mla=use_mla,
        use_sparse=_number(text, ("index_topk",)) is not None,
        head_size=_head_size(text, use_mla, kv_lora_rank, rope, heads),
        kv_lora_rank=kv_lora_rank,
        qk_rope_head_dim=rope,
        num_attention_heads=heads,
        num_key_value_heads=_key_value_heads(text, heads),
        experts=_experts(text),
        hidden_size=_number(text, ("hidden_size", "n_embd", "d_model")),
        vocab_size=_number(text, ("vocab_size",)),
        max_position_embeddings=min(_numbers(text, LENGTHS), default=None),
        dtype=stated_dtype(config),
    )


def uses_mla(text: Config) -> bool:
    """Whether vLLM caches one latent vector per token for this language model (the rule of vLLM 0.33)."""
    if _text(text, "model_type") not in MLA_MODEL_TYPES:
        return False
    # DeepSeek-V4 has no kv_lora_rank: it compresses along the sequence and its head is the cached state.
    return text.get("head_dim" if "compress_ratios" in text else "kv_lora_rank") is not None


def _architecture(config: Config) -> str | None:
    names = config.get("architectures")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _unexpected("/architectures", names, "a list of strings")
    return names[0] if names else None


def _attention(text: Config, use_mla: bool, heads: int | None) -> str | None:
    """mla, gqa, hybrid (attention beside layers that keep a state), or unknown rather than a guess."""
    if _has_state_layers(text):
        return "hybrid"
    if use_mla:
        return "mla"
    if text.get("kv_lora_rank") is not None or "compress_ratios" in text:
        return "unknown"
    return "gqa" if heads else None


def _has_state_layers(text: Config) -> bool:
    """Mamba, gated delta, Kimi delta, lightning or convolution layers beside attention."""
    names = [*_list(text, "layer_types"), *_list(text, "layers_block_type")]
    return (
        "linear_attn_config" in text
        or "attn_layer_period" in text
        or "mamba_d_state" in text
        or ("full_attention_interval" in text and "linear_num_key_heads" in text)
        or "M" in str(text.get("hybrid_override_pattern") or "")
        or 0 in _list(text, "attn_type_list")
        or any(isinstance(name, str) and name.startswith(("linear", "mamba", "conv", "recurrent")) for name in names)
    )


def _head_size(text: Config, use_mla: bool, rank: int | None, rope: int | None, heads: int | None) -> int | None:
    """Elements that one head caches per token; with MLA the latent vector and its rotary part."""
    if use_mla and "compress_ratios" not in text:
        return (rank or 0) + (rope or 0)
    explicit = _number(text, ("head_dim",)) or _number(text, ("hidden_size_per_head",))
    hidden = _number(text, ("hidden_size", "n_embd", "d_model"))
    return explicit or (hidden // heads if hidden and heads else None)


def _key_value_heads(text: Config, heads: int | None) -> int | None:
    if isinstance(text.get("block_configs"), list):
        return None  # it differs from layer to layer
    return _number(text, KEY_VALUE_HEADS) or heads


def _experts(text: Config) -> dict[str, int | None]:
    """Per layer: routed experts, of these active per token, experts that see every token; 0 in a dense model."""
    routed = _number(text, ROUTED_EXPERTS) or max(
        (block.get("n_routed_experts") or 0 for block in _list(text, "block_configs") if isinstance(block, Mapping)),
        default=0,
    )
    if not routed:
        return {"routed": 0, "active": 0, "shared": 0}
    shared = _number(text, SHARED_EXPERTS)
    if shared is None and _number(text, ("shared_expert_intermediate_size",)):
        shared = 1
    return {"routed": routed, "active": _number(text, ACTIVE_EXPERTS), "shared": shared}


def stated_dtype(config: Config) -> str | None:
    """The dtype of the weights, such as bfloat16, as vLLM looks for it; None when no place states it."""
    text = text_config_of(config)[1]
    vision = config.get("vision_config")
    for source in (config, text, vision if isinstance(vision, Mapping) else {}):
        for key in ("dtype", "torch_dtype"):
            if isinstance(source.get(key), str):
                return str(source[key]).removeprefix("torch.")
    return None


def _number(config: Config, names: Iterable[str]) -> int | None:
    return next(iter(_numbers(config, names)), None)


def _numbers(config: Config, names: Iterable[str]) -> list[int]:
    found = []
    for name in names:
        value = config.get(name)
        if isinstance(value, list) and value and name in ROUTED_EXPERTS:
            value = value[0]  # ERNIE-VL lists one equal number per modality
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _unexpected(f"/{name}", value, "a number")
        if not math.isfinite(value):
            raise ServingError(
                "config.json holds a number without an end", where=f"config.json#/{name}", why=f"{value}"
            )
        found.append(int(value))
    return found


def _length(config: Config, names: Iterable[str]) -> int | None:
    return next((len(config[name]) for name in names if isinstance(config.get(name), (list, str))), None)


def _list(config: Config, name: str) -> list[Any]:
    value = config.get(name)
    return value if isinstance(value, list) else []


def _text(config: Config, name: str) -> str | None:
    value = config.get(name)
    if value is not None and not isinstance(value, str):
        raise _unexpected(f"/{name}", value, "a string")
    return value


def _unexpected(pointer: str, value: object, expected: str) -> ServingError:
    return ServingError(
        f"config.json holds {kind_of(value)} where {expected} is expected", where=f"config.json#{pointer}"
    )
