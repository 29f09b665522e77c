# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The words of the kernel-fit probe: what is asked, what was measured, what is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["compiled", "known", "unknown"]


@dataclass(frozen=True)
class KernelShape:
    """The shape that a decode kernel is compiled for, on one rank.

    num_attention_heads_per_rank: query heads that one rank's kernel sees (with decode context parallelism the heads
    are gathered: heads / TP x DCP). head_size: of the KV cache; for MLA kv_lora_rank + qk_rope_head_dim.
    """

    num_attention_heads_per_rank: int
    kv_lora_rank: int
    qk_rope_head_dim: int
    head_size: int
    use_mla: bool


@dataclass(frozen=True)
class KernelFit:
    """Whether the decode kernel of a backend fits the card, for one KV cache dtype.

    shared_memory_bytes: what the hungriest kernel of one decode step needs per thread block; None when not known.
    limit_bytes: what the compute capability has (opt-in, per block). fits: None when not known, and reason says why.
    method: compiled (by the installation's own triton, from its own source), known (measured before on a file with
    the same sha256), unknown.
    """

    dtype: str
    backend: str
    shared_memory_bytes: int | None
    limit_bytes: int | None
    fits: bool | None
    method: Method
    reason: str


@dataclass(frozen=True)
class Launch:
    """A kernel as the installation launches it, compiled: the bytes of shared memory per thread block."""

    kernel: str
    num_stages: int
    num_warps: int
    shared_memory_bytes: int


@dataclass(frozen=True)
class Measured:
    """All launches of one decode step; or, with no launches, triton's words why it compiles none for this target."""

    launches: tuple[Launch, ...]
    refused: str | None = None


@dataclass(frozen=True)
class Target:
    """A compute capability, and the shared memory that a thread block can have there."""

    major: int
    minor: int
    limit_bytes: int

    @property
    def capability(self) -> str:
        """As NVIDIA writes it: "12.0"."""
        return f"{self.major}.{self.minor}"


class UnknownError(Exception):
    """The probe cannot tell; the text says what was found and what was expected, and where."""
