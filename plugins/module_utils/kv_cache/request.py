# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What is asked of the budget: the model, the cards, the engine's flags, and what is known better than by estimate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ServingError
from .cards import Card, smallest
from .layer_specs import Parallel
from .measured import Measured
from .release import EngineRelease
from .weights import WeightParts


@dataclass(frozen=True)
class BudgetRequest:
    """One question. Names are vLLM's flags; bytes are per card unless the name says otherwise; None = not given.

    max_model_len: tokens, None = choose one. kv_cache_dtype: as the engine resolves it, "auto" = the model's dtype.
    weights_bytes: of the whole checkpoint; weight_parts: its tensors, where they can be read.
    estimates_cuda_graphs: VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS.
    kv_bytes_per_token_per_gpu: for models that the families do not know.
    """

    config: Mapping[str, Any]
    release: EngineRelease
    parallel: Parallel = field(default_factory=Parallel)
    kv_cache_dtype: str = "auto"
    kv_cache_dtype_from: str | None = None
    kv_cache_dtype_skip_layers: Sequence[str] = ()
    kv_bytes_per_token_per_gpu: int | None = None
    block_size: int | None = None
    attention_backend: str | None = None
    compute_capability: str | None = None
    speculative_config: Mapping[str, Any] | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    async_scheduling: bool | None = None
    disable_hybrid_kv_cache_manager: bool = False
    mamba_cache_mode: str | None = None
    mamba_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    enforce_eager: bool = False
    estimates_cuda_graphs: bool | None = None
    language_model_only: bool = False
    weights_bytes: int | None = None
    weight_parts: WeightParts | None = None
    gpu_memory_bytes: int | None = None
    cards: Sequence[Card] = ()
    gpu_memory_utilization: float | None = None
    fit_to_free: bool = False
    weights_bytes_per_gpu: int | None = None
    overhead_bytes_per_gpu: int | None = None
    cuda_graph_bytes_per_gpu: int | None = None
    available_kv_cache_bytes: int | None = None
    measured: Measured = field(default_factory=Measured)
    headroom: float = 0.25
    min_model_len: int | None = None
    max_model_len_cap: int | None = None
    round_to: int = 1024

    @property
    def card_bytes(self) -> int | None:
        """What torch sees of the smallest card."""
        return smallest(self.cards).total_bytes if self.cards else self.gpu_memory_bytes

    @property
    def card_name(self) -> str | None:
        return self.cards[0].name if self.cards else None

    @property
    def is_rocm(self) -> bool:
        return (self.card_name or "").lower().startswith("amd")

    @property
    def utilization(self) -> float:
        given = self.gpu_memory_utilization
        return self.release.default_gpu_memory_utilization if given is None else given

    def check(self) -> None:
        """Refuse impossible values, by the name of the argument. Raises ServingError."""
        for name in ("tensor", "pipeline", "decode_context"):
            _at_least(1, f"{name}_parallel_size", getattr(self.parallel, name))
        for name in (
            "kv_bytes_per_token_per_gpu",
            "max_num_batched_tokens",
            "max_num_seqs",
            "weights_bytes",
            "gpu_memory_bytes",
            "weights_bytes_per_gpu",
            "round_to",
        ):
            _at_least(1, name, getattr(self, name))
        for name in ("overhead_bytes_per_gpu", "cuda_graph_bytes_per_gpu", "available_kv_cache_bytes"):
            _at_least(0, name, getattr(self, name))
        for name in ("weights_bytes", "cuda_graph_bytes", "cuda_graph_estimated_bytes", "available_bytes"):
            _at_least(0, f"measured.{name}", getattr(self.measured, name))
        _fraction("gpu_memory_utilization", self.gpu_memory_utilization, above_zero=True)
        _fraction("measured.gpu_memory_utilization", self.measured.gpu_memory_utilization, above_zero=True)
        _fraction("headroom", self.headroom, above_zero=False)
        if self.headroom == 1:
            raise ServingError("headroom is impossible", where="headroom", why="1 leaves nothing", remedy="Give less")
        if self.mamba_cache_mode not in (None, "none", "align", "all"):
            raise ServingError(
                "mamba_cache_mode is impossible",
                where="mamba_cache_mode",
                why=f"got {self.mamba_cache_mode!r}",
                remedy="Give none, align or all, or leave it out",
            )
        capability = self.compute_capability or None
        written = capability.strip() if isinstance(capability, str) else ""
        if capability is not None and not self.is_rocm and not re.fullmatch(r"\d{1,2}(\.\d)?", written):
            raise ServingError(
                f"{capability!r} is no compute capability",
                where="compute_capability",
                remedy="Write it as gpu_info and nvidia-smi do, for example 12.0",
            )
        self._check_cards()

    def _check_cards(self) -> None:
        ranks = self.parallel.tensor * self.parallel.pipeline
        if self.cards and len(self.cards) < ranks:
            raise ServingError(
                f"{ranks} ranks need as many cards",
                where="gpus",
                why=f"{len(self.cards)} are given",
                remedy="Lower tensor_parallel_size or pipeline_parallel_size, or give more cards",
            )


def _at_least(least: int, name: str, value: int | None) -> None:
    if value is not None and value < least:
        raise ServingError(f"{name} is impossible", where=name, why=f"got {value}", remedy=f"Give at least {least}")


def _fraction(name: str, value: float | None, *, above_zero: bool) -> None:
    if value is not None and not (0 < value <= 1 if above_zero else 0 <= value <= 1):
        raise ServingError(
            f"{name} is impossible", where=name, why=f"got {value}", remedy="Give a fraction between 0 and 1"
        )
