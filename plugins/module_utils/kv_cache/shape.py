# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The numbers of a model that decide its KV cache, its weights per card and its activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .config_fields import largest_int, positive_int, text_config
from .families.caches import (
    AttentionCache,
    Cache,
    CompressedCache,
    CrossCache,
    LatentCache,
    Layers,
    StateCache,
    WindowedLatentCache,
)
from .families.defaults import filled_in
from .families.heads import hidden_size, query_heads
from .family import read_family


@dataclass(frozen=True)
class ModelShape:
    """One model, before it is divided over cards. Counts and elements, no bytes.

    kept: what each layer keeps of the tokens. layers: their number.
    head_size: elements of one head's key; for MLA of the one latent vector (kv_lora_rank + qk_rope_head_dim).
    num_key_value_heads: of the first layer with attention; 1 for MLA, 0 for a model of states only.
    projected_head_size: MLA: qk_nope_head_dim + v_head_dim, what a latent vector is unfolded to per head.
    intermediate_size: of a dense layer; moe_intermediate_size: of one expert (0 for a dense model).
    replicated_elements: elements of the weights that every tensor-parallel rank holds in full.
    """

    family: str
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
    kept: Layers = ()

    @property
    def uses_mla(self) -> bool:
        return self.kv_lora_rank > 0

    @property
    def caches(self) -> tuple[Cache, ...]:
        """What all layers keep, one after the other."""
        return tuple(cache for layer in self.kept for cache in layer)

    def has(self, kind: type[Cache]) -> bool:
        return any(isinstance(cache, kind) for cache in self.caches)

    @property
    def state(self) -> StateCache | None:
        """The largest state, where layers keep one."""
        states = [cache for cache in self.caches if isinstance(cache, StateCache)]
        return max(states, key=lambda each: each.bytes(1, 2, 0)) if states else None

    @property
    def encoder_tokens(self) -> int:
        return max((cache.tokens for cache in self.caches if isinstance(cache, CrossCache)), default=0)


def read_shape(config: Mapping[str, Any]) -> ModelShape:
    """The shape by config.json. Raises ServingError for an unknown family, and for a missing or impossible field."""
    family = read_family(config)
    text = filled_in(text_config(config))
    caches = [cache for layer in family.layers for cache in layer]
    latent = next((cache for cache in caches if isinstance(cache, LatentCache)), None)
    attention = next((cache for cache in caches if isinstance(cache, AttentionCache)), None)
    width = hidden_size(text)
    experts = largest_int(text, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
    moe_intermediate = largest_int(text, "moe_intermediate_size", "expert_ffn_hidden_size")
    intermediate = largest_int(text, "intermediate_size", "ffn_hidden_size", "decoder_ffn_dim") or 4 * width
    active = largest_int(text, "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_k")
    if latent is not None:
        kv_heads, head_size = 1, latent.elements
    elif attention is not None:
        kv_heads, head_size = attention.kv_heads, attention.head_size
    elif any(isinstance(cache, (CompressedCache, WindowedLatentCache)) for cache in caches):
        kv_heads, head_size = 1, positive_int(text, "head_dim")
    else:
        kv_heads, head_size = 0, 0
    return ModelShape(
        family=family.name,
        layers=len(family.layers),
        hidden_size=width,
        num_attention_heads=query_heads(text) if kv_heads else 0,
        num_key_value_heads=kv_heads,
        head_size=head_size,
        kv_lora_rank=largest_int(text, "kv_lora_rank") if latent else 0,
        projected_head_size=_projected(text) if latent else 0,
        intermediate_size=intermediate,
        moe_intermediate_size=(moe_intermediate or intermediate) if experts else 0,
        routed_experts=experts,
        active_experts=(active or 1) if experts else 0,
        replicated_elements=_replicated(text, family.layers, width, experts),
        kept=family.layers,
    )


def _projected(text: Mapping[str, Any]) -> int:
    return (largest_int(text, "qk_nope_head_dim") or 128) + (largest_int(text, "v_head_dim") or 128)


def _replicated(text: Mapping[str, Any], layers: Layers, width: int, experts: int) -> int:
    """MLA's down-projections (q_a_proj, kv_a_proj_with_mqa) and the router are not divided by tensor parallelism."""
    rank = largest_int(text, "q_lora_rank")
    down = sum(width * (rank + cache.elements) for layer in layers for cache in layer if isinstance(cache, LatentCache))
    return down + len(layers) * experts * width
