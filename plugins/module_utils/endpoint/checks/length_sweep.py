# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""length_sweep: the same question in prompts of exactly N tokens. Kernels that are wrong for some N answer short
questions well: public failures begin above 64 or 128 tokens, or fill a band of row counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import failure, filler, raw
from ..check import FAIL, NOT_RUN, PASS, Check, Context, shorten
from ..failure import EndpointError
from ..fields import integers, pattern, positive, texts
from ..garbage import garbage, unstable
from ..probes import members

DEFAULT: dict[str, Any] = {
    "instruction": "What is the capital of France? Answer with one word.",
    "expect": r"(?i)^\W*paris\b",
    "filler": list(filler.WORDS),
    "lengths": [
        *range(1, 10),
        *(15, 16, 17, 31, 32, 33, 62, 63, 64, 65, 66, 127, 128, 129, 130, 255, 256, 257, 511, 512, 513),
        *(1023, 1024, 1025, 2047, 2048, 2049, 4096, 8192),
    ],
    "quick_lengths": [5, 33, 65, 129, 257, 1025],
    "max_tokens": 8,
}
_MEMBERS: dict[str, type] = {
    "instruction": str,
    "expect": str,
    "filler": list,
    "lengths": list,
    "quick_lengths": list,
    "max_tokens": int,
}

# A prompt too short for the question is the question's end, whose answer may be anything but garbage of the NaN kind.
# (After words without a template, healthy models are seen to write one character for ever.)
_SHORT_TOKENS = 24
_SHORT_LOGPROBS = 5
_SHOWN = 12
# An engine that hangs from some length on would be waited for at every longer one.
_TIMEOUTS = 3


@dataclass(frozen=True)
class Probe:
    instruction: str
    expect: re.Pattern[str]
    filler: tuple[str, ...]
    lengths: tuple[int, ...]
    quick_lengths: tuple[int, ...]
    max_tokens: int


def read(section: Any, where: str) -> Probe:
    """Raises ServingError naming the member that is wrong."""
    held = {**DEFAULT, **members(section, where, _MEMBERS)}
    return Probe(
        held["instruction"],
        pattern(held["expect"], f"{where}.expect"),
        texts(held["filler"], f"{where}.filler", least=2),
        integers(held["lengths"], f"{where}.lengths"),
        integers(held["quick_lengths"], f"{where}.quick_lengths"),
        positive(held["max_tokens"], f"{where}.max_tokens"),
    )


def run(context: Context) -> Check:
    """Each length once; value = lengths right, threshold = lengths asked. Wrong lengths are shown first."""
    probe: Probe = context.probes["length_sweep"]
    wanted = sorted(set(probe.lengths if context.full else probe.quick_lengths))
    limit = context.metrics.get("max_model_len")
    room = None if limit is None else limit - probe.max_tokens
    lengths = [length for length in wanted if room is None or length <= room]
    left_out = wanted[len(lengths) :]
    note = [f"left out, longer than max_model_len {limit} allows: {ranges(left_out)}"] if left_out else []
    if not lengths:
        return Check("length_sweep", NOT_RUN, evidence=note)
    try:
        sweep = _Sweep(context, probe, lengths[-1])
        sweep.ask(lengths)
    except EndpointError as error:
        if not raw.lacks(error):
            raise
        return Check("length_sweep", NOT_RUN, evidence=[f"token ids cannot be asked about here: {error}"])
    longest = max(sweep.right + list(sweep.problems))
    context.metrics["longest_prompt_tokens"] = max(longest, context.metrics.get("longest_prompt_tokens", 0))
    status = FAIL if sweep.problems else PASS
    return Check("length_sweep", status, len(sweep.right), len(lengths), sweep.evidence() + note)


class _Sweep:
    """Asks about prompts of given lengths, each under a salt of its own: prefix_cache is another check."""

    def __init__(self, context: Context, probe: Probe, longest: int) -> None:
        self._context = context
        self._probe = probe
        self._short_logprobs: int | None = _SHORT_LOGPROBS
        self.right: list[int] = []
        self.problems: dict[int, str] = {}
        self.notes: list[str] = []
        self.frame = filler.ask_frame(context, probe.filler, probe.instruction, longest)

    def ask(self, lengths: Sequence[int]) -> None:
        """Fill right and problems. Raises what is no matter of one answer, but no end of time after a problem."""
        timeouts = 0
        for length in lengths:
            try:
                problem = self._question(length) if length >= self.frame.smallest else self._short(length)
            except EndpointError as error:
                if error.kind == failure.TIME_IS_UP and self.problems:
                    self.notes.append(f"not asked from {length} tokens on: {error.message}")
                    return
                if error.kind == failure.REJECTED and self.right and not self._context.metrics.get("max_model_len"):
                    self.notes.append(f"left out from {length} tokens on: {error.message}")
                    return
                if not error.is_one_answer or raw.lacks(error):
                    raise
                problem = f"NaN: {error}" if raw.says_nan(error) else str(error)
                timeouts += error.kind == failure.TIMEOUT
            if problem is None:
                self.right.append(length)
            else:
                self.problems[length] = problem
            if timeouts == _TIMEOUTS:
                self.notes.append(f"given up at {length} tokens, requests without an answer: {timeouts}")
                return

    def evidence(self) -> list[str]:
        """What is wrong first."""
        lines = [f"wrong at {ranges(self.problems)} tokens"] if self.problems else []
        lines += [f"{length} tokens: {problem}" for length, problem in list(self.problems.items())[:_SHOWN]]
        lines.append(f"right at {ranges(self.right) or 'no'} tokens")
        if short := [length for length in self.right if length < self.frame.smallest]:
            lines.append(f"too short for the question, so only looked at for garbage: {ranges(short)}")
        return lines + self.notes

    def _question(self, length: int) -> str | None:
        prompt = self.frame.prompt(length, self._context.rng)
        completion = self._complete(prompt, self._probe.max_tokens)
        if self._probe.expect.search(completion.text.strip()) is None:
            return f"expected /{self._probe.expect.pattern}/, came {shorten(completion.text)!r}"
        return miscounted(completion, length)

    def _short(self, length: int) -> str | None:
        prompt = self.frame.prompt(length, self._context.rng)
        first, second = (self._complete_short(prompt) for _time in range(2))
        return (
            garbage(first)
            or garbage(second)
            or miscounted(first, length)
            or (f"the first token is {first.tokens[:1]}, then {second.tokens[:1]}" if unstable(first, second) else None)
        )

    def _complete_short(self, prompt: list[int]) -> raw.Completion:
        try:
            return self._complete(prompt, _SHORT_TOKENS, self._short_logprobs)
        except EndpointError as error:
            if not raw.refuses_logprobs(error) or self._short_logprobs is None:
                raise
            self._short_logprobs = None
            self.notes.append(f"without log probabilities, because {error.message}")
            return self._complete(prompt, _SHORT_TOKENS)

    def _complete(self, prompt: list[int], max_tokens: int, logprobs: int | None = None) -> raw.Completion:
        context = self._context
        return raw.complete(
            context.client,
            context.model,
            prompt,
            max_tokens=max_tokens,
            timeout=context.timeout(),
            cache_salt=filler.salt(context.rng),
            logprobs=logprobs,
        )


def miscounted(completion: raw.Completion, length: int) -> str | None:
    """The server worked on another prompt than the one it was given: it adds a token, or it cuts."""
    counted = completion.prompt_tokens
    if counted is None or counted == length:
        return None
    kind = "added (a BOS?)" if counted > length else "cut off"
    return f"usage.prompt_tokens is {counted}: tokens were {kind}"


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers, rows of them shortened: 1..4, 9"""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    return ", ".join(str(row[0]) if len(row) == 1 else f"{row[0]}..{row[-1]}" for row in rows)
