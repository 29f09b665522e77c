# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What --kv-cache-dtype makes of the values of one head, and of one latent vector: bytes, scales included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .config_fields import text_config
from .release import EngineRelease
from .shape import ModelShape

_ELEMENT_BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
    "fp8_ds_mla": 1,
    "nvfp4_ds_mla": 1,
    "nvfp4": 1,
    "nvfp4_4over6": 1,
    "fp8_per_token_head": 1,
    "int8_per_token_head": 1,
    "int4_per_token_head": 1,
}
# First minor release of a dtype that not all have.
_SINCE = {
    "float16": (0, 18),
    "nvfp4": (0, 20),
    "fp8_per_token_head": (0, 20),
    "int8_per_token_head": (0, 20),
    "int4_per_token_head": (0, 26),
    "nvfp4_4over6": (0, 27),
    "nvfp4_ds_mla": (0, 29),
}
# Layouts of one latent vector with its scales (kv_cache_interface.py, mla_attention.py).
_PACKED_LATENT = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
_IGNORE_FLAG = ("FalconForCausalLM", "RWForCausalLM")
_SCALE_BYTES = 4  # one float32 for the key and one for the value
_NVFP4_GROUP = 16


@dataclass(frozen=True)
class KVDtype:
    """A resolved KV cache dtype. `note` says what had to be assumed."""

    name: str
    element_bytes: int
    note: str | None = None

    def bytes_per_head(self, head_size: int, value_size: int) -> int:
        """Bytes of one token's key and value of one head. Raises ServingError for a layout of latent vectors."""
        if self.name in _PACKED_LATENT:
            raise _impossible(self.name, "it packs latent vectors (MLA), and the model has none")
        if self.name.startswith("nvfp4"):
            return sum(size // 2 + size // _NVFP4_GROUP for size in (head_size, value_size))
        if self.name == "int4_per_token_head":
            return head_size // 2 + value_size // 2 + 2 * _SCALE_BYTES
        scales = 2 * _SCALE_BYTES if self.name.endswith("_per_token_head") else 0
        return (head_size + value_size) * self.element_bytes + scales

    def bytes_per_latent(self, elements: int) -> int:
        """Bytes of one token's latent vector. Raises ServingError for a dtype that MLA does not have."""
        if self.name in _PACKED_LATENT:
            return _PACKED_LATENT[self.name]
        if self.name.startswith("nvfp4"):
            raise _impossible(self.name, "vLLM has no such cache of latent vectors (MLA); nvfp4_ds_mla is one")
        if self.name == "int4_per_token_head":
            return elements // 2 + 2 * _SCALE_BYTES
        scales = 2 * _SCALE_BYTES if self.name.endswith("_per_token_head") else 0
        return elements * self.element_bytes + scales


def kv_dtype(name: str, config: Mapping[str, Any], release: EngineRelease | None = None) -> KVDtype:
    """The dtype for a value of --kv-cache-dtype; `auto` here means the model's own dtype.

    Whether the checkpoint asks for another dtype is known to the room checkpoint: the caller resolves that first.
    Raises ServingError for dtypes whose bytes are not known, for those that the release does not have, and for words
    that vLLM does not know (bf16).
    """
    if name == "auto":
        return model_dtype(config)
    if name not in _ELEMENT_BYTES:
        known = ", ".join(["auto", *_ELEMENT_BYTES])
        raise ServingError(
            f"cannot estimate a KV cache of dtype {name}",
            where="kv_cache_dtype",
            why=f"the bytes of one of its elements are known for {known} only",
            remedy="Choose one of these, or give available_kv_cache_bytes and kv_bytes_per_token_per_gpu",
        )
    since = _SINCE.get(name)
    if since and name != "float16" and release is not None and release.major_minor < since:
        raise _impossible(name, f"vLLM {release} does not have it (from {since[0]}.{since[1]})")
    return KVDtype(name, _ELEMENT_BYTES[name])


def sparse_kv_dtype(dtype: KVDtype, backend: str | None, compute_capability: str | None) -> KVDtype:
    """What a sparse MLA model (DSA) makes of the dtype: 8 bits mean the packed layout, on SM120 always.

    FLASHINFER_MLA_SPARSE alone keeps plain 8-bit vectors.
    """
    on_sm120 = (compute_capability or "").split(".")[0] == "12" or backend == "FLASHINFER_MLA_SPARSE_SM120"
    if on_sm120 and dtype.name != "fp8_ds_mla":
        why = "FLASHINFER_MLA_SPARSE_SM120, the only sparse MLA backend of compute capability 12.x, keeps fp8_ds_mla"
        return KVDtype("fp8_ds_mla", 1, f"The KV cache is fp8_ds_mla, not {dtype.name}: {why}.")
    if dtype.name in ("fp8", "fp8_e4m3") and backend not in ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM90"):
        return KVDtype("fp8_ds_mla", 1, dtype.note)
    return dtype


def flagless_kv_dtype(config: Mapping[str, Any], asked: KVDtype) -> KVDtype:
    """Models whose class does not hand --kv-cache-dtype to its attention layers keep their own dtype."""
    named = config.get("architectures")
    if not isinstance(named, (list, tuple)) or not named or named[0] not in _IGNORE_FLAG:
        return asked
    kept = model_dtype(config)
    if kept.name == asked.name:
        return asked
    why = f"vLLM's {named[0]} does not hand --kv-cache-dtype to its attention layers"
    return KVDtype(kept.name, kept.element_bytes, f"The KV cache is {kept.name}, not {asked.name}: {why}.")


def unquantized_layers(shape: ModelShape, named: Sequence[str], dtype: KVDtype, release: EngineRelease) -> list[int]:
    """The layers of --kv-cache-dtype-skip-layers, which keep the model's dtype; none where it is the dtype anyway.

    Raises ServingError where the engine's pages would be of other sizes than are known here.
    """
    if not named or dtype.name in ("bfloat16", "float16"):
        return []
    layers = [int(each) for each in named if each.isdecimal() and each.isascii()]
    if shape.family != "gqa" or release.major_minor < (0, 19) or len(layers) != len(named):
        raise ServingError(
            "cannot estimate a KV cache whose layers have several dtypes",
            where="kv_cache_dtype_skip_layers",
            why=f"{', '.join(named)} of a model of the family {shape.family}, vLLM {release}; known are numbers "
            "of layers where every layer keeps the keys and values of every token, from 0.19",
            remedy="Leave --kv-cache-dtype-skip-layers out, or give available_kv_cache_bytes and "
            "kv_bytes_per_token_per_gpu",
        )
    return [layer for layer in layers if layer < shape.layers]


def compressed_kv_dtype(
    dtype: KVDtype, asked: str, backend: str | None, compute_capability: str | None, release: EngineRelease
) -> KVDtype:
    """What DeepSeek-V4 makes of the dtype: fp8_ds_mla. Raises ServingError for what it refuses, and for plain rows."""
    if not release.serves_deepseek_v4:
        raise _impossible(asked, f"vLLM {release} does not run DeepSeek-V4 (from 0.20)")
    if backend == "FLASHINFER_MLA_SPARSE_DSV4" and (compute_capability or "").split(".")[0] != "12":
        raise ServingError(
            "cannot estimate the KV cache of FLASHINFER_MLA_SPARSE_DSV4",
            where="attention_backend",
            why="on cards of other compute capabilities than 12.x it keeps plain rows, whose pages are not known here",
            remedy="Leave attention_backend out, or give available_kv_cache_bytes and kv_bytes_per_token_per_gpu",
        )
    if asked == "auto":
        note = None
        if not release.packs_without_asking:
            note = f"vLLM {release} starts DeepSeek-V4 with --kv-cache-dtype fp8 only; auto is refused."
        return KVDtype("fp8_ds_mla", 1, note)
    if dtype.name not in ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"):
        raise _impossible(asked, "vLLM keeps the cache of DeepSeek-V4 as fp8_ds_mla only: give fp8")
    return KVDtype("fp8_ds_mla", 1)


def _impossible(name: str, why: str) -> ServingError:
    return ServingError(
        f"a KV cache of dtype {name} is impossible here",
        where="kv_cache_dtype",
        why=why,
        remedy="Choose another kv_cache_dtype",
    )


def model_dtype(config: Mapping[str, Any]) -> KVDtype:
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
