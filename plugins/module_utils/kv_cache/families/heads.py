# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Layers, heads and head sizes by all the names that configurations give them (model_arch_config_convertor.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ServingError
from ..config_fields import names, optional_int, positive_int

Fields = Mapping[str, Any]

_LAYER_COUNTS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "decoder_layers")
_QUERY_HEADS = ("num_attention_heads", "n_heads", "n_head", "decoder_attention_heads")
_KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
_MOST_LAYERS = 10_000
# Lists with one entry per layer; they count the layers where no number does.
_PER_LAYER = ("layers_block_type", "layer_types")


def layer_count(text: Fields) -> int:
    count = optional_int(text, *_LAYER_COUNTS)
    if count is not None:
        return believable(count)
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return len(pattern)
    for field in _PER_LAYER:
        entries = names(text, field)
        if entries:
            return len(entries)
    blocks = text.get("block_configs")
    if isinstance(blocks, (list, tuple)) and blocks:
        return len(blocks)
    return positive_int(text, *_LAYER_COUNTS)


def believable(layers: int) -> int:
    """Refuse a number of layers that no model has, before a list of that length is made."""
    if layers > _MOST_LAYERS:
        raise ServingError(
            "config.json's num_hidden_layers is no number of layers",
            where="config.json#/num_hidden_layers",
            why=f"got {layers}",
            remedy="Give the config.json of the checkpoint as it was published",
        )
    return layers


def query_heads(text: Fields) -> int:
    return positive_int(text, *_QUERY_HEADS)


def key_value_heads(text: Fields) -> int:
    attention = text.get("attn_config")
    if isinstance(attention, Mapping):  # DBRX
        return optional_int(attention, "kv_n_heads") or query_heads(text)
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):  # the first Falcon
        return 1
    return optional_int(text, *_KV_HEADS) or query_heads(text)


def hidden_size(text: Fields) -> int:
    return positive_int(text, "hidden_size", "d_model", "n_embd")


def head_size(text: Fields) -> int:
    """head_dim where it is set and not 0, else hidden_size / heads, as vLLM's convertor does."""
    if text.get("head_dim") not in (None, 0):
        return positive_int(text, "head_dim")
    alias = optional_int(text, "hidden_size_per_head", "attention_head_dim", "kv_channels")
    if alias is not None:
        return alias
    width, heads = hidden_size(text), query_heads(text)
    if width % heads:
        raise ServingError(
            "config.json gives no size of an attention head",
            where="config.json#/head_dim",
            why=f"head_dim is missing and hidden_size {width} is no multiple of {heads} heads",
            remedy="Give the complete config.json of the checkpoint",
        )
    return width // heads
