# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A prediction beside what the engine printed once it had started: by how much it was off, and by which term.

Input are the sections `predicted` and `measured` of deployment.json. The engine prints GiB with two decimals, so that a
term that differs by less than one hundredth of a GiB is as predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .units import GIB, gib

_PRINTED = GIB // 100
_NAMES = {
    "weights": "the weights",
    "cuda_graphs": "the CUDA graphs",
    "overhead": "the overhead (activations, libraries, NCCL)",
    "available_kv_cache": "the memory for the KV cache",
    "plan": "the tokens of the same memory (block size, dtype or groups of layers)",
}

Terms = dict[str, tuple[int, int]]


def difference(predicted: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any] | None:
    """{tokens, percent, term, terms, text}; None while one of the two token counts is not known.

    tokens: measured less predicted. term: the one that was off most, None when the counts are equal. terms: [{term,
    predicted_bytes, measured_bytes}] of one card, as far as both are known.
    """
    said, expected = measured.get("tokens"), predicted.get("token_capacity")
    if said is None or expected is None:
        return None
    terms = _terms(predicted, measured)
    off = said - expected
    percent = round(off * 100 / expected, 2) if expected else None
    term = _worst(terms) if off else None
    return {
        "tokens": off,
        "percent": percent,
        "term": term,
        "terms": [
            {"term": name, "predicted_bytes": before, "measured_bytes": after}
            for name, (before, after) in terms.items()
        ],
        "text": _text(said, off, percent, term, terms),
    }


def _terms(predicted: Mapping[str, Any], measured: Mapping[str, Any]) -> Terms:
    """Predicted and measured bytes by term. Overhead is what is left of gpu_memory_utilization; nobody prints it."""
    memory = predicted.get("memory") or {}
    available, room = predicted.get("available_kv_cache_bytes"), measured.get("available_bytes")
    terms: Terms = {}
    if memory.get("weights") is not None and measured.get("weights_bytes") is not None:
        terms["weights"] = memory["weights"], measured["weights_bytes"]
    graphs = measured.get("cuda_graph_estimated_bytes")
    if memory.get("cuda_graphs") and graphs is not None:
        terms["cuda_graphs"] = memory["cuda_graphs"], graphs
    if available is None or room is None:
        return terms
    if memory.get("overhead") is not None:
        others = sum(after - before for before, after in terms.values())
        terms["overhead"] = memory["overhead"], memory["overhead"] + available - room - others
    terms["available_kv_cache"] = available, room
    return terms


def _worst(terms: Terms) -> str:
    """The cause rather than the sum: what is left for the cache is named only where no cause is known."""
    causes = {name: abs(after - before) for name, (before, after) in terms.items() if name != "available_kv_cache"}
    before, after = terms.get("available_kv_cache", (0, 0))
    if abs(after - before) < _PRINTED:
        return "plan"
    if not causes or max(causes.values()) < _PRINTED:
        return "available_kv_cache"
    return max(causes, key=lambda name: causes[name])


def _text(said: int, off: int, percent: float | None, term: str | None, terms: Terms) -> str:
    if term is None:
        return f"The engine's line is the prediction: {said:,} tokens."
    text = f"The engine says {said:,} tokens, {abs(off):,} {'more' if off > 0 else 'fewer'} than predicted"
    if percent is not None:
        text += f" ({percent:+.2f} %)"
    text += f"; off was {_NAMES[term]}"
    if term in terms:
        before, after = terms[term]
        text += f": {gib(after)} instead of {gib(before)} per card"
    return f"{text}."
