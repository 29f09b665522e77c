# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What transformers' configuration classes (5.19) fill in for a field that config.json does not have at all.

Only fields that decide the cache, and only where the class does not derive them from the others. A field that is
there as null is not filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GEMMA = {"head_dim": 256}
_GEMMA_3 = {**_GEMMA, "num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 4096}
_FILLED_IN: dict[str, dict[str, Any]] = {
    "afmoe": {"head_dim": 128, "sliding_window": 1024},
    "cohere2": {"sliding_window": 4096},
    "dbrx": {"num_key_value_heads": 1},
    "ernie4_5": {"head_dim": 128, "num_key_value_heads": 2},
    "ernie4_5_moe": {"num_key_value_heads": 4},
    "exaone4": {"sliding_window": 4096, "num_key_value_heads": 32},
    "exaone_moe": {"sliding_window": 4096, "num_key_value_heads": 32},
    "gemma": {**_GEMMA, "num_key_value_heads": 16},
    "gemma2": {**_GEMMA, "num_key_value_heads": 4, "sliding_window": 4096},
    "falcon": {"max_position_embeddings": 2048},
    "gemma3": _GEMMA_3,
    "gemma3_text": {**_GEMMA_3, "max_position_embeddings": 131072},
    "gemma3n_text": {**_GEMMA, "num_key_value_heads": 2, "sliding_window": 512},
    "gemma4_text": {**_GEMMA, "num_key_value_heads": 4, "sliding_window": 512, "global_head_dim": 512},
    "glm": {"head_dim": 128, "num_key_value_heads": 2},
    "glm4": {"head_dim": 128, "num_key_value_heads": 2},
    "glm4_moe": {"num_key_value_heads": 8},
    "glm4v_moe_text": {"num_key_value_heads": 8},
    "glm4v_text": {"num_key_value_heads": 2},
    "gpt_oss": {"head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128},
    "jamba": {"num_key_value_heads": 8},
    "llama4_text": {"head_dim": 128, "num_key_value_heads": 8, "attention_chunk_size": 8192},
    "minimax_m2": {"head_dim": 128, "num_key_value_heads": 8},
    "ministral3": {"head_dim": 128, "num_key_value_heads": 8},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "mixtral": {"num_key_value_heads": 8},
    "nemotron_h": {"head_dim": 128, "num_key_value_heads": 8},
    "olmo3": {"sliding_window": 4096},
    "phimoe": {"num_key_value_heads": 8},
    "qwen2": {"num_key_value_heads": 32, "max_window_layers": 28},
    "qwen2_moe": {"num_key_value_heads": 16, "max_window_layers": 28},
    "qwen3": {"head_dim": 128, "num_key_value_heads": 32, "max_window_layers": 28},
    "qwen3_5_moe_text": {"head_dim": 256, "num_key_value_heads": 2},
    "qwen3_5_text": {"head_dim": 256, "num_key_value_heads": 4},
    "qwen3_moe": {"num_key_value_heads": 4, "max_window_layers": 28},
    "qwen3_next": {"head_dim": 256, "num_key_value_heads": 2},
    "qwen3_vl_moe_text": {"num_key_value_heads": 16},
    "qwen3_vl_text": {"head_dim": 128, "num_key_value_heads": 32},
    "seed_oss": {"head_dim": 128, "num_key_value_heads": 8},
    "stablelm": {"num_key_value_heads": 32},
}


def filled_in(text: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with what its class would fill in."""
    added = _FILLED_IN.get(str(text.get("model_type")), {})
    missing = {name: value for name, value in added.items() if name not in text}
    return {**text, **missing} if missing else text
