# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""latency: the first token of a warm, short request comes soon, and the others at a fair rate.

There is no alarm for speed that is too good to be true: what a card can do at most is not known here, and a server
that answers from a cache is not broken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...errors import ServingError
from .. import probes
from ..chat import Answer
from ..check import FAIL, INCONCLUSIVE, PASS, Check, Context

# The cold first request is `ready`'s; a server is warm here, and the prompt short.
DEFAULT: dict[str, Any] = {
    "prompt": "Count from 1 to 20.",
    "max_tokens": 64,
    "max_ttft_s": 10,
    "min_tokens_per_s": 0,
}
_ROUNDS = 2


@dataclass(frozen=True)
class Probe:
    """max_ttft_s: seconds to the first token; min_tokens_per_s: of one request alone, 0 = not judged."""

    prompt: str
    max_tokens: int
    max_ttft_s: float
    min_tokens_per_s: float


def read(section: Any, where: str) -> Probe:
    number = (int, float)
    known: dict[str, Any] = {
        "prompt": str,
        "max_tokens": int,
        "max_ttft_s": number,
        "min_tokens_per_s": number,
    }
    probe = Probe(**{**DEFAULT, **probes.members(section, where, known)})
    limits_hold = 0 < probe.max_ttft_s < math.inf and 0 <= probe.min_tokens_per_s < math.inf
    if not probe.prompt.strip() or probe.max_tokens < 1 or not limits_hold:
        raise ServingError(
            f"{where} is not usable",
            why="it needs a prompt, max_tokens of at least 1, max_ttft_s above 0, and min_tokens_per_s of 0 or more",
        )
    return probe


def run(context: Context) -> Check:
    """value = the slower time to the first token of two requests, threshold = max_ttft_s, in seconds.

    One slow start of two is inconclusive: it may have waited for the work of others, or one of two replicas is slow.

    Adds metrics.ttft_s, tokens_per_s (usage counts by wall time), decode_tokens_per_s (after the first token) and
    tokens_per_delta.
    """
    probe: Probe = context.probes["latency"]
    messages = [{"role": "user", "content": probe.prompt}]
    answers = [
        context.ask("latency", messages, max_tokens=probe.max_tokens, stream=True, again=False)[0]
        for _round in range(_ROUNDS)
    ]
    if any(answer.first_token_s is None for answer in answers):
        return Check("latency", FAIL, None, probe.max_ttft_s, ["a stream ended without a single token"])
    ttft = max(answer.first_token_s or 0.0 for answer in answers)
    context.metrics["ttft_s"] = round(ttft, 3)
    evidence = [f"first token after {', '.join(f'{answer.first_token_s:.3f}' for answer in answers)} s"]
    status = PASS
    slow = sum((answer.first_token_s or 0.0) > probe.max_ttft_s for answer in answers)
    if slow:
        status = FAIL if slow == _ROUNDS else INCONCLUSIVE
        evidence.insert(0, f"slow_first_token: {ttft:.3f} s > {probe.max_ttft_s} s, {slow} of {_ROUNDS} times")
    rate = _record_rates(context, answers)
    if rate is None:
        evidence.append("the server sends no usage counts, so the rate is unknown: deltas are no tokens")
        if probe.min_tokens_per_s and status == PASS:
            status = INCONCLUSIVE
    else:
        evidence.append(f"{rate:.1f} tokens/s, {context.metrics['tokens_per_delta']} tokens per delta")
        if rate < probe.min_tokens_per_s:
            status = FAIL
            evidence.insert(0, f"slow: {rate:.1f} tokens/s < {probe.min_tokens_per_s} tokens/s")
    return Check("latency", status, round(ttft, 3), probe.max_ttft_s, evidence)


def _record_rates(context: Context, answers: list[Answer]) -> float | None:
    """Tokens by the server's own counts: a parser may put many of them into one delta."""
    if not all(answer.completion_tokens for answer in answers):
        return None
    tokens = sum(answer.completion_tokens or 0 for answer in answers)
    rate = tokens / sum(answer.seconds for answer in answers)
    context.metrics["tokens_per_s"] = round(rate, 2)
    context.metrics["tokens_per_delta"] = round(tokens / max(1, sum(answer.deltas for answer in answers)), 2)
    decode_s = sum((answer.last_token_s or 0.0) - (answer.first_token_s or 0.0) for answer in answers)
    if decode_s > 0 and all(answer.deltas > 1 for answer in answers):
        context.metrics["decode_tokens_per_s"] = round((tokens - len(answers)) / decode_s, 2)
    return rate
