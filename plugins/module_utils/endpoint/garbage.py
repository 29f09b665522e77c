# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What no healthy engine writes, whatever the prompt: for prompts whose right answer nobody knows."""

from __future__ import annotations

import itertools
import math

from .check import shorten
from .raw import Completion

_MAX_RUN = 16
# Two tokens nearer to each other than this may change places when the batch around them is another one.
_TIE = 0.5


def garbage(completion: Completion) -> str | None:
    """What no healthy engine writes after any prompt, or None."""
    if not all(math.isfinite(value) for value in completion.logprobs):
        return f"log probabilities that are no numbers: {shorten(str(completion.logprobs))}"
    run = longest_run(completion.text)
    return f"a run of {run} equal characters in {shorten(completion.text)!r}" if run >= _MAX_RUN else None


def longest_run(text: str) -> int:
    """The length of the longest run of one character that is no white space."""
    return max((len(list(run)) for char, run in itertools.groupby(text) if not char.isspace()), default=0)


def unstable(first: Completion, second: Completion) -> bool:
    """The same prompt had two first tokens, and they were no tie."""
    if first.tokens[:1] == second.tokens[:1]:
        return False
    if not (first.tokens and second.tokens and first.top and second.top):
        return True
    best, other = first.tokens[0], second.tokens[0]
    return any(
        abs(top[0].get(best, -math.inf) - top[0].get(other, -math.inf)) > _TIE for top in (first.top, second.top)
    )
