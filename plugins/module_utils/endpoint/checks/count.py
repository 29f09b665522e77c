# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""count: a row of numbers in order, in instant mode; its speed is a speed with a proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import ServingError
from .. import counting, probes
from ..check import FAIL, INCONCLUSIVE, PASS, Check, Context, shown

DEFAULT: dict[str, Any] = {
    "prompt": counting.PROMPT,
    "last": counting.LAST,
    "max_tokens": counting.MAX_TOKENS,
}


@dataclass(frozen=True)
class Probe:
    """The prompt asks for the numbers from 1 to `last`."""

    prompt: str
    last: int
    max_tokens: int


def read(section: Any, where: str) -> Probe:
    """last: 2 to 999, because models group the digits of larger numbers."""
    given = {**DEFAULT, **probes.members(section, where, {"prompt": str, "last": int, "max_tokens": int})}
    probe = Probe(**given)
    if not probe.prompt.strip() or not 2 <= probe.last <= 999 or probe.max_tokens < 1:
        raise ServingError(
            f"{where} is not usable", why="it needs a prompt, last from 2 to 999, and max_tokens of at least 1"
        )
    return probe


def run(context: Context) -> Check:
    """value = whether the row is complete and in order; adds metrics.count_tokens_per_s when it is."""
    probe: Probe = context.probes["count"]
    messages = [{"role": "user", "content": probe.prompt}]
    answer = context.ask("count", messages, max_tokens=probe.max_tokens)[-1]
    right = counting.is_right(answer.content, last=probe.last)
    if right and answer.completion_tokens and answer.seconds > 0:
        context.metrics["count_tokens_per_s"] = round(answer.completion_tokens / answer.seconds, 2)
    evidence = [shown(answer)]
    if not right and (slip := counting.first_slip(answer.content, last=probe.last)):
        evidence.insert(0, slip)
    cut = answer.finish_reason == "length" and counting.is_right(answer.content, last=probe.last, cut=True)
    if not right and cut:
        evidence.insert(0, f"right as far as it goes, but max_tokens {probe.max_tokens} ended it")
    return Check("count", PASS if right else INCONCLUSIVE if cut else FAIL, right, True, evidence)
