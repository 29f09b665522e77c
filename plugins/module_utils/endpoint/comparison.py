# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How far the answers of two engines are apart.

Greedy answers of two engines are equal until rounding turns a choice that was nearly even; from there on they are two
texts, and comparing them says nothing. So the distance is taken where both have seen the same tokens: over the common
prefix, and at the first token that differs. A change of rounding turns even choices only; a broken kernel turns choices
that were clear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from .fingerprint import Fingerprint, Observation
from .percentiles import mean

EQUAL, CLOSE, DIFFERENT = "equal", "close", "different"
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class Limits:
    """In nats; min_speed_ratio: of the tokens per second. Calibrated in docs/calibration.md."""

    max_mean_logprob_distance: float
    max_shift: float
    min_speed_ratio: float


@dataclass(frozen=True)
class _Pair:
    """One prompt. shift: how far the choice between the two tokens moved at the first that differs, in nats."""

    distances: list[float]
    position: int | None
    shift: float | None


def compare(before: Sequence[Fingerprint], before_rate: float, now: Observation, limits: Limits) -> dict[str, Any]:
    """The comparison (shape in vllm_baseline's RETURN); both sides answer the same prompts in the same order."""
    pairs = [_compare(old, new) for old, new in zip(before, now.answers, strict=True)]
    distances = [distance for pair in pairs for distance in pair.distances]
    shifts = [pair.shift for pair in pairs if pair.shift is not None]
    result: dict[str, Any] = {
        "answers": len(pairs),
        "equal_answers": sum(pair.position is None for pair in pairs),
        "compared_tokens": len(distances),
        "mean_logprob_distance": round(mean(distances), 5) if distances else None,
        "max_logprob_distance": round(max(distances), 5) if distances else None,
        "max_shift": round(max(shifts), 5) if shifts else 0.0,
        "tokens_per_s": {"baseline": before_rate, "now": now.tokens_per_s},
        "speed_ratio": round(now.tokens_per_s / before_rate, 3),
        "first_difference": _first_difference(before, now.answers, pairs),
    }
    result["exceeded"] = _exceeded(result, limits)
    equal = result["equal_answers"] == result["answers"]
    result["verdict"] = DIFFERENT if result["exceeded"] else EQUAL if equal else CLOSE
    return result


def _compare(old: Fingerprint, new: Fingerprint) -> _Pair:
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old.tokens, new.tokens, strict=False))))
    distances = [abs(a - b) for a, b in zip(old.logprobs[:same], new.logprobs[:same], strict=True)]
    if same == len(old.tokens) == len(new.tokens):
        return _Pair(distances, None, None)
    if same == min(len(old.tokens), len(new.tokens)):
        # one text goes on where the other ends without a token of its own: there is nothing to weigh
        return _Pair(distances, same, None)
    chosen, other = old.tokens[same], new.tokens[same]
    return _Pair(distances, same, _margin(old, same, chosen, other) + _margin(new, same, other, chosen))


def _margin(side: Fingerprint, position: int, chosen: str, other: str) -> float:
    """How much likelier this side found its own token; at least that much where the other is not among the top."""
    top = side.top[position] if position < len(side.top) else {}
    mine = side.logprobs[position]
    lowest = min(top.values(), default=mine)
    return max(0.0, mine - top.get(other, lowest)) if chosen != other else 0.0


def _first_difference(
    before: Sequence[Fingerprint], now: Sequence[Fingerprint], pairs: Sequence[_Pair]
) -> dict[str, Any] | None:
    """The one with the largest shift: it says most."""
    differing = [index for index, pair in enumerate(pairs) if pair.position is not None]
    if not differing:
        return None
    index = max(differing, key=lambda number: pairs[number].shift or 0.0)
    position = pairs[index].position or 0
    return {
        "prompt": before[index].prompt[:_SHOWN_CHARACTERS],
        "position": position,
        "baseline": "".join(before[index].tokens[position:])[:_SHOWN_CHARACTERS],
        "now": "".join(now[index].tokens[position:])[:_SHOWN_CHARACTERS],
        "shift": None if pairs[index].shift is None else round(pairs[index].shift or 0.0, 5),
    }


def _exceeded(result: dict[str, Any], limits: Limits) -> list[str]:
    found = []
    if (result["mean_logprob_distance"] or 0.0) > limits.max_mean_logprob_distance:
        found.append(
            f"mean_logprob_distance is {result['mean_logprob_distance']:g}, allowed is "
            f"{limits.max_mean_logprob_distance:g}"
        )
    if result["max_shift"] > limits.max_shift:
        found.append(f"max_shift is {result['max_shift']:g}, allowed is {limits.max_shift:g}")
    if result["speed_ratio"] < limits.min_speed_ratio:
        found.append(f"speed_ratio is {result['speed_ratio']:g}, required is {limits.min_speed_ratio:g}")
    return found
