# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What the decode kernels of published vLLM releases need, measured by this probe with triton 3.7.1.

A row is found by the sha256 of the file, never by a version: an edited file is in no row. Each was measured with 8
heads for every capability below and for 12.0 with every number of heads below, and the bytes depend on neither;
tests/e2e/test_kernel_fit.py measures again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .terms import KernelShape, Launch, Measured, Target

TRITON = "3.7.1"
KV_LORA_RANK, QK_ROPE_HEAD_DIM = 512, 64
HEADS_PER_RANK = (2, 4, 8, 16, 32, 64, 128)
# float8 e4m3 needs 8.9.
CAPABILITIES = {
    "bfloat16": ("8.0", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"),
    "float16": ("8.0", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"),
    "float8_e4m3fn": ("8.9", "9.0", "10.0", "10.3", "12.0", "12.1"),
}


@dataclass(frozen=True)
class File:
    """releases: those that hold this very file. literals: constants of the backend's call. Bytes per torch dtype."""

    releases: str
    literals: Mapping[str, object]
    shared_memory_bytes: Mapping[str, int]


@dataclass(frozen=True)
class Row:
    """provenance: with which triton, and of which releases."""

    measured: Measured
    provenance: str


OLD = {"bfloat16": 89_088, "float16": 89_088}  # TRITON_MLA of these releases serves no fp8
FP8 = {"bfloat16": 89_088, "float16": 89_088, "float8_e4m3fn": 87_040}
ONE_LATENT = {"bfloat16": 63_488, "float16": 63_488, "float8_e4m3fn": 102_400}
MLA = {"is_mla": True}
FILES = {
    "cf4debbbbdf2245355177dd7be91c4ac75730a9207a10cd7dab6306a5c3bdec4": File("0.15 to 0.17", {}, OLD),
    "16cba0b3e98d2829df6d235e3d368ffaa66d72cc2a100ac53f96542e30472796": File("0.18 to 0.19", {}, FP8),
    "480528ad3843789816b7e360f33eca6507bb9c6c6cb663c7bfbb012974672b99": File("0.20", MLA, ONE_LATENT),
    "0d0a54a4b57e0df2112d8f09d3801ad6fbfad2bfbce37a7c6428c7cb0930b040": File("0.22 to 0.23", MLA, ONE_LATENT),
    "9a72e87d74ea4a95bada43accec415ec68599cc347aae9b3bf4089793538285d": File("0.24", MLA, ONE_LATENT),
    "b9823c65eba22d76abf64dad7d7d16a950f67471c86d6cb5b3e983aaf14381ac": File("0.25 to 0.30", MLA, ONE_LATENT),
    "00fbae20810ce9a99a3f69e86c70f851eecd4edb12db0cf48181b202efdf8f29": File("0.31 to 0.32", MLA, ONE_LATENT),
    "6095f9bfe69e7c4f472e27f0757a4ae9c7358b50275908b0715fad9727297dde": File("0.33", MLA, ONE_LATENT),
}


def lookup(
    sha256: str, literals: Mapping[str, object], shape: KernelShape, kv_dtype: str, target: Target
) -> Row | None:
    """The row of that file for that shape, dtype and capability, or None where it was not measured."""
    file = FILES.get(sha256)
    if file is None or dict(literals) != file.literals or kv_dtype not in file.shared_memory_bytes:
        return None
    if (shape.kv_lora_rank, shape.qk_rope_head_dim) != (KV_LORA_RANK, QK_ROPE_HEAD_DIM):
        return None
    if shape.num_attention_heads_per_rank not in HEADS_PER_RANK or target.capability not in CAPABILITIES[kv_dtype]:
        return None
    launch = Launch("_fwd_grouped_kernel_stage1", 2, 4, file.shared_memory_bytes[kv_dtype])
    return Row(Measured((launch,)), f"with triton {TRITON} on the same file of vLLM {file.releases}")
