# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Bytes of one element of the KV cache, by --kv-cache-dtype."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .config_fields import text_config

_ELEMENT_BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
}


@dataclass(frozen=True)
class KVDtype:
    """A resolved KV cache dtype. `note` says what had to be assumed."""

    name: str
    element_bytes: int
    note: str | None = None


def kv_dtype(name: str, config: Mapping[str, Any]) -> KVDtype:
    """The dtype for a value of --kv-cache-dtype; `auto` here means the model's own dtype.

    Whether the checkpoint asks for another dtype is known to the room checkpoint: the caller resolves that first.
    Raises ServingError for dtypes that pack values with scales, and for words that vLLM does not know (bf16).
    """
    if name == "auto":
        return _model_dtype(config)
    if name not in _ELEMENT_BYTES:
        known = ", ".join(["auto", *_ELEMENT_BYTES])
        raise ServingError(
            f"cannot estimate a KV cache of dtype {name}",
            where="kv_cache_dtype",
            why=f"the bytes of one of its elements are known for {known} only",
            remedy="Choose one of these, or give available_kv_cache_bytes and kv_bytes_per_token_per_gpu",
        )
    return KVDtype(name, _ELEMENT_BYTES[name])


def _model_dtype(config: Mapping[str, Any]) -> KVDtype:
    """The dtype that vLLM runs the model in: a float32 checkpoint is run in 16 bits."""
    for part in (config, text_config(config)):
        written = part.get("dtype") or part.get("torch_dtype")
        if not isinstance(written, str):
            continue
        name = written.removeprefix("torch.")
        if name in ("bfloat16", "float16"):
            return KVDtype(name, _ELEMENT_BYTES[name])
        if name in ("float32", "float"):
            return KVDtype("bfloat16", 2, "The checkpoint is float32; vLLM runs it, and its KV cache, in 16 bits.")
        raise ServingError(
            f"config.json's dtype {written} is not known",
            where="config.json#/dtype",
            remedy="Give kv_cache_dtype (bfloat16, float16 or fp8)",
        )
    return KVDtype(
        "bfloat16", 2, "config.json names no dtype; 2 bytes per element (bfloat16) are assumed for the KV cache."
    )
