# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A model's shape from what is known of it: its config.json, or the facts that checkpoint_info tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ServingError
from .question import ModelShape
from .recommendation import CheckpointCache

# Text model types whose attention layers have sinks; config.json has no field for it.
TYPES_WITH_SINKS = ("gpt_oss",)
SIZES = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "q_lora_rank", "index_topk")
NUMBERS = ("head_size", "num_attention_heads", "num_key_value_heads", *SIZES)
FLAGS = ("use_mla", "use_sparse", "has_sink", "has_sliding_window")


def shape_of_config(facts: Mapping[str, Any], text_config: Mapping[str, Any]) -> ModelShape:
    """The shape of a model whose config is at hand. facts: the fields of a blueprint (use_mla, head_size, ...)."""
    window = text_config.get("sliding_window")
    return ModelShape(
        use_mla=facts["use_mla"],
        head_size=_head_size(facts),
        use_sparse=facts["use_mla"] and facts["use_sparse"],
        dtype=facts["dtype"] or "bfloat16",
        num_attention_heads=facts["num_attention_heads"],
        num_key_value_heads=facts["num_key_value_heads"],
        has_sink=text_config.get("model_type") in TYPES_WITH_SINKS,
        has_sliding_window=bool(window) and text_config.get("use_sliding_window") is not False,
        text_config=text_config,
        whole=True,
    )


def shape_of_facts(model: Mapping[str, Any]) -> ModelShape:
    """The shape from the option model; what it does not say is not known."""
    for name in NUMBERS:
        if model.get(name) is not None and not _is_size(model[name]):
            raise _wrong(name, model[name], "a whole number")
    for name in FLAGS:
        if model.get(name) is not None and not isinstance(model[name], bool):
            raise _wrong(name, model[name], "true or false")
    if not isinstance(model.get("dtype") or "", str):
        raise _wrong("dtype", model["dtype"], "a name")
    use_mla = model.get("use_mla")
    if use_mla is None:
        use_mla = model.get("kv_lora_rank") is not None
    return ModelShape(
        use_mla=use_mla,
        head_size=_head_size(model),
        use_sparse=use_mla and bool(model.get("use_sparse")),
        dtype=(model.get("dtype") or "bfloat16").removeprefix("torch."),
        num_attention_heads=model.get("num_attention_heads"),
        num_key_value_heads=model.get("num_key_value_heads"),
        has_sink=bool(model.get("has_sink")) or model.get("text_model_type") in TYPES_WITH_SINKS,
        has_sliding_window=bool(model.get("has_sliding_window")),
        text_config={name: model[name] for name in SIZES if model.get(name) is not None},
    )


def cache_of_facts(model: Mapping[str, Any]) -> CheckpointCache:
    """What the option model says of the KV cache, in checkpoint_info's words (quantization.kv_cache)."""
    quantization = model.get("quantization")
    found = quantization.get("kv_cache") if isinstance(quantization, Mapping) else None
    if not isinstance(found, Mapping):
        return CheckpointCache()
    return CheckpointCache(
        auto=found.get("auto_resolves_to"),
        where=found.get("decided_by"),
        has_scales=found.get("has_scales"),
        overrides_flag=bool(found.get("overrides_flag")),
    )


def _head_size(facts: Mapping[str, Any]) -> int:
    size = facts.get("head_size")
    if size is None and facts.get("kv_lora_rank") is not None and facts.get("qk_rope_head_dim") is not None:
        size = facts["kv_lora_rank"] + facts["qk_rope_head_dim"]
    if not size:
        raise ServingError(
            "the model's head size is not known",
            where="model.head_size",
            why="no attention backend can be chosen without it",
            remedy="Give head_size, or kv_lora_rank and qk_rope_head_dim, or the checkpoint's config",
        )
    return int(size)


def _wrong(name: str, value: object, expected: str) -> ServingError:
    return ServingError(f"{value!r} is not {expected}", where=f"model.{name}")


def _is_size(value: object) -> bool:
    """A whole number, which true is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
