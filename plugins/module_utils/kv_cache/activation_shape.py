# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The sizes in config.json that decide what the engine takes besides weights and KV cache.

Other fields than those of the KV cache, and with other needs: an estimate stands for every architecture, so that a
field that is not there takes the usual value instead of being refused. Only the hidden size has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .config_fields import largest_int, text_config


@dataclass(frozen=True)
class Encoder:
    """A vision tower. patches_per_token: image patches that are merged to one token of the language model.

    largest_item: tokens of the largest image of these models, which the engine profiles with at the least.
    """

    hidden_size: int
    intermediate_size: int
    patches_per_token: int
    largest_item: int


@dataclass(frozen=True)
class ActivationShape:
    """Counts and elements, no bytes. intermediate_size: of a dense layer; moe_intermediate_size: of one expert.

    latent_size: elements of MLA's latent vector, 0 without MLA; unfolded_head_size: elements per head that it is
    unfolded to. value_head_size: elements of one head's output before MLA's up-projection. indexer_head_size: 0 without
    sparse attention.
    """

    layers: int
    hidden_size: int
    intermediate_size: int
    moe_intermediate_size: int
    routed_experts: int
    active_experts: int
    vocab_size: int
    num_attention_heads: int
    value_head_size: int
    num_key_value_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    latent_size: int
    unfolded_head_size: int
    indexer_head_size: int
    encoder: Encoder | None

    @property
    def is_mla(self) -> bool:
        return self.kv_lora_rank > 0

    @property
    def is_sparse(self) -> bool:
        return self.indexer_head_size > 0


def activation_shape(config: Mapping[str, Any]) -> ActivationShape | None:
    """None where config.json does not even say how wide the model is."""
    text = text_config(config)
    hidden = largest_int(text, "hidden_size", "d_model", "n_embd")
    if not hidden:
        return None
    heads = largest_int(text, "num_attention_heads", "n_heads", "n_head", "decoder_attention_heads") or 1
    head = largest_int(text, "head_dim", "v_head_dim") or max(1, hidden // heads)
    intermediate = largest_int(text, "intermediate_size", "ffn_hidden_size", "decoder_ffn_dim") or 4 * hidden
    experts = largest_int(text, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
    rank = largest_int(text, "kv_lora_rank")
    return ActivationShape(
        layers=largest_int(text, "num_hidden_layers", "num_layers", "n_layers", "n_layer", "decoder_layers") or 1,
        hidden_size=hidden,
        intermediate_size=intermediate,
        moe_intermediate_size=(largest_int(text, "moe_intermediate_size") or intermediate) if experts else 0,
        routed_experts=experts,
        active_experts=(largest_int(text, "num_experts_per_tok", "top_k_experts", "moe_topk", "moe_k") or 1)
        if experts
        else 0,
        vocab_size=largest_int(text, "vocab_size") or largest_int(config, "vocab_size"),
        num_attention_heads=heads,
        value_head_size=rank or head,
        num_key_value_heads=largest_int(
            text, "n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups"
        )
        or heads,
        q_lora_rank=largest_int(text, "q_lora_rank") if rank else 0,
        kv_lora_rank=rank,
        latent_size=rank + largest_int(text, "qk_rope_head_dim") if rank else 0,
        unfolded_head_size=(largest_int(text, "qk_nope_head_dim") or 128) + (largest_int(text, "v_head_dim") or 128)
        if rank
        else 0,
        indexer_head_size=(largest_int(text, "index_head_dim") or 128) if largest_int(text, "index_topk") else 0,
        encoder=_encoder(config),
    )


def _encoder(config: Mapping[str, Any]) -> Encoder | None:
    """The vision tower by vision_config; a SigLIP So400m, the usual one, where that gives no size.

    Qwen's processors allow images of 16,384 tokens; Gemma's merge 16 patches to a token.
    """
    vision = config.get("vision_config")
    model_type = str(config.get("model_type"))
    if not isinstance(vision, Mapping):
        names = config.get("architectures") or [""]
        sees = str(names[0]).endswith("ForConditionalGeneration") and not config.get("is_encoder_decoder")
        if not sees or not model_type.startswith(("gemma3", "gemma4", "kimi_", "qwen", "glm4v", "llama4", "mistral3")):
            return None
        vision = {}
    hidden = largest_int(vision, "hidden_size", "vt_hidden_size", "embed_dim", "width") or 1152
    merge = largest_int(vision, "spatial_merge_size", "merge_kernel_size") or 2
    return Encoder(
        hidden_size=hidden,
        intermediate_size=largest_int(vision, "intermediate_size", "vt_intermediate_size") or 4 * hidden,
        patches_per_token=16 if model_type.startswith("gemma") else merge * merge,
        largest_item=16384 if model_type.startswith("qwen") else 4096,
    )
