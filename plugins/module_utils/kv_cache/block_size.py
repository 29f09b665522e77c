# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Tokens per block of the KV cache: the engine's default unless the attention backend needs another one."""

from __future__ import annotations

from ..errors import ServingError
from .release import EngineRelease

_DEFAULT = 16
# get_supported_kernel_block_sizes of the backends in 0.32.0; where 16 is not among them, what the engine takes then.
_PREFERRED = {
    "TRITON_MLA": 16,
    "FLASH_ATTN_MLA": 16,
    "FLASHMLA": 64,
    "FLASHINFER_MLA": 32,
    "TOKENSPEED_MLA": 32,
    "CUTLASS_MLA": 128,
    "CPU_MLA": 16,
    "AMX_MLA": 128,
    "FLASH_ATTN": 16,
    "FLASHINFER": 16,
    "TRITON_ATTN": 16,
    "FLEX_ATTENTION": 16,
    "CPU_ATTN": 128,
    "B12X": 128,
    "HPC_ATTN": 64,
    "FLASHMLA_SPARSE": 64,
    "FLASHINFER_MLA_SPARSE": 64,
    "FLASHINFER_MLA_SPARSE_SM90": 64,
    "FLASHINFER_MLA_SPARSE_SM120": 64,
    "FLASH_ATTN_MLA_SPARSE": 64,
}
# Families whose kernels have blocks of one size: get_supported_kernel_block_sizes of their indexers.
_ONE_SIZE = {"mla+compressed": (256, "DEEPSEEK_V4_INDEXER"), "gqa+indexer": (128, "MINIMAX_M3_SPARSE_INDEXER")}
_INDEXER = 64  # get_supported_kernel_block_sizes of DEEPSEEK_V32_INDEXER


def block_size_for(
    asked: int | None, backend: str | None, family: str, compute_capability: str | None, release: EngineRelease
) -> tuple[int, str]:
    """(tokens per block, why). Raises ServingError for a size that is no multiple of 16, and an unknown backend."""
    if family in _ONE_SIZE:
        return _of_one_size(asked, *_ONE_SIZE[family])
    if asked is not None:
        if asked < 1 or asked % _DEFAULT:
            raise ServingError(
                "block_size is impossible",
                where="block_size",
                why=f"{asked} is no positive multiple of {_DEFAULT}",
                remedy="Leave it out, or give the size that the engine printed",
            )
        if backend == "CPU_MLA" and asked != _DEFAULT:
            return _DEFAULT, f"CPU_MLA always runs with {_DEFAULT}, also when --block-size says {asked}"
        return asked, "as given"
    if family == "mla+dsa" and backend is None:
        return _INDEXER, "what the engine takes for DEEPSEEK_V32_INDEXER"
    name = backend or _backend_of(family, compute_capability, release)
    if name is None:
        return _DEFAULT, "the engine's default; no attention_backend and no compute_capability given"
    if name not in _PREFERRED:
        raise ServingError(
            f"the block size of the attention backend {name} is not known",
            where="attention_backend",
            why=f"known are {', '.join(sorted(_PREFERRED))}",
            remedy="Give block_size as well",
        )
    if name == "FLASHINFER_MLA" and release.major_minor < (0, 18):
        return 64, f"vLLM {release} forces it for FLASHINFER_MLA"
    return _PREFERRED[name], f"what the engine takes for {name}"


def _of_one_size(asked: int | None, size: int, kernel: str) -> tuple[int, str]:
    if asked is None:
        return size, f"what the engine takes for {kernel}"
    if asked < 1 or asked % size:
        raise ServingError(
            "block_size is impossible",
            where="block_size",
            why=f"{asked} is no positive multiple of {size}, the only size of {kernel}",
            remedy="Leave it out",
        )
    return asked, "as given"


def _backend_of(family: str, compute_capability: str | None, release: EngineRelease) -> str | None:
    """The MLA backend that the engine puts first for a card; None for GQA, whose defaults all take 16."""
    if family not in ("mla", "mla+kda") or compute_capability is None:
        return None
    major = compute_capability.split(".")[0]
    if major == "9":
        return "FLASHMLA" if release.major_minor < (0, 18) else "FLASH_ATTN_MLA"
    return {"10": "FLASHINFER_MLA", "12": "TRITON_MLA"}.get(major)
