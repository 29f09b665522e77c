# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The budget in plain words: what the cache is made of, and what had to be assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import engine_words
from .batch_defaults import batch_defaults
from .cache_words import block_in_words, cache_in_words
from .planner import Planner
from .question import Question
from .release import NEWEST_KNOWN, OLDEST_KNOWN
from .units import gib

_DIFFERS_FROM = 0.15


def explain_cache(question: Question, planner: Planner) -> list[str]:
    request, dtype = question.request, question.dtype
    what = cache_in_words(question, planner)
    if request.parallel.pipeline > 1:
        what += f" of the largest of {request.parallel.pipeline} pipeline stages"
    if request.parallel.decode_context > 1:
        what += f"; a card holds 1/{request.parallel.decode_context} of the tokens (decode context parallel)"
    lines = [f"{what}.", block_in_words(question, planner)]
    if request.kv_cache_dtype_from:
        lines.append(f"KV cache dtype {dtype.name}: {request.kv_cache_dtype_from}.")
    return lines


def explain_sizes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which tensor-parallel sizes hold the model; nothing where only the asked one could be judged."""
    if len(rows) < 2:
        return []
    fitting = ", ".join(str(row["size"]) for row in rows if row["fits"]) or "none"
    small = [
        f"{row['size']} (short by {gib(-row['available_kv_cache_bytes'])} per card)"
        if row["available_kv_cache_bytes"] < 0
        else f"{row['size']} (no room for one request)"
        for row in rows
        if not row["fits"]
    ]
    text = f"Tensor parallel sizes that hold the model: {fitting}"
    return [f"{text}; too small: {', '.join(small)}." if small else f"{text}."]


def assumptions(question: Question, memory_notes: tuple[str, ...]) -> list[str]:
    release, notes = question.request.release, list(memory_notes)
    if release.assumed:
        notes.append(f"No release is known from vllm_version; the newest known one ({release}) is assumed.")
    elif not OLDEST_KNOWN <= release.major_minor <= NEWEST_KNOWN:
        known = " to ".join(".".join(map(str, each)) for each in (OLDEST_KNOWN, NEWEST_KNOWN))
        notes.append(f"vLLM {release} is none of the known releases ({known}); the rules of the nearest are taken.")
    notes.extend(note for note in (question.dtype.note, question.limit.note) if note)
    return notes


def more_requests_than_states(question: Question, num_blocks: int) -> list[str]:
    """A note where max_num_seqs, or the engine's default for the card, is more than the blocks that can hold states.

    Every request that is decoded holds one. The engine refuses it where it captures full CUDA graphs, which depends on
    the backends too; without graphs it lets the requests wait.
    """
    request, shape = question.request, question.shape
    wanted = request.max_num_seqs
    if wanted is None and request.card_bytes is not None:
        wanted = batch_defaults(request.card_bytes, request.card_name, request.release)[1]
    if shape is None or shape.state is None or request.enforce_eager or wanted is None or not 0 < num_blocks < wanted:
        return []
    return [
        f"max_num_seqs {wanted:,}{'' if request.max_num_seqs else ' (the default)'} is more than the {num_blocks:,} "
        "blocks that can hold a request's states. Where it captures full CUDA graphs, the engine would say: "
        f"{engine_words.too_few_states(wanted, num_blocks)}"
    ]


def compare(measured_tokens: int | None, capacity: int) -> list[str]:
    """A note when an earlier start printed a token count that this budget misses by more than 15 %."""
    if not measured_tokens or abs(capacity - measured_tokens) <= _DIFFERS_FROM * measured_tokens:
        return []
    return [
        f"An earlier start printed {measured_tokens:,} tokens, this budget says {capacity:,}: another length, dtype or "
        "utilization, or a term of the memory estimate is off."
    ]
