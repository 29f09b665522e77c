# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What other tensor-parallel sizes, and single changes of a flag, would give; in tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .cards import free_at_start, most_held
from .question import Question, capacity_with, with_tensor_parallel_size
from .request import BudgetRequest

_SIZES_WITHOUT_CARDS = 8
_FEWER_SEQUENCES = 64
_FEWER_BATCHED_TOKENS = 4096
_UTILIZATIONS = (0.80, 0.85, 0.90, 0.95)


def tensor_parallel_sizes(question: Question, length: int, least: int) -> list[dict[str, Any]]:
    """One row per power of two (and the asked size) that the cards allow and the heads divide by.

    fits: the weights fit, and one request of `least` tokens besides. token_capacity: at `length`; 0 where the weights
    do not fit. Only the asked size is judged where the size of the whole checkpoint, or its memory, is not known.
    """
    rows = []
    for size in _sizes(question.request):
        changed = with_tensor_parallel_size(question.request, size)
        result = capacity_with(changed, length)
        if result is None:
            continue
        tokens, available = result
        planner = Question(changed).planner(changed.parallel)
        rows.append(
            {
                "size": size,
                "fits": planner.fits(least, available),
                "token_capacity": tokens,
                "available_kv_cache_bytes": available,
            }
        )
    return rows


def _sizes(request: BudgetRequest) -> list[int]:
    asked = request.parallel.tensor
    if request.available_kv_cache_bytes is not None or (request.weights_bytes is None and request.weight_parts is None):
        return [asked]
    most = len(request.cards) // request.parallel.pipeline if request.cards else max(asked, _SIZES_WITHOUT_CARDS)
    powers = {1 << exponent for exponent in range(most.bit_length()) if 1 << exponent <= most}
    return sorted(powers | {asked})


def alternatives(question: Question, length: int) -> list[dict[str, Any]]:
    """[{change, token_capacity}] for single changes that the engine accepts and that give another number of tokens."""
    request = _measured_as_asked(question.request, length)
    now = capacity_with(request, length)
    rows = []
    for change, changed in _changes(question, request):
        result = capacity_with(changed, length) if _finds_its_memory_free(changed) else None
        if result is not None and result != now and not Question(changed).memory(length).exceeds_card:
            rows.append({"change": change, "token_capacity": result[0]})
    return rows


def _finds_its_memory_free(request: BudgetRequest) -> bool:
    """Whether the engine would find gpu_memory_utilization free on every card, beside who holds memory there."""
    if not request.cards:
        return True
    card = most_held(request.cards)
    return free_at_start(card) >= math.ceil(card.total_bytes * request.utilization)


def _measured_as_asked(request: BudgetRequest, length: int) -> BudgetRequest:
    """What is not said of the settings of the earlier start was as in the question, whatever is changed of it now."""
    measured = request.measured
    if measured.is_empty:
        return request
    known = replace(
        measured,
        gpu_memory_utilization=measured.gpu_memory_utilization or request.utilization,
        max_model_len=measured.max_model_len or length,
        max_num_batched_tokens=measured.max_num_batched_tokens or request.max_num_batched_tokens,
        max_num_seqs=measured.max_num_seqs or request.max_num_seqs,
        decode_context_parallel_size=measured.decode_context_parallel_size or request.parallel.decode_context,
        enforce_eager=request.enforce_eager if measured.enforce_eager is None else measured.enforce_eager,
    )
    return replace(request, measured=known)


def _changes(question: Question, request: BudgetRequest) -> Iterator[tuple[str, BudgetRequest]]:
    parallel = request.parallel
    if question.shape is not None:
        for size in range(1, parallel.tensor + 1):
            if parallel.tensor % size == 0 and size != parallel.decode_context:
                changed = replace(parallel, decode_context=size)
                yield f"--decode-context-parallel-size {size}", replace(request, parallel=changed)
        other = "bfloat16" if question.dtype.element_bytes == 1 else "fp8"
        yield f"--kv-cache-dtype {other}", replace(request, kv_cache_dtype=other)
    if request.available_kv_cache_bytes is not None:
        return
    for utilization in _neighbours(request.utilization):
        changed_use = replace(request, gpu_memory_utilization=utilization)
        yield f"--gpu-memory-utilization {utilization:.2f}", changed_use
    if (request.max_num_seqs or _FEWER_SEQUENCES + 1) > _FEWER_SEQUENCES:
        yield f"--max-num-seqs {_FEWER_SEQUENCES}", replace(request, max_num_seqs=_FEWER_SEQUENCES)
    if (request.max_num_batched_tokens or _FEWER_BATCHED_TOKENS + 1) > _FEWER_BATCHED_TOKENS:
        yield (
            f"--max-num-batched-tokens {_FEWER_BATCHED_TOKENS}",
            replace(request, max_num_batched_tokens=_FEWER_BATCHED_TOKENS),
        )
    if not request.enforce_eager:
        yield "--enforce-eager", replace(request, enforce_eager=True)


def _neighbours(utilization: float) -> list[float]:
    """The next smaller and the next larger of the usual values."""
    smaller = [value for value in _UTILIZATIONS if value < utilization - 0.001]
    larger = [value for value in _UTILIZATIONS if value > utilization + 0.001]
    return smaller[-1:] + larger[:1]
