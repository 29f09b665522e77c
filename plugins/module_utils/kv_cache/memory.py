# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One card's memory: total, usable, weights, overhead, CUDA graphs, and what is left for the KV cache.

available = ceil(gpu_memory_utilization x total) - weights - overhead - CUDA graphs, as the engine's worker does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from ..errors import ServingError
from .activation_shape import ActivationShape, activation_shape
from .batch_defaults import batch_defaults
from .cards import CUDA_CONTEXT_BYTES
from .cuda_graphs import CudaGraphs, estimate_cuda_graphs
from .measured import corrected
from .overhead import Overhead, estimate_overhead
from .request import BudgetRequest
from .units import gib, with_bytes
from .weights import weights_of_parts, weights_of_size


@dataclass(frozen=True)
class Memory:
    """Bytes of the card that decides; None where the caller gave available_kv_cache_bytes. available may be negative.

    on_top: what the engine takes beyond gpu_memory_utilization. explanation: a sentence per term. notes: what had to be
    assumed. basis: where each term comes from.
    """

    available: int
    total: int | None = None
    usable: int | None = None
    weights: int | None = None
    overhead: int | None = None
    activations: int | None = None
    cuda_graphs: int | None = None
    on_top: int = 0
    explanation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    basis: dict[str, str] = field(default_factory=dict)

    def as_result(self) -> dict[str, int | None]:
        return {
            "total": self.total,
            "usable": self.usable,
            "weights": self.weights,
            "overhead": self.overhead,
            "activations": self.activations,
            "cuda_graphs": self.cuda_graphs,
            "available_kv_cache": self.available,
            "beyond_utilization": self.on_top,
        }


@dataclass(frozen=True)
class Term:
    """Bytes, where they come from (estimated, measured, given, ...), and the sentence about them."""

    count: int
    basis: str
    text: str


def memory_of(request: BudgetRequest, *, max_model_len: int, block_size: int) -> Memory:
    """The memory of one card at that length. Raises ServingError when a needed input is missing."""
    if request.available_kv_cache_bytes is not None:
        given = request.available_kv_cache_bytes
        text = f"Available for the KV cache, as given: {with_bytes(given)} per card."
        return Memory(given, explanation=(text,), basis={"available_kv_cache": "given"})
    shape = activation_shape(request.config)
    if shape is None:
        raise _missing("available_kv_cache_bytes", "config.json has no hidden_size to estimate activations with")
    total = request.card_bytes
    if total is None:
        raise _missing("gpus, gpu_memory_bytes or available_kv_cache_bytes", "no card is described")
    settings = Settings(request, shape, total, max_model_len, block_size)
    weights = _weights(request, shape)
    graphs, graphs_term = _graphs(settings)
    overhead = _overhead(settings, weights.count)
    usable = math.ceil(total * request.utilization)
    available = usable - weights.count - overhead.count - graphs_term.count
    return Memory(
        available=available,
        total=total,
        usable=usable,
        weights=weights.count,
        overhead=overhead.count,
        activations=settings.overhead.activations,
        cuda_graphs=graphs_term.count,
        on_top=graphs.on_top,
        explanation=(
            f"Usable: {request.utilization:g} (gpu_memory_utilization) x {with_bytes(total)} that torch sees of the "
            f"smallest card = {gib(usable)}.",
            weights.text,
            overhead.text,
            graphs_term.text,
            f"Left for the KV cache: {with_bytes(available)} per card.",
        ),
        notes=_notes(graphs, graphs_term, total, usable),
        basis={
            "weights": weights.basis,
            "overhead": overhead.basis,
            "cuda_graphs": graphs_term.basis,
            "available_kv_cache": "reckoned",
        },
    )


def _notes(graphs: CudaGraphs, term: Term, total: int, usable: int) -> tuple[str, ...]:
    notes = []
    if not graphs.known and term.basis == "estimated":
        notes.append(graphs.because)
    if graphs.on_top and usable + graphs.on_top + CUDA_CONTEXT_BYTES > total:
        notes.append(
            f"The engine may run out of memory while it starts: {gib(usable)} (gpu_memory_utilization), up to "
            f"{gib(graphs.on_top)} of decode scratch on top and {gib(CUDA_CONTEXT_BYTES)} of its CUDA context are more "
            f"than the {gib(total)} of the card. Lower max_num_seqs or gpu_memory_utilization."
        )
    return tuple(notes)


@dataclass(frozen=True)
class Settings:
    """One set of settings, and what is estimated for it."""

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


def _weights(request: BudgetRequest, shape: ActivationShape) -> Term:
    if request.weights_bytes_per_gpu is not None:
        given = request.weights_bytes_per_gpu
        return Term(given, "given", f"Weights, as given: {gib(given)} per card.")
    if request.measured.weights_bytes is not None:
        measured = request.measured.weights_bytes
        return Term(measured, "measured", f"Weights, measured at an earlier start: {gib(measured)} per card.")
    if request.weight_parts is not None:
        return _reckoned("tensors", weights_of_parts(request.weight_parts, shape, request.parallel))
    if request.weights_bytes is not None:
        return _reckoned("files", weights_of_size(request.weights_bytes, shape, request.parallel))
    raise _missing("weights_bytes or weights_bytes_per_gpu", "the size of the weights is not known")


def _reckoned(basis: str, reckoned: tuple[int, str]) -> Term:
    return Term(reckoned[0], basis, reckoned[1])


def _graphs(settings: Settings) -> tuple[CudaGraphs, Term]:
    request, estimate = settings.request, settings.graphs
    if request.cuda_graph_bytes_per_gpu is not None:
        given = request.cuda_graph_bytes_per_gpu
        return estimate, Term(given, "given", f"CUDA graphs, as given: {gib(given)} per card.")
    measured = request.measured.subtracted_graph_bytes
    if measured is None or estimate.count == 0:
        return estimate, Term(estimate.count, "estimated", estimate.because)
    count = corrected(estimate.count, settings.of_the_measured_start.graphs.count, measured)
    text = f"CUDA graphs, {_by_measurement(measured, count)}: {gib(count)} per card."
    return estimate, Term(count, "measured", text)


def _overhead(settings: Settings, weights: int) -> Term:
    request, estimate = settings.request, settings.overhead
    if request.overhead_bytes_per_gpu is not None:
        given = request.overhead_bytes_per_gpu
        return Term(given, "given", f"Overhead, as given: {gib(given)} per card.")
    available = request.measured.available_bytes
    if available is None:
        return Term(estimate.total, "estimated", estimate.explain(*settings.batch))
    then = settings.of_the_measured_start
    measured = max(0, math.ceil(then.total * then.request.utilization) - weights - _graphs(then)[1].count - available)
    count = corrected(estimate.total, then.overhead.total, measured)
    return Term(count, "measured", f"Overhead, {_by_measurement(measured, count)}: {gib(count)} per card.")


def _by_measurement(measured: int, count: int) -> str:
    """Whether the number is the earlier start's own."""
    if measured == count:
        return "measured at an earlier start"
    return f"by an earlier start's {gib(measured)} and what the settings changed since"


def _only_backend(shape: ActivationShape, compute_capability: str | None) -> str | None:
    """TRITON_MLA is the only dense MLA backend of compute capability 12.x."""
    is_sm12x = (compute_capability or "").split(".")[0] == "12"
    return "TRITON_MLA" if shape.is_mla and not shape.is_sparse and is_sm12x else None


def _missing(what: str, why: str) -> ServingError:
    return ServingError(
        "the KV cache's memory cannot be reckoned",
        where=what,
        why=why,
        remedy=f"Give {what}",
    )
