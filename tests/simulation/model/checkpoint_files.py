# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoint's JSON files, in the shape in which NVIDIA publishes Kimi-K2.5 in NVFP4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import DeepseekV3Config, PreTrainedTokenizerFast

PRODUCER = {"name": "modelopt", "version": "0.41.0"}
VISION: dict[str, Any] = {
    "model_type": "kimi_k25_vision",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "patch_size": 14,
    "pos_emb_height": 8,
    "pos_emb_width": 8,
    "pos_emb_time": 4,
    "merge_kernel_size": [2, 2],
}


TEXT_SETTINGS = (
    "attention_bias bos_token_id eos_token_id first_k_dense_replace hidden_act hidden_size initializer_range "
    "intermediate_size kv_lora_rank max_position_embeddings model_type moe_intermediate_size n_group n_routed_experts "
    "n_shared_experts norm_topk_prob num_attention_heads num_experts_per_tok num_hidden_layers num_key_value_heads "
    "num_nextn_predict_layers pad_token_id q_lora_rank qk_nope_head_dim qk_rope_head_dim rms_norm_eps rope_interleave "
    "rope_parameters routed_scaling_factor tie_word_embeddings topk_group v_head_dim vocab_size"
)


def text_settings(config: DeepseekV3Config) -> dict[str, Any]:
    """The text model's settings, without what depends on the release of transformers."""
    settings = config.to_dict()
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "dtype": "bfloat16",
        **{name: settings[name] for name in TEXT_SETTINGS.split()},
        # vLLM builds the router's bias only when both of these are there.
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
    }


def model_config(config: DeepseekV3Config, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """config.json: the two towers, and the first of the two declarations that ask for an FP8 KV cache.

    Every module is left out of the weights' quantization: the weights are bfloat16, as a CPU can compute them.
    """
    numbers = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
    quantization = {
        "config_groups": {"group_0": {"input_activations": numbers, "weights": numbers, "targets": ["Linear"]}},
        "ignore": ["*"],
        "quant_algo": "NVFP4",
        "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
        "producer": PRODUCER,
        "quant_method": "modelopt",
    }
    return {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "dtype": "bfloat16",
        "text_config": text_settings(config),
        "vision_config": VISION,
        "projection_hidden_size": VISION["hidden_size"],
        "image_token_id": tokenizer.convert_tokens_to_ids("<|media_pad|>"),
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "quantization_config": quantization,
    }


def quantization_config() -> dict[str, Any]:
    """hf_quant_config.json: the second declaration of the FP8 KV cache, in modelopt's own form."""
    quantization = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["*"]}
    return {"producer": PRODUCER, "quantization": quantization}


def generation_config(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    ids = {"bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id, "pad": tokenizer.pad_token_id}
    return {f"{name}_token_id": number for name, number in ids.items()}


def preprocessor_config() -> dict[str, Any]:
    """The image processor's settings; the engine reads them even when it serves the language model only."""
    return {
        "media_proc_cfg": {
            "patch_size": VISION["patch_size"],
            "merge_kernel_size": 2,
            "temporal_merge_kernel_size": 4,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
            "in_patch_limit": 256,
            "in_patch_limit_each_frame": 256,
            "in_patch_limit_video": None,
            "patch_limit_on_one_side": 64,
            "fixed_output_tokens": None,
        }
    }


def tokenizer_config(tokenizer: PreTrainedTokenizerFast, chat_template: str) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokenizer.bos_token,
        "eos_token": tokenizer.eos_token,
        "pad_token": tokenizer.pad_token,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 262144,
        "chat_template": chat_template,
    }


def write_files(folder: Path, config: DeepseekV3Config, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write everything that is not a weight into ``folder``."""
    contents = {
        "config.json": model_config(config, tokenizer),
        "hf_quant_config.json": quantization_config(),
        "generation_config.json": generation_config(tokenizer),
        "preprocessor_config.json": preprocessor_config(),
        "tokenizer_config.json": tokenizer_config(tokenizer, tokenizer.chat_template),
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
