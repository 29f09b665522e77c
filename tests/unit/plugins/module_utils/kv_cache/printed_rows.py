# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the printed starts besides their rows: cards, arguments that their notes tell, models, doubts."""

from __future__ import annotations

from typing import Any

GIB = 1 << 30
# What torch sees of a card, nearly: it decides the default of --max-num-batched-tokens.
CARDS = {
    "R9700": 32,
    "3090": 24,
    "4090": 24,
    "5090": 32,
    "A100 40GB": 40,
    "5000 Ada": 32,
    "GB10": 119,
    "PRO 6000": 95,
    "94.97": 95,
    "H200": 140,
    "H100": 80,
    "L4 ": 22,
    "L40S": 45,
    "46 GB": 46,
    "80 GB": 80,
    "Arc": 32,
}
CAPABILITIES = {"PRO 6000": "12.0", "94.97": "12.0", "5090": "12.0", "GB10": "12.1", "H200": "9.0", "H100": "9.0"}

_MTP = {"speculative_config": {"method": "mtp", "num_speculative_tokens": 3}}
_EIGHT_BITS = {"kv_cache_dtype": "fp8"}
# Arguments beside the row's fields. Told: the notes say so. Found: the only ones with which the numbers are met.
TOLD: dict[str, dict[str, Any]] = {
    "dj-02": _MTP,  # speculative decoding on
    "glm51-02": _MTP,
    "glm51-04": _MTP,
    "glm51-06": _MTP,
    "glm51-08": _MTP,
    "qwen36-35b-nvfp4-5090-1": {"mamba_cache_mode": "align", "max_num_batched_tokens": 8192},  # prefix caching on
}
FOUND: dict[str, dict[str, Any]] = {
    "dsv4flash-h200-tp2": {"version": "0.25.0"},
    "gemma4-31b-arc": {"version": "0.24.0", "max_num_batched_tokens": 8192},
    "gptoss120b-err": {"version": "0.24.0", "max_num_batched_tokens": 8192},
    "qwen-27b-5090-192k": {**_EIGHT_BITS, "mamba_cache_mode": "align"},
    "qwen-27b-5090-192k-err": {
        **_EIGHT_BITS,
        "mamba_cache_mode": "align",
        "speculative_config": {"method": "mtp", "num_speculative_tokens": 2},
    },
    "qwen35-35b-eager": {**_EIGHT_BITS, "mamba_cache_mode": "align"},
    "qwen38-27b-80gb": {"version": "0.28.0"},
    "qwen38-5090-164k": {**_EIGHT_BITS, "version": "0.28.0"},
    "qwen38-5090-205k-err": {**_EIGHT_BITS, "version": "0.28.0"},
}
# Models whose row names no configuration, by one with the same cache shape.
SIBLINGS = {
    "err-16384": "Qwen__Qwen2.5-14B-Instruct",
    "gemma4-31b-arc": "nvidia__Gemma-4-31B-IT-NVFP4",
    "qwen-27b-5090-192k": "nvidia__Qwen3.6-27B-NVFP4",
    "qwen-27b-5090-192k-err": "nvidia__Qwen3.6-27B-NVFP4",
    "qwen-tp2-fp8e5m2": "nvidia__Qwen3.6-27B-NVFP4",
    "qwen38-27b-80gb": "nvidia__Qwen3.6-27B-NVFP4",
    "qwen38-27b-fp8-3090x2": "nvidia__Qwen3.6-27B-NVFP4",
    "qwen38-5090-164k": "nvidia__Qwen3.6-27B-NVFP4",
    "qwen38-5090-205k-err": "nvidia__Qwen3.6-27B-NVFP4",
}
# Two more public models, by the fields of their config.json that decide the cache.
MODELS: dict[str, dict[str, Any]] = {
    "exaone4-32b-l40s": {
        "architectures": ["Exaone4ForCausalLM"],
        "model_type": "exaone4",
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "sliding_window": 4096,
        "sliding_window_pattern": "LLLG",
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    },
    "kimilinear-3090x2": {
        "architectures": ["KimiLinearForCausalLM"],
        "model_type": "kimi_linear",
        "hidden_size": 2304,
        "num_hidden_layers": 27,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
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
        "max_position_embeddings": 1048576,
        "torch_dtype": "bfloat16",
    },
}
DIGITS = "what two decimals leave open"
# Rows whose memory line cannot give the tokens closely, and why.
COARSE = {
    "kz-05": "two workers; the memory line is one worker's, the tokens are the smallest worker's",
    "kz-26": "two workers; the memory line is one worker's, the tokens are the smallest worker's",
    "qwen3-235b-fp8-h100x4": "the memory line is one worker's, the tokens are the smallest worker's (its notes)",
    "qwen3-235b-fp8-l40sx8": "the memory line is one worker's, other workers have less (its notes)",
    "qwen25-7b-lora-l4-err": f"{DIGITS}: 0.09 GiB",
    "gemma4-31b-arc": "a fork of the engine with an MTP draft whose layers are not public",
    "qwen38-5090-164k": "112 of 113 blocks of 1,568 tokens, as if one were held back; the release is not known",
}
# Builds of somebody's own, with layers or blocks that no release has.
OTHER_ENGINES = {
    "dsv4flash-pro6000-r33": "a build of its own with a DSpark draft of 5 tokens",
    "dsv4flash-pro6000-tp2": "a build of its own",
    "dsv4pro-tp16": "a build of its own",
}
# The model is not named, or its configuration is not public.
UNKNOWN_MODELS = {
    "dj-01",
    "flashnext-97",
    "flashnext-98",
    "gemma4-31b-tpu-err",
    "intel-114k-err",
    "jh-01",
    "pinned6gib-h200",
    "pro6000-1m",
    "qwen35-9b-5",
    "spark2-hybrid",
}


def named(table: dict[str, Any], gpu: str | None) -> Any:
    """The entry whose key is part of the card's name."""
    return next((value for key, value in table.items() if gpu and key in gpu), None)
