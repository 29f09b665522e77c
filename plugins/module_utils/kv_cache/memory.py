# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One card's memory: total, usable, weights, overhead, CUDA graphs, and what is left for the KV cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import ServingError
from .batch_defaults import batch_defaults
from .cuda_graphs import CudaGraphs, estimate_cuda_graphs
from .layer_specs import Parallel
from .overhead import estimate_overhead
from .request import BudgetRequest
from .shape import ModelShape
from .units import gib, with_bytes
from .weights import weights_per_gpu


@dataclass(frozen=True)
class Memory:
    """Bytes of the card that decides; None where the caller gave available_kv_cache_bytes. available may be negative.

    explanation: a sentence per term. notes: what had to be assumed.
    """

    available: int
    total: int | None = None
    usable: int | None = None
    weights: int | None = None
    overhead: int | None = None
    activations: int | None = None
    cuda_graphs: int | None = None
    explanation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_result(self) -> dict[str, int | None]:
        return {
            "total": self.total,
            "usable": self.usable,
            "weights": self.weights,
            "overhead": self.overhead,
            "activations": self.activations,
            "cuda_graphs": self.cuda_graphs,
            "available_kv_cache": self.available,
        }


def memory_of(
    request: BudgetRequest, shape: ModelShape | None, parallel: Parallel, *, max_model_len: int, block_size: int
) -> Memory:
    """The memory of one card at that length and those parallel sizes.

    available = ceil(gpu_memory_utilization x total) - weights - overhead - CUDA graphs, as the engine's worker does.
    Measured terms are used for the sizes that were asked for only. Raises ServingError when a needed input is missing.
    """
    if request.available_kv_cache_bytes is not None:
        given = request.available_kv_cache_bytes
        return Memory(given, explanation=(f"Available for the KV cache, as given: {with_bytes(given)} per card.",))
    if shape is None:
        raise _missing("available_kv_cache_bytes", "kv_bytes_per_token_per_gpu gives no size of activations")
    if request.card_bytes is None:
        raise _missing("gpus, gpu_memory_bytes or available_kv_cache_bytes", "no card is described")
    total = request.card_bytes
    usable = math.ceil(total * request.utilization)
    asked = parallel == request.parallel
    weights, weights_text = _weights(request, shape, parallel, asked)
    tokens, seqs = batch_defaults(total, request.card_name, request.release)
    tokens, seqs = request.max_num_batched_tokens or tokens, request.max_num_seqs or seqs
    estimate = estimate_overhead(
        shape,
        parallel,
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        max_model_len=max_model_len,
        block_size=block_size,
    )
    graphs = _graphs(request, shape, parallel, asked, seqs, max_model_len)
    overhead, overhead_text = estimate.total, estimate.explain(tokens)
    if request.overhead_bytes_per_gpu is not None:
        overhead, overhead_text = request.overhead_bytes_per_gpu, "Overhead, as given: "
        overhead_text += f"{gib(overhead)} per card."
    elif asked and request.measured.available_bytes is not None:
        overhead = _measured_overhead(request, total, weights, graphs.count)
        overhead_text = f"Overhead, measured at an earlier start: {gib(overhead)} per card."
    available = usable - weights - overhead - graphs.count
    usable_text = (
        f"Usable: {request.utilization:g} (gpu_memory_utilization) x {with_bytes(total)} that torch sees of the "
        f"smallest card = {gib(usable)}."
    )
    left = f"Left for the KV cache: {with_bytes(available)} per card."
    return Memory(
        available=available,
        total=total,
        usable=usable,
        weights=weights,
        overhead=overhead,
        activations=estimate.activations,
        cuda_graphs=graphs.count,
        explanation=(usable_text, weights_text, overhead_text, graphs.because, left),
        notes=() if graphs.known else (graphs.because,),
    )


def _weights(request: BudgetRequest, shape: ModelShape, parallel: Parallel, asked: bool) -> tuple[int, str]:
    if asked and request.weights_bytes_per_gpu is not None:
        return request.weights_bytes_per_gpu, f"Weights, as given: {gib(request.weights_bytes_per_gpu)} per card."
    if asked and request.measured.weights_bytes is not None:
        measured = request.measured.weights_bytes
        return measured, f"Weights, measured at an earlier start: {gib(measured)} per card."
    if request.weights_bytes is None:
        raise _missing("weights_bytes or weights_bytes_per_gpu", "the size of the weights is not known")
    return weights_per_gpu(request.weights_bytes, shape, parallel)


def _graphs(
    request: BudgetRequest,
    shape: ModelShape,
    parallel: Parallel,
    asked: bool,
    seqs: int,
    max_model_len: int,
) -> CudaGraphs:
    if request.cuda_graph_bytes_per_gpu is not None:
        given = request.cuda_graph_bytes_per_gpu
        return CudaGraphs(given, f"CUDA graphs, as given: {gib(given)} per card.")
    measured = request.measured.cuda_graph_bytes
    if asked and measured is not None and request.release.subtracts_cuda_graphs and not request.enforce_eager:
        return CudaGraphs(measured, f"CUDA graphs, measured at an earlier start: {gib(measured)} per card.")
    return estimate_cuda_graphs(
        shape,
        parallel,
        request.release,
        backend=request.attention_backend or _only_backend(shape, request.compute_capability),
        enforce_eager=request.enforce_eager,
        max_num_seqs=seqs,
        max_model_len=max_model_len,
        card_name=request.card_name,
    )


def _only_backend(shape: ModelShape, compute_capability: str | None) -> str | None:
    """TRITON_MLA is the only dense MLA backend of compute capability 12.x."""
    is_sm12x = (compute_capability or "").split(".")[0] == "12"
    return "TRITON_MLA" if shape.family == "mla" and is_sm12x else None


def _measured_overhead(request: BudgetRequest, total: int, weights: int, graphs: int) -> int:
    """What an earlier start took besides weights and graphs; its utilization may have been another one."""
    utilization = request.measured.gpu_memory_utilization or request.utilization
    available = request.measured.available_bytes or 0
    return max(0, math.ceil(total * utilization) - weights - graphs - available)


def _missing(what: str, why: str) -> ServingError:
    return ServingError(
        "the KV cache's memory cannot be reckoned",
        where=what,
        why=why,
        remedy=f"Give {what}",
    )
