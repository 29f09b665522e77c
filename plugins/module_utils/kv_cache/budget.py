# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One KV budget: what the engine would print, which length to serve, and one error where it would not start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .alternatives import alternatives, tensor_parallel_sizes
from .explanation import assumptions, compare, explain_cache, explain_sizes, more_requests_than_states
from .picture import parts_of, text_lines
from .planner import Planner
from .question import WITHOUT_LIMIT, Question
from .recommendation import Wishes, check_wishes, recommend
from .refusals import fit_to_free, refuse_what_cannot_start
from .request import BudgetRequest
from .units import tokens

Result = dict[str, Any]


def compute_budget(request: BudgetRequest) -> Result:
    """The budget of one model on one set of cards, in the shape of the module vllm_kv_budget's RETURN.

    Raises ServingError with the same result as facts when weights, the requested length or the floor do not fit, when
    the length is above the model's own, and when somebody else holds memory that the engine would miss.
    """
    request.check()
    notes: list[str] = []
    request = fit_to_free(request, notes)
    question = Question(request)
    limit, wishes = question.limit, _wishes(question)
    check_wishes(wishes)
    planner = question.planner(request.parallel)

    def fitting(length: int) -> int:
        """The longest request by memory alone, with CUDA graphs and workspace for `length`."""
        return planner.largest_that_fits(question.memory(length).available, WITHOUT_LIMIT)

    largest = _settle(limit.tokens, lambda length: min(fitting(length), limit.tokens)) or 0
    recommended = _settle(question.ceiling, lambda length: recommend(fitting(length), wishes)[0])
    served = request.max_model_len or recommended or question.ceiling
    recommended_because = recommend(fitting(recommended or question.ceiling), wishes)[1]
    memory = question.memory(served)

    least = request.max_model_len or request.min_model_len or planner.block_size
    sizes = tensor_parallel_sizes(question, served, least)
    capacity = planner.token_capacity(served, max(0, memory.available))
    result: Result = {
        "family": question.family,
        "kv_cache": _kv_cache(question, planner, memory.available, served),
        "memory": memory.as_result(),
        "basis": memory.basis,
        "max_model_len": {
            "requested": request.max_model_len,
            "largest_that_fits": largest,
            "recommended": recommended,
            "model_limit": limit.tokens,
        },
        "fits": True,
        "tensor_parallel_sizes": sizes,
        "alternatives": alternatives(question, served),
        "explanation": [
            *explain_cache(question, planner),
            *memory.explanation,
            f"Capacity at max_model_len {served:,}: {tokens(capacity)}.",
            f"Longest context of the model: {limit.because}.",
            f"Recommended max_model_len: {'none' if recommended is None else tokens(recommended)}; "
            f"{recommended_because}.",
            *explain_sizes(sizes),
        ],
        "notes": [
            *notes,
            *assumptions(question, memory.notes),
            *more_requests_than_states(question, planner.num_blocks(max(0, memory.available))),
            *compare(request.measured.tokens, capacity),
        ],
    }
    result["memory_bar"] = text_lines(
        parts_of(
            {
                "memory": result["memory"],
                "available_kv_cache_bytes": memory.available,
                "bytes_needed": planner.bytes_needed(served),
                "max_model_len": served,
            }
        )
    )
    refuse_what_cannot_start(question, planner, result)
    return result


def _settle(start: int, answer: Callable[[int], int | None]) -> int | None:
    """A length that holds with the memory of that very length: what `start` leaves room for, or better.

    A shorter length needs less for CUDA graphs, so that what `start` allows is allowed all the more.
    """
    first = answer(start)
    if first is None or first >= start:
        return first
    better = answer(first)
    if better is not None and better > first and (answer(better) or 0) >= better:
        return better
    return first


def _wishes(question: Question) -> Wishes:
    request = question.request
    return Wishes(
        limit=question.limit.tokens,
        cap=request.max_model_len_cap,
        floor=request.min_model_len,
        headroom=request.headroom,
        round_to=request.round_to,
        block_size=question.block_size[0],
    )


def _kv_cache(question: Question, planner: Planner, available: int, length: int) -> Result:
    available = max(0, available)
    return {
        "dtype": question.dtype.name,
        "bytes_per_token_per_gpu": planner.bytes_per_token,
        "block_size": planner.block_size,
        "bytes_per_block": planner.bytes_per_block,
        "num_blocks": planner.num_blocks(available),
        "token_capacity": planner.token_capacity(length, available),
        "max_concurrency": planner.max_concurrency(length, available),
        "bytes_needed": planner.bytes_needed(length),
        "groups": [
            {
                "kind": group.spec.kind,
                "layers": len(group.layers),
                "bytes_per_block": group.page_bytes,
                "block_size": group.spec.block_size,
                "blocks_per_request": group.blocks_per_request(length, planner.serving),
            }
            for group in max(planner.stages, key=lambda groups: sum(len(group.layers) for group in groups))
        ],
    }
