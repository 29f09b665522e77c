# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The numbers of a model that decide its KV cache, its weights per card and its activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .config_fields import optional_int, positive_int, text_config
from .family import Family, family_of, refuse


@dataclass(frozen=True)
class ModelShape:
    """One model, before it is divided over cards. Counts and elements, no bytes.

    head_size: elements of one head's key; for MLA of the one latent vector (kv_lora_rank + qk_rope_head_dim).
    num_key_value_heads: of the whole model; 1 for MLA.
    projected_head_size: MLA: qk_nope_head_dim + v_head_dim, what a latent vector is unfolded to per head.
    intermediate_size: of a dense layer; moe_intermediate_size: of one expert (0 for a dense model).
    replicated_elements: elements of the weights that every tensor-parallel rank holds in full.
    """

    family: Family
    layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_size: int
    kv_lora_rank: int
    projected_head_size: int
    intermediate_size: int
    moe_intermediate_size: int
    routed_experts: int
    active_experts: int
    replicated_elements: int


def read_shape(config: Mapping[str, Any]) -> ModelShape:
    """The shape by config.json. Raises ServingError for an unknown family, and for a missing or impossible field."""
    family = family_of(config)
    text = text_config(config)
    heads = positive_int(text, "num_attention_heads", "n_heads", "n_head")
    hidden_size = positive_int(text, "hidden_size", "d_model")
    layers = positive_int(text, "num_hidden_layers", "num_layers", "n_layers", "n_layer")
    experts = optional_int(text, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts") or 0
    moe_intermediate = optional_int(text, "moe_intermediate_size") or 0
    intermediate = optional_int(text, "intermediate_size", "ffn_hidden_size") or 4 * hidden_size
    kv_lora_rank = projected = 0
    if family == "mla":
        kv_lora_rank = positive_int(text, "kv_lora_rank")
        rope = optional_int(text, "qk_rope_head_dim")
        if rope is None:
            refuse("an MLA model without qk_rope_head_dim", "it has no attention backend that is known here")
        head_size = kv_lora_rank + rope
        kv_heads = 1
        projected = (optional_int(text, "qk_nope_head_dim") or 128) + (optional_int(text, "v_head_dim") or 128)
    else:
        head_size = _head_size(text, hidden_size, heads)
        kv_heads = _key_value_heads(text, heads)
    return ModelShape(
        family=family,
        layers=layers,
        hidden_size=hidden_size,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_size=head_size,
        kv_lora_rank=kv_lora_rank,
        projected_head_size=projected,
        intermediate_size=intermediate,
        moe_intermediate_size=(moe_intermediate or intermediate) if experts else 0,
        routed_experts=experts,
        active_experts=(optional_int(text, "num_experts_per_tok", "moe_topk", "moe_k") or 1) if experts else 0,
        replicated_elements=layers * _replicated_per_layer(text, family, hidden_size, head_size, experts),
    )


def _head_size(text: Mapping[str, Any], hidden_size: int, heads: int) -> int:
    """head_dim where it is set and not 0, else hidden_size / heads, as vLLM's convertor does."""
    explicit = text.get("head_dim")
    if explicit not in (None, 0):
        return positive_int(text, "head_dim")
    alias = optional_int(text, "hidden_size_per_head", "kv_channels")
    if alias is not None:
        return alias
    if hidden_size % heads:
        raise ServingError(
            "config.json gives no size of an attention head",
            where="config.json#/head_dim",
            why=f"head_dim is missing and hidden_size {hidden_size} is no multiple of {heads} heads",
            remedy="Give the complete config.json of the checkpoint",
        )
    return hidden_size // heads


def _key_value_heads(text: Mapping[str, Any], heads: int) -> int:
    attention = text.get("attn_config")
    if isinstance(attention, Mapping):  # DBRX
        return optional_int(attention, "kv_n_heads") or heads
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):  # the first Falcon
        return 1
    names = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
    return optional_int(text, *names) or heads


def _replicated_per_layer(
    text: Mapping[str, Any], family: Family, hidden_size: int, head_size: int, experts: int
) -> int:
    """MLA's down-projections (q_a_proj, kv_a_proj_with_mqa) and the router are not divided by tensor parallelism."""
    router = experts * hidden_size
    if family == "mla":
        return hidden_size * ((optional_int(text, "q_lora_rank") or 0) + head_size) + router
    return router
