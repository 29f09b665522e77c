# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kimi-K2.5's architecture, made tiny: MLA with the real latent and rope sizes, and a mixture of experts."""

from __future__ import annotations

from transformers import DeepseekV3Config, PreTrainedTokenizerBase

# The KV cache of MLA holds kv_lora_rank + qk_rope_head_dim numbers per token and layer: these two, and the context
# length, are the real model's. Everything else is as small as the answers allow.
KV_LORA_RANK = 512
QK_ROPE_HEAD_DIM = 64
MAX_POSITION_EMBEDDINGS = 262144
NUM_LAYERS = 5


def text_config(tokenizer: PreTrainedTokenizerBase) -> DeepseekV3Config:
    """The language model: one dense layer, then layers of eight routed and one shared expert."""
    return DeepseekV3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        moe_intermediate_size=32,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=4,
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        norm_topk_prob=True,
        routed_scaling_factor=1.0,
        q_lora_rank=64,
        kv_lora_rank=KV_LORA_RANK,
        qk_rope_head_dim=QK_ROPE_HEAD_DIM,
        qk_nope_head_dim=32,
        v_head_dim=32,
        max_position_embeddings=MAX_POSITION_EMBEDDINGS,
        num_mtp_layers=0,
        initializer_range=0.08,  # about 1 / sqrt(hidden_size); the usual 0.02 learns far more slowly at this width
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
