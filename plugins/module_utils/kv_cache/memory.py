# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One card's memory: total, usable, weights, overhead, CUDA graphs, and what is left for the KV cache.

available = ceil(gpu_memory_utilization x total) - weights - overhead - CUDA graphs, as the engine's worker does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..errors import ServingError
from .activation_shape import ActivationShape, activation_shape
from .cards import CUDA_CONTEXT_BYTES
from .cuda_graphs import CudaGraphs
from .measured import corrected
from .request import BudgetRequest
from .settings import Settings
from .units import gib, with_bytes
from .weights import weights_of_parts, weights_of_size

# Of the card: the log prints GiB with two decimals, and weights may be reckoned instead of measured.
_ROUNDED_AWAY = 0.01


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

    @property
    def exceeds_card(self) -> bool:
        """Whether utilization, what comes on top of it and the CUDA context are more than the card has."""
        if self.total is None or self.usable is None or not self.on_top:
            return False
        return self.usable + self.on_top + CUDA_CONTEXT_BYTES > self.total

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
    """Bytes, where they come from (estimated, measured, given, ...), and the sentence about them.

    note: what the answer has to say besides.
    """

    count: int
    basis: str
    text: str
    note: str = ""


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
        notes=_notes(graphs, graphs_term, total, usable) + ((overhead.note,) if overhead.note else ()),
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
    usable = math.ceil(then.total * then.request.utilization)
    measured = usable - weights - _graphs(then)[1].count - available
    if measured < -_ROUNDED_AWAY * then.total:
        note = (
            f"The earlier start's {gib(available)} for the KV cache and {gib(weights)} of weights are more than the "
            f"{gib(usable)} that gpu_memory_utilization {then.request.utilization:g} gives of this card: that start "
            "had another card or other settings, and the overhead is estimated."
        )
        return Term(estimate.total, "estimated", estimate.explain(*settings.batch), note)
    measured = max(0, measured)
    count = corrected(estimate.total, then.overhead.total, measured)
    return Term(count, "measured", f"Overhead, {_by_measurement(measured, count)}: {gib(count)} per card.")


def _by_measurement(measured: int, count: int) -> str:
    """Whether the number is the earlier start's own."""
    if measured == count:
        return "measured at an earlier start"
    return f"by an earlier start's {gib(measured)} and what the settings changed since"


def _missing(what: str, why: str) -> ServingError:
    return ServingError(
        "the KV cache's memory cannot be reckoned",
        where=what,
        why=why,
        remedy=f"Give {what}",
    )
