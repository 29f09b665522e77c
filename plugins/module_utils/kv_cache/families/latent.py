# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Layers of latent vectors (MLA), with an indexer (DSA) or linear layers (KDA) between them."""

from __future__ import annotations

from collections.abc import Mapping

from ..config_fields import numbers, one_per_layer, optional_int, positive_int
from .attention import full_attention
from .caches import AttentionCache, Cache, IndexerCache, LatentCache, Layers, StateCache
from .heads import Fields, believable, head_size, key_value_heads, layer_count
from .refusal import refuse
from .states import lightning_state

# transformers_utils/model_arch_config_convertor.py, is_deepseek_mla.
MLA_MODEL_TYPES = frozenset(
    {
        "axk1",
        "bailing_hybrid",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "glm4_moe_lite",
        "glm_moe_dsa",
        "kimi_k2",
        "kimi_linear",
        "longcat_flash",
        "pangu_ultra_moe",
        "pangu_ultra_moe_mtp",
    }
)
_SCALE_GROUP = 128  # the indexer keeps 8-bit keys with one float32 scale per 128 elements
_INDEX_KEY_BYTES = 2  # of an element of MiniMax-M3's index keys, unless --attention-config asks for 8 bits
_FIRST_SKIPPED = 2  # index_skip_topk_offset, where it is not given
_RECURRENT_STATE_BYTES = 4  # KDA's recurrent state is float32


def latent_size(text: Fields) -> int:
    """Elements of one latent vector."""
    model_type = str(text.get("model_type"))
    if model_type not in MLA_MODEL_TYPES:
        refuse("an MLA model", f"vLLM does not run model_type {model_type!r} with MLA")
    if text.get("kv_lora_rank") is None:
        refuse("an MLA model", "without kv_lora_rank vLLM does not run it with MLA")
    rope = text.get("qk_rope_head_dim")
    if rope is None:
        refuse("an MLA model without qk_rope_head_dim", "it has no attention backend that is known here")
    return positive_int(text, "kv_lora_rank") + positive_int(text, "qk_rope_head_dim")


def latent(text: Fields) -> Layers:
    """DeepSeek-V2's small relatives without latent projections (DeepSeek-OCR) keep keys and values."""
    if all(text.get(name) == 0 for name in ("qk_nope_head_dim", "qk_rope_head_dim")):
        return full_attention(text)
    return ((LatentCache(latent_size(text)),),) * layer_count(text)


def longcat(text: Fields) -> Layers:
    """Two attentions per layer. num_layers counts layers, transformers' num_hidden_layers the attentions."""
    attentions = believable(optional_int(text, "num_hidden_layers") or 2 * positive_int(text, "num_layers"))
    return ((LatentCache(latent_size(text)),),) * attentions


def sparse(text: Fields) -> Layers:
    """A latent vector on every layer, an indexer's key on those that choose tokens themselves."""
    main = LatentCache(latent_size(text), sparse=True)
    indexer = indexer_cache(text)
    return tuple((main, indexer) if indexes else (main,) for indexes in layers_with_indexer(text))


def indexer_cache(text: Fields) -> IndexerCache:
    size = positive_int(text, "index_head_dim")
    return IndexerCache(size + size // _SCALE_GROUP * 4)


def layers_with_indexer(text: Fields) -> list[bool]:
    """index_topk_pattern: "S" shares; else every index_topk_freq-th layer from index_skip_topk_offset - 1 on."""
    layers = layer_count(text)
    pattern = text.get("index_topk_pattern")
    if isinstance(pattern, (str, list, tuple)):
        return [layer >= len(pattern) or pattern[layer] != "S" for layer in range(layers)]
    every = optional_int(text, "index_topk_freq") or 1
    first = text.get("index_skip_topk_offset")
    first = _FIRST_SKIPPED if not isinstance(first, int) else first
    return [max(layer - first + 1, 0) % every == 0 for layer in range(layers)]


def minimax_m3(text: Fields) -> Layers:
    """Keys and values on every layer, a 16-bit index key besides on those that choose blocks of tokens themselves."""
    heads, size = key_value_heads(text), head_size(text)
    attention = AttentionCache(heads, size, size)
    sparse = text.get("sparse_attention_config")
    if not isinstance(sparse, Mapping) or sparse.get("use_sparse_attention") is False:
        refuse("a MiniMax-M3 model", "config.json has no sparse_attention_config that is in use")
    chosen = numbers(sparse, "sparse_attention_freq") or []
    one_per_layer("sparse_attention_config/sparse_attention_freq", len(chosen), layer_count(text))
    indexer = IndexerCache(positive_int(sparse, "sparse_index_dim") * _INDEX_KEY_BYTES)
    return tuple((attention, indexer) if chooses else (attention,) for chooses in chosen[: layer_count(text)])


def bailing_v25(text: Fields) -> Layers:
    """Ling 2.5, Ring 2.5: the last of every layer_group_size layers keeps a latent vector, the others a state."""
    group = optional_int(text, "layer_group_size") or 1
    state, main = lightning_state(text), LatentCache(latent_size(text))
    found: list[tuple[Cache, ...]] = [
        (main,) if (layer + 1) % group == 0 else (state,) for layer in range(layer_count(text))
    ]
    return tuple(found)


def kda(text: Fields) -> Layers:
    """linear_attn_config: full_attn_layers and kda_layers, counted from 1."""
    linear = text.get("linear_attn_config")
    if not isinstance(linear, Mapping):
        refuse("a model with KDA layers", "config.json has no linear_attn_config")
    heads, size = positive_int(linear, "num_heads"), positive_int(linear, "head_dim")
    state = StateCache(
        kind="kda",
        conv_width=3 * heads * size,
        conv_length=positive_int(linear, "short_conv_kernel_size") - 1,
        heads=heads,
        head_elements=size * size,
        state_bytes=_RECURRENT_STATE_BYTES,
        key_size=size,
        has_bounded_gate=linear.get("gate_lower_bound") is not None,
    )
    main = LatentCache(latent_size(text))
    linear_layers = set(numbers(linear, "kda_layers") or ())
    layers = layer_count(text)
    one_per_layer("linear_attn_config", len(linear_layers) + len(numbers(linear, "full_attn_layers") or ()), layers)
    found: list[tuple[Cache, ...]] = [(state,) if index + 1 in linear_layers else (main,) for index in range(layers)]
    return tuple(found)
