# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One set of settings of the engine, and the terms of memory that are estimated for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .activation_shape import ActivationShape
from .batch_defaults import batch_defaults
from .cuda_graphs import CudaGraphs, estimate_cuda_graphs
from .overhead import Overhead, estimate_overhead
from .request import BudgetRequest
from .speculative import drafted_tokens


@dataclass(frozen=True)
class Settings:
    """A question at one length; without what the caller gave or an earlier start measured."""

    request: BudgetRequest
    shape: ActivationShape
    total: int
    max_model_len: int
    block_size: int

    @property
    def batch(self) -> tuple[int, int]:
        """(max_num_batched_tokens, max_num_seqs), the engine's defaults where they are not given."""
        tokens, seqs = batch_defaults(self.total, self.request.card_name, self.request.release)
        return self.request.max_num_batched_tokens or tokens, self.request.max_num_seqs or seqs

    @property
    def overhead(self) -> Overhead:
        tokens, seqs = self.batch
        return estimate_overhead(
            self.shape,
            self.request.parallel,
            max_num_batched_tokens=tokens,
            max_num_seqs=seqs,
            max_model_len=self.max_model_len,
            block_size=self.block_size,
            language_model_only=self.request.language_model_only,
            rocm=self.request.is_rocm,
        )

    @property
    def graphs(self) -> CudaGraphs:
        request = self.request
        return estimate_cuda_graphs(
            self.shape,
            request.parallel,
            request.release,
            backend=request.attention_backend or _only_backend(self.shape, request.compute_capability),
            compute_capability=request.compute_capability,
            enforce_eager=request.enforce_eager,
            max_num_seqs=self.batch[1],
            max_model_len=self.max_model_len,
            card_name=request.card_name,
            rocm=request.is_rocm,
            drafts=drafted_tokens(request.speculative_config),
            asked=request.estimates_cuda_graphs,
        )

    @property
    def of_the_measured_start(self) -> Settings:
        """The settings of the earlier start, as far as they are known to be others."""
        measured, request = self.request.measured, self.request
        changed = replace(
            request,
            gpu_memory_utilization=measured.gpu_memory_utilization or request.gpu_memory_utilization,
            max_num_batched_tokens=measured.max_num_batched_tokens or request.max_num_batched_tokens,
            max_num_seqs=measured.max_num_seqs or request.max_num_seqs,
            enforce_eager=request.enforce_eager if measured.enforce_eager is None else measured.enforce_eager,
            parallel=replace(
                request.parallel,
                decode_context=measured.decode_context_parallel_size or request.parallel.decode_context,
            ),
        )
        return replace(self, request=changed, max_model_len=measured.max_model_len or self.max_model_len)


def _only_backend(shape: ActivationShape, compute_capability: str | None) -> str | None:
    """TRITON_MLA is the only dense MLA backend of compute capability 12.x."""
    is_sm12x = (compute_capability or "").split(".")[0] == "12"
    return "TRITON_MLA" if shape.is_mla and not shape.is_sparse and is_sm12x else None
