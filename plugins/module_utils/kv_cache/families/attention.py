# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Layers of keys and values: grouped-query attention, windows, chunks, different shapes, an encoder besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ServingError
from ..config_fields import numbers, one_per_layer, optional_int, positive_int
from .caches import AttentionCache, Cache, CrossCache, Layers
from .heads import Fields, believable, head_size, key_value_heads, layer_count, query_heads
from .refusal import refuse
from .windows import by_numbers, windows

_STEP3_HEAD_SIZE = 256
_CHUNK_INTERVAL = 4  # Llama 4: every fourth layer has no RoPE and sees everything


def attention(text: Fields) -> Layers:
    """Every layer alike but for its window."""
    heads, size = key_value_heads(text), head_size(text)
    model_type = str(text.get("model_type"))
    return tuple((AttentionCache(heads, size, size, window=window),) for window in windows(text, model_type))


def minicpm3(text: Fields) -> Layers:
    """Latent projections, but unfolded keys and values of every head are kept (vLLM does not run it with MLA)."""
    size = positive_int(text, "qk_nope_head_dim") + positive_int(text, "qk_rope_head_dim")
    return ((AttentionCache(query_heads(text), size, size),),) * layer_count(text)


def one_key_value_head(text: Fields) -> Layers:
    """Step-3: all query heads share one key and one value."""
    size = optional_int(text, "head_dim") or _STEP3_HEAD_SIZE
    return ((AttentionCache(1, size, size),),) * layer_count(text)


def full_attention(text: Fields) -> Layers:
    """Every layer keeps every token, whatever windows the configuration names."""
    heads, size = key_value_heads(text), head_size(text)
    return ((AttentionCache(heads, size, size),),) * layer_count(text)


def gemma4(text: Fields) -> Layers:
    """Layers that see everything have heads of another size; the last ones may read an earlier layer's cache."""
    local = AttentionCache(key_value_heads(text), head_size(text), head_size(text))
    size = optional_int(text, "global_head_dim") or local.head_size
    heads = local.kv_heads
    if text.get("attention_k_eq_v") is True:
        heads = optional_int(text, "num_global_key_value_heads") or heads
    found: list[tuple[Cache, ...]] = []
    for window in windows(text, "gemma4"):
        if window is None:
            found.append((AttentionCache(heads, size, size),))
        else:
            found.append((AttentionCache(local.kv_heads, local.head_size, local.value_size, window=window),))
    return _without_shared(text, found)


def gemma3n(text: Fields) -> Layers:
    return _without_shared(text, list(attention(text)))


def _without_shared(text: Fields, layers: list[tuple[Cache, ...]]) -> Layers:
    """The last num_kv_shared_layers keep nothing: they read the cache of an earlier layer of their kind."""
    shared = text.get("num_kv_shared_layers") or 0
    if not isinstance(shared, int) or not 0 <= shared < len(layers):
        raise ServingError(
            "config.json's num_kv_shared_layers is impossible",
            where="config.json#/num_kv_shared_layers",
            why=f"got {shared!r} for {len(layers)} layers",
            remedy="Give the config.json of the checkpoint as it was published",
        )
    keeping = len(layers) - shared
    return tuple(layers[:keeping]) + ((),) * shared


def mimo_v2(text: Fields) -> Layers:
    """hybrid_layer_pattern: 1 slides, with heads of its own. Keys and values differ in size."""
    size = head_size(text)
    full = AttentionCache(key_value_heads(text), size, optional_int(text, "v_head_dim") or size)
    sliding = _mimo_v2_window(text, positive_int(text, "sliding_window_size", "sliding_window"))
    return tuple((sliding if slides else full,) for slides in by_numbers(text, "hybrid_layer_pattern"))


def mimo_v2_mtp(text: Fields) -> tuple[Cache, ...]:
    """The one MTP layer that vLLM runs slides, where config.json has sliding_window_size."""
    return (_mimo_v2_window(text, optional_int(text, "sliding_window_size")),)


def _mimo_v2_window(text: Fields, window: int | None) -> AttentionCache:
    size = optional_int(text, "swa_head_dim") or head_size(text)
    value = optional_int(text, "swa_v_head_dim") or size
    return AttentionCache(positive_int(text, "swa_num_key_value_heads"), size, value, window=window)


def step3p5(text: Fields) -> Layers:
    """One kind of layer may have heads of its own (attention_other_setting)."""
    other = text.get("attention_other_setting")
    layers = attention(text)
    if not isinstance(other, Mapping):
        return layers
    kind = other.get("attention_type")
    heads, size = positive_int(other, "num_attention_groups"), positive_int(other, "head_dim")
    kinds = text.get("layer_types") or ()
    changed: list[tuple[Cache, ...]] = []
    for layer, named in zip(layers, kinds, strict=False):
        cache = layer[0]
        window = cache.window if isinstance(cache, AttentionCache) else None
        changed.append((AttentionCache(heads, size, size, window=window),) if named == kind else layer)
    return tuple(changed)


def llama4(text: Fields) -> Layers:
    """no_rope_layers: 0 sees everything, 1 its own chunk of attention_chunk_size tokens."""
    heads, size, layers = key_value_heads(text), head_size(text), layer_count(text)
    chunk = optional_int(text, "attention_chunk_size") if text.get("attention_chunk_size") else None
    if numbers(text, "no_rope_layers"):
        chunked = by_numbers(text, "no_rope_layers")
    else:
        interval = optional_int(text, "no_rope_layer_interval") or _CHUNK_INTERVAL
        chunked = [(layer + 1) % interval != 0 for layer in range(layers)]
    return tuple((AttentionCache(heads, size, size, chunk=chunk if local else None),) for local in chunked)


def nas(text: Fields) -> Layers:
    """block_configs: each layer with its own number of query heads per key-value head, or without attention."""
    blocks = text.get("block_configs")
    if not isinstance(blocks, (list, tuple)):
        refuse("a model of different layers (NAS)", "config.json has no block_configs")
    one_per_layer("block_configs", len(blocks), layer_count(text))
    size, heads = head_size(text), query_heads(text)
    return tuple(_nas_layer(block, heads, size, index) for index, block in enumerate(blocks[: layer_count(text)]))


def _nas_layer(block: object, heads: int, size: int, index: int) -> tuple[Cache, ...]:
    described: Any = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(described, Mapping):
        raise ServingError(
            "config.json's block_configs does not describe every layer",
            where=f"config.json#/block_configs/{index}",
            why=f"got {str(block)[:80]}",
            remedy="Give the config.json of the checkpoint as it was published, with no list cut short",
        )
    if described.get("no_op") is True or described.get("replace_with_linear") is True:
        return ()
    window = optional_int(described, "window_length") if described.get("window_length") else None
    per_group = optional_int(described, "n_heads_in_group")
    kv_heads = optional_int(described, "num_key_value_heads") or (heads // per_group if per_group else heads)
    return (AttentionCache(kv_heads, size, size, window=window),)


def whisper(text: Fields) -> Layers:
    """Decoder layers: keys and values of the text, and of the encoder's max_source_positions."""
    heads = positive_int(text, "decoder_attention_heads")
    size = positive_int(text, "d_model") // heads
    encoder = positive_int(text, "max_source_positions")
    layer: tuple[Cache, ...] = (AttentionCache(heads, size, size), CrossCache(heads, size, encoder))
    return (layer,) * believable(positive_int(text, "decoder_layers"))
