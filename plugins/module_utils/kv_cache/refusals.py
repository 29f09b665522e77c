# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What would not start, said before it is started: in the engine's words, with the numbers and a remedy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..errors import ServingError
from . import engine_words
from .cards import CUDA_CONTEXT_BYTES, free_at_start, most_held
from .planner import Planner
from .question import Question
from .request import BudgetRequest
from .units import gib, tokens, with_bytes


def fit_to_free(request: BudgetRequest, notes: list[str]) -> BudgetRequest:
    """Refuse a card that somebody else holds; with fit_to_free lower the utilization to what it has free."""
    if not request.cards or request.available_kv_cache_bytes is not None:
        return request
    card = most_held(request.cards)
    wanted, free = math.ceil(card.total_bytes * request.utilization), free_at_start(card)
    if free >= wanted:
        return request
    holders = "; ".join(card.holders) or "no process that nvidia-smi lists"
    lowered = math.floor(free / card.total_bytes * 100) / 100
    if request.fit_to_free and lowered > 0:
        notes.append(
            f"gpu_memory_utilization is lowered from {request.utilization:g} to {lowered:g}: GPU {card.index} has "
            f"{gib(free)} free of the {gib(wanted)} wanted ({holders})."
        )
        return replace(request, gpu_memory_utilization=lowered)
    words = engine_words.free_memory(card.index, free, card.total_bytes, request.utilization, wanted)
    raise ServingError(
        f"GPU {card.index} has too little free memory",
        where=f"gpus[{card.index}]",
        why=(
            f"{with_bytes(card.free_bytes)} free, less {gib(CUDA_CONTEXT_BYTES)} for the engine's own CUDA context; "
            f"gpu_memory_utilization {request.utilization:g} needs {with_bytes(wanted)}; {holders}. The engine would "
            f"say: {words.rstrip('.')}"
        ),
        remedy="Free the card (exclude_units names the units whose memory will be free), leave it out, lower "
        "gpu_memory_utilization, or set fit_to_free",
        facts={"fits": False, "limiting_gpu": card.index, "free_bytes": free, "needed_bytes": wanted},
    )


def refuse_what_cannot_start(question: Question, planner: Planner, result: dict[str, Any]) -> None:
    """Raise what the engine would raise at that length, with the whole result as facts; return when it would start."""
    request, limit = question.request, question.limit
    requested, available = request.max_model_len, result["memory"]["available_kv_cache"]
    length = requested or request.min_model_len or planner.block_size
    if requested is not None and requested > limit.tokens:
        raise _refused(
            result,
            f"max_model_len {requested:,} is longer than the model's longest context of {limit.tokens:,} tokens",
            where="max_model_len",
            why=limit.because,
            words=engine_words.longer_than_derived(requested, limit.tokens),
            remedy=f"Ask for at most {limit.tokens}",
        )
    if available <= 0:
        result["short_by_bytes"] = -available
        raise _refused(
            result,
            f"the weights do not fit at tensor_parallel_size {request.parallel.tensor}",
            where="tensor_parallel_size",
            why=_terms(result["memory"]),
            words=engine_words.no_memory(request.release),
            remedy=_remedies(result, length),
        )
    if not planner.fits(length, available):
        option = _option_that_is_too_long(request)
        result["short_by_bytes"] = max(0, planner.bytes_needed(length) - available)
        stage = planner.first_stage_short(length, available)
        raise _refused(
            result,
            f"{option} {length:,} does not fit" if requested or request.min_model_len else "no block fits",
            where=option,
            why=_shortfall(planner, length, available),
            words=engine_words.does_not_fit(
                length,
                stage.bytes_needed(length),
                available - stage.held_back_bytes,
                stage.largest_that_fits(available, length),
                request.release,
            ),
            remedy=_remedies(result, length, option),
        )


def _option_that_is_too_long(request: BudgetRequest) -> str:
    """Without a length not even one block fits: then it is the memory."""
    if request.max_model_len is not None:
        return "max_model_len"
    if request.min_model_len:
        return "min_model_len"
    return "gpu_memory_utilization" if request.available_kv_cache_bytes is None else "available_kv_cache_bytes"


def _terms(memory: dict[str, Any]) -> str:
    if memory["usable"] is None:
        return "no memory is available for the KV cache"
    return (
        f"per card {gib(memory['weights'])} of weights and {gib(memory['overhead'] + memory['cuda_graphs'])} besides, "
        f"{gib(memory['usable'])} usable, short by {with_bytes(-memory['available_kv_cache'])}"
    )


def _shortfall(planner: Planner, length: int, available: int) -> str:
    needed = planner.bytes_needed(length)
    why = f"{with_bytes(needed)} are needed per card, {with_bytes(available)} are available, "
    why += f"short by {max(0, needed - available):,} bytes"
    if planner.held_back_bytes:
        why += f", and the engine keeps one block of {planner.held_back_bytes:,} bytes back"
    return why


def _remedies(result: dict[str, Any], length: int, option: str = "max_model_len") -> str:
    """What would help: a shorter context (a lower floor, where that was the one too long), or a change that serves this
    one."""
    remedies = []
    lengths = result["max_model_len"]
    if lengths["largest_that_fits"]:
        wanted = lengths["recommended"] or lengths["largest_that_fits"]
        remedies.append(f"{option} {wanted} (at most {lengths['largest_that_fits']} fit)")
    sizes = [str(row["size"]) for row in result["tensor_parallel_sizes"] if row["fits"]]
    if sizes:
        remedies.append(f"tensor_parallel_size {' or '.join(sizes)}")
    remedies.extend(
        f"{row['change']} ({tokens(row['token_capacity'])}{_if_served(row['change'])})"
        for row in result["alternatives"]
        if row["token_capacity"] >= length
    )
    return f"Choose {'; or '.join(remedies)}" if remedies else "Use more or larger cards, or a smaller model"


def _if_served(change: str) -> str:
    """A dtype is a question for the attention backends too."""
    return ", if an attention backend of the cards serves it" if change.startswith("--kv-cache-dtype") else ""


def _refused(result: dict[str, Any], what: str, *, where: str, why: str, words: str, remedy: str) -> ServingError:
    result["fits"] = False
    why += f". The engine would say: {words.rstrip('.')}"
    return ServingError(what, where=where, why=why, remedy=remedy, facts=result)
