# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations as vLLM's model classes can be built from them on a machine without cards, and some more families.

The published configurations are trimmed to what decides weights and cache, and a model class reads more: what is
missing is added where it decides neither. A composed model is built as its language model alone, for its processors
need packages for images.
"""

from __future__ import annotations

from typing import Any

_LANGUAGE_MODELS = {
    "Gemma3ForConditionalGeneration": ("Gemma3ForCausalLM", "gemma3_text"),
    "Gemma4ForConditionalGeneration": ("Gemma4ForCausalLM", "gemma4_text"),
    "KimiK25ForConditionalGeneration": ("DeepseekV3ForCausalLM", "kimi_k2"),
    "KimiK3ForConditionalGeneration": ("KimiLinearForCausalLM", "kimi_linear"),
    "Llama4ForConditionalGeneration": ("Llama4ForCausalLM", "llama4_text"),
    "Qwen3VLForConditionalGeneration": ("Qwen3ForCausalLM", "qwen3"),
    "Qwen3VLMoeForConditionalGeneration": ("Qwen3MoeForCausalLM", "qwen3_moe"),
}
_MISSING: dict[str, dict[str, Any]] = {
    "kimi_linear": {
        "first_k_dense_replace": 1,
        "hidden_act": "silu",
        "mla_use_nope": True,
        "moe_layer_freq": 1,
        "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid",
        "num_expert_group": 1,
        "num_experts_per_token": 16,
        "num_shared_experts": 1,
        "rms_norm_eps": 1e-5,
    },
    "deepseek_v4": {
        "hc_eps": 1e-6,
        "hc_mult": 4,
        "hc_sinkhorn_iters": 20,
        "n_shared_experts": 1,
        "num_hash_layers": 3,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000,
        "swiglu_limit": 10.0,
        "hidden_act": "silu",
        "norm_topk_prob": True,
        "scoring_func": "sqrtsoftplus",
        "routed_scaling_factor": 1.5,
        "rope_scaling": {
            "type": "yarn",
            "factor": 16,
            "original_max_position_embeddings": 65536,
            "beta_fast": 32,
            "beta_slow": 1,
        },
    },
    "minicpm": {"hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True},
    "minimax_m2": {"rotary_dim": 64, "scoring_func": "sigmoid"},
    "mimo_v2_flash": {"layernorm_epsilon": 1e-5, "rope_theta": 5000000},
}


def for_engine(config: dict[str, Any]) -> dict[str, Any]:
    """A config.json from which the engine builds the same layers."""
    config = {key: value for key, value in config.items() if key not in ("_source", "quantization_config")}
    language_model = _LANGUAGE_MODELS.get(config["architectures"][0])
    if language_model is not None:
        text = {**config, **config.get("text_config", {})}
        text.pop("text_config", None)
        text.pop("quantization_config", None)
        config = {**text, "architectures": [language_model[0]], "model_type": language_model[1]}
    missing = _MISSING.get(str(config.get("model_type")), {})
    return _without_experts({**missing, **config})


def _without_experts(config: dict[str, Any]) -> dict[str, Any]:
    """Nemotron-H's experts need a card; feed-forward layers keep as little."""
    if config["architectures"] != ["NemotronHForCausalLM"]:
        return config
    changed = dict(config)
    for name in ("hybrid_override_pattern", "mtp_hybrid_override_pattern"):
        if isinstance(config.get(name), str):
            changed[name] = config[name].replace("E", "-")
    for name in ("layers_block_type", "mtp_layers_block_type"):
        if isinstance(config.get(name), list):
            changed[name] = ["mlp" if kind == "moe" else kind for kind in config[name]]
    return changed


def more_models() -> dict[str, dict[str, Any]]:
    """Families that no published configuration of the test data has, in the sizes of a published model."""
    common = {"torch_dtype": "bfloat16", "vocab_size": 32000, "max_position_embeddings": 131072}
    return {
        "cohere2": {
            "architectures": ["Cohere2ForCausalLM"],
            "model_type": "cohere2",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
            **common,
        },
        "exaone4": {
            "architectures": ["Exaone4ForCausalLM"],
            "model_type": "exaone4",
            "hidden_size": 5120,
            "num_hidden_layers": 64,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "sliding_window": 4096,
            "sliding_window_pattern": 4,
            **common,
        },
        "falcon_h1": {
            "architectures": ["FalconH1ForCausalLM"],
            "model_type": "falcon_h1",
            "hidden_size": 3072,
            "num_hidden_layers": 44,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "mamba_d_ssm": 3072,
            "mamba_n_heads": 24,
            "mamba_d_head": 128,
            "mamba_n_groups": 1,
            "mamba_d_state": 256,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            **common,
        },
        "granite4": {
            "architectures": ["GraniteMoeHybridForCausalLM"],
            "model_type": "granitemoehybrid",
            "hidden_size": 1536,
            "num_hidden_layers": 40,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "layer_types": ["attention" if layer in (5, 15, 25, 35) else "mamba" for layer in range(40)],
            "mamba_n_heads": 48,
            "mamba_d_head": 64,
            "mamba_n_groups": 1,
            "mamba_d_state": 128,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "num_local_experts": 0,
            **common,
        },
        "jamba": {
            "architectures": ["JambaForCausalLM"],
            "model_type": "jamba",
            "hidden_size": 2560,
            "num_hidden_layers": 28,
            "num_attention_heads": 20,
            "num_key_value_heads": 4,
            "attn_layer_period": 14,
            "attn_layer_offset": 7,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "num_experts": 1,
            **common,
        },
        "kimi_linear": {
            "architectures": ["KimiLinearForCausalLM"],
            "model_type": "kimi_linear",
            "hidden_size": 2304,
            "num_hidden_layers": 27,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "num_experts": None,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "linear_attn_config": {
                "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
                "kda_layers": [layer for layer in range(1, 28) if layer not in (4, 8, 12, 16, 20, 24, 27)],
                "num_heads": 32,
                "head_dim": 128,
                "short_conv_kernel_size": 4,
            },
            **common,
        },
        "lfm2": {
            "architectures": ["Lfm2ForCausalLM"],
            "model_type": "lfm2",
            "hidden_size": 2048,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "full_attn_idxs": [2, 5, 8, 10, 12, 14],
            "conv_L_cache": 3,
            "conv_dim": 2048,
            "block_dim": 2048,
            "block_ff_dim": 12288,
            **common,
        },
        "mamba2": {
            "architectures": ["Mamba2ForCausalLM"],
            "model_type": "mamba2",
            "hidden_size": 4096,
            "num_hidden_layers": 64,
            "num_heads": 128,
            "head_dim": 64,
            "state_size": 128,
            "conv_kernel": 4,
            "expand": 2,
            "n_groups": 8,
            **common,
        },
        "whisper": {
            "architectures": ["WhisperForConditionalGeneration"],
            "model_type": "whisper",
            "is_encoder_decoder": True,
            "d_model": 1280,
            "num_hidden_layers": 32,
            "decoder_layers": 32,
            "decoder_attention_heads": 20,
            "encoder_layers": 32,
            "encoder_attention_heads": 20,
            "num_mel_bins": 128,
            "vocab_size": 51866,
            "max_source_positions": 1500,
            "max_target_positions": 448,
            "torch_dtype": "bfloat16",
        },
        "mistral_v01": {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "sliding_window": 4096,
            **common,
        },
    }
