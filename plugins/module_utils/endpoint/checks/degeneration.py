# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""degeneration: a long text has the statistics of prose: no loop, no row of one character, no foreign letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import ServingError
from .. import probes, text_statistics
from ..chat import Answer
from ..check import FAIL, INCONCLUSIVE, PASS, Check, Context, shorten
from ..text_statistics import Statistics

# About 600 tokens of prose. Greek letters are usual in formulas.
DEFAULT: dict[str, Any] = {
    "prompt": (
        "Explain in about 450 words how a refrigerator works. "
        "Write plain English prose in full sentences, without lists, tables, formulas or headings."
    ),
    "thinking": True,
    "max_tokens": 2048,
    "min_characters": 1200,
    "scripts": ["LATIN", "GREEK"],
}
_QUICK_MAX_TOKENS = 200
_EXCERPT_CHARACTERS = 160


@dataclass(frozen=True)
class Probe:
    """scripts: first words of the Unicode names of the letters that the answer may hold; none = any letter."""

    prompt: str
    thinking: bool
    max_tokens: int
    min_characters: int
    scripts: tuple[str, ...]


def read(section: Any, where: str) -> Probe:
    known: dict[str, Any] = {
        "prompt": str,
        "thinking": bool,
        "max_tokens": int,
        "min_characters": int,
        "scripts": list,
    }
    given = {**DEFAULT, **probes.members(section, where, known)}
    if not given["prompt"].strip() or given["max_tokens"] < 1 or given["min_characters"] < 0:
        raise ServingError(
            f"{where} is not usable", why="it needs a prompt, max_tokens of at least 1, and min_characters of 0 or more"
        )
    scripts = tuple(str(name).upper() for name in given.pop("scripts"))
    return Probe(**given, scripts=scripts)


def run(context: Context) -> Check:
    """value = windows of text that are no prose, threshold = 0. The worst numbers go to metrics.text_statistics.

    The quick profile asks without thinking and cuts the answer off.
    """
    probe: Probe = context.probes["degeneration"]
    tries = context.ask(
        "degeneration",
        [{"role": "user", "content": probe.prompt}],
        max_tokens=probe.max_tokens if context.full else min(probe.max_tokens, _QUICK_MAX_TOKENS),
        thinking=probe.thinking and context.full,
    )
    bad: list[str] = []
    measured: list[Statistics] = []
    for channel, window in _windows(tries):
        statistics = text_statistics.measure(window, probe.scripts)
        measured.append(statistics)
        if problems := statistics.problems:
            bad.append(f"{channel}: {'; '.join(problems)}: {shorten(window[-_EXCERPT_CHARACTERS:])!r}")
    status, seen = _judge_end(tries[-1], probe, full=context.full)
    worst = _worst(measured)
    context.metrics["text_statistics"] = worst
    if len(tries) > 1:
        seen += "; budget_retry: the first answer's tokens all went into reasoning"
    evidence = [*bad, seen, f"{len(measured)} windows, the worst of them: {worst}"]
    return Check("degeneration", FAIL if bad else status, len(bad), 0, evidence)


def _windows(tries: list[Answer]) -> Iterator[tuple[str, str]]:
    """Reasoning counts as well: some engines break only there. So does a first try that never came to an answer."""
    for answer in tries:
        for channel, text in (("reasoning", answer.reasoning), ("content", answer.content)):
            if answer.finish_reason == "length":
                text = text.rstrip("\ufffd")  # the limit may fall into a character of several tokens
            for window in text_statistics.windows(text) if text.strip() else ():
                yield channel, window


def _judge_end(answer: Answer, probe: Probe, *, full: bool) -> tuple[str, str]:
    """Whether the text came to an end, and is long enough to be judged."""
    length = len(answer.content.strip())
    seen = f"{length} characters, {answer.completion_tokens} tokens, finish_reason {answer.finish_reason}"
    if answer.spent_budget:
        return INCONCLUSIVE, f"{seen}: reasoning took all tokens ({answer.retry_error or 'asked twice'})"
    cut = answer.finish_reason == "length"
    # where it is cut off on purpose, every token is still some text
    wanted = min(probe.min_characters, _QUICK_MAX_TOKENS) if cut and not full else probe.min_characters
    if length < wanted:
        return FAIL, f"{seen}: too short, expected at least {wanted} characters"
    if full and answer.finish_reason != "stop":
        return FAIL, f"{seen}: it does not come to an end within {probe.max_tokens} tokens"
    return PASS, seen


def _worst(measured: list[Statistics]) -> dict[str, float]:
    """The number of each statistic that is nearest to its limit."""
    rows = [asdict(statistics) for statistics in measured]
    worst: dict[str, float] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            worst[name] = round(min(values) if name == "distinct_4grams" else max(values), 4)
    return worst
