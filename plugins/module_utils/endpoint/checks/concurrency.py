# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""concurrency: questions that are answered rightly alone are answered rightly when many are in flight."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...errors import ServingError
from .. import metrics, probes, questions
from ..chat import Answer
from ..check import FAIL, INCONCLUSIVE, NOT_RUN, PASS, Check, Context, shorten, shown
from ..failure import EndpointError
from ..questions import Question

# questions: the form of exact_set; where there are none, exact_set's short ones without thinking
DEFAULT: dict[str, Any] = {"levels": [8, 16], "max_tokens": 64}
_MAX_LEVEL = 64
_SAME_TIMES = 8
_SAME_AT_LEAST = 7
_SAME_WORDS = 8
_GATE_TIMEOUT_S = 10.0

# With exact_set's default questions, enough for sixteen different ones.
_MORE = questions.load(
    [
        {
            "name": f"capital of {country}",
            "prompt": f"What is the capital of {country}? Answer with one word.",
            "expect": rf"(?i)^\W*{capital}\W*$",
        }
        for country, capital in {
            "Norway": "oslo",
            "Japan": "tokyo",
            "Italy": "rome",
            "Spain": "madrid",
            "Austria": "vienna",
            "Portugal": "lisbon",
            "Greece": "athens",
            "Egypt": "cairo",
        }.items()
    ],
    "questions.concurrency",
)


@dataclass(frozen=True)
class Probe:
    """levels: requests at once; max_tokens: of each of them."""

    levels: tuple[int, ...]
    max_tokens: int
    questions: tuple[Question, ...] = ()


@dataclass
class _Seen:
    """What came of the rounds. in_flight: at most so many requests were open together, by level."""

    asked: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    in_flight: dict[str, int] = field(default_factory=dict)


def _is_level(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 2 <= value <= _MAX_LEVEL


def read(section: Any, where: str) -> Probe:
    known = {"levels": list, "max_tokens": int, "questions": list}
    given = {**DEFAULT, **probes.members(section, where, known)}
    levels = given["levels"]
    if not levels or not all(_is_level(level) for level in levels):
        raise ServingError(f"{where} is not usable", why=f"levels must be whole numbers from 2 to {_MAX_LEVEL}")
    if given["max_tokens"] < 1:
        raise ServingError(f"{where} is not usable", why="max_tokens must be at least 1")
    asked = questions.load(given["questions"], f"{where}.questions") if given.get("questions") else []
    return Probe(tuple(levels), given["max_tokens"], tuple(asked))


def run(context: Context) -> Check:
    """value = right answers, threshold = answers asked for, of all rounds with several requests at once.

    Every question is asked alone first: what the model does not know alone says nothing about concurrency. Then so
    many different ones at once as each level says, then one of them eight times. The quick profile asks the first level
    only. Every request has its own cache_salt, so that prefix caching has no part in it. Adds metrics.concurrency.
    """
    probe: Probe = context.probes["concurrency"]
    levels = probe.levels if context.full else probe.levels[:1]
    pool = _pool(context, probe)
    if not pool:
        return Check("concurrency", NOT_RUN, evidence=[f"no question without thinking has {probe.max_tokens} tokens"])
    before = _preemptions(context)
    alone, slips = _ask_alone(context, probe, context.rng.sample(pool, min(len(pool), max(levels))))
    known = [question for question in pool if question.name in alone]
    if len(known) < 2:
        return Check("concurrency", INCONCLUSIVE, 0, 0, ["too few right answers to questions asked alone", *slips])
    seen = _Seen()
    for level in levels:
        batch = [known[number % len(known)] for number in range(level)]
        context.rng.shuffle(batch)
        _judge(batch, _at_once(context, probe, batch, seen), alone, f"{level} at once", seen)
    batch = [context.rng.choice(known)] * _SAME_TIMES
    answers = _at_once(context, probe, batch, seen)
    _judge(batch, answers, alone, f"{_SAME_TIMES} times the same", seen)
    equal, note = _equal(answers)
    preempted = _difference(before, _preemptions(context))
    context.metrics["concurrency"] = {"in_flight": seen.in_flight, "preemptions": preempted, "equal": equal}
    status = FAIL if seen.wrong else PASS if equal >= _SAME_AT_LEAST else INCONCLUSIVE
    flown = ", ".join(f"{most} of {level}" for level, most in seen.in_flight.items())
    summary = f"in flight together: {flown}; preemptions: {'unknown' if preempted is None else preempted}"
    return Check("concurrency", status, seen.right, seen.asked, [*seen.wrong, note, *slips, summary])


def _pool(context: Context, probe: Probe) -> list[Question]:
    given = list(probe.questions)
    if not given:
        given = [question for question in context.questions if not question.thinking]
        if list(context.questions) == questions.load(questions.DEFAULT, "questions.exact_set"):
            given += _MORE
    short = [question for question in given if question.max_tokens <= probe.max_tokens]
    return list({question.name: question for question in short}.values())


def _ask_alone(context: Context, probe: Probe, asked: Sequence[Question]) -> tuple[dict[str, str], list[str]]:
    """The right answers by the question's name, and what was not right."""
    alone: dict[str, str] = {}
    slips: list[str] = []
    for question in asked:
        outcome = _ask(context, probe, question, f"concurrency, alone: {question.name}", _salt(context))
        if isinstance(outcome, EndpointError):
            if not outcome.is_one_answer:
                raise outcome
            slips.append(f"left out, alone: {question.name}: {outcome}")
        elif question.is_right(outcome.content):
            alone[question.name] = outcome.content.strip()
        else:
            slips.append(f"left out, wrong even alone: {question.name}: {shown(outcome)}")
    return alone, slips


def _at_once(context: Context, probe: Probe, batch: Sequence[Question], seen: _Seen) -> list[Answer | EndpointError]:
    """The outcomes in the order of the batch. Every request has a time limit, and all have ended on return."""
    gate = threading.Barrier(len(batch))
    salts = [_salt(context) for _question in batch]
    times: list[tuple[float, int]] = []

    def one(question: Question, salt: str) -> Answer | EndpointError:
        with suppress(threading.BrokenBarrierError):
            gate.wait(_GATE_TIMEOUT_S)
        times.append((time.monotonic(), 1))
        outcome = _ask(context, probe, question, f"concurrency, {len(batch)} at once: {question.name}", salt)
        times.append((time.monotonic(), -1))
        return outcome

    with ThreadPoolExecutor(max_workers=len(batch)) as pool:
        outcomes = list(pool.map(one, batch, salts))
    most = now = 0
    for _at, step in sorted(times):
        now += step
        most = max(most, now)
    seen.in_flight[str(len(batch))] = max(most, seen.in_flight.get(str(len(batch)), 0))
    for outcome in outcomes:
        if isinstance(outcome, EndpointError) and not outcome.is_one_answer:
            raise outcome
    return outcomes


def _ask(context: Context, probe: Probe, question: Question, name: str, salt: str) -> Answer | EndpointError:
    try:
        return context.ask(name, question.messages, max_tokens=probe.max_tokens, extra={"cache_salt": salt})[-1]
    except EndpointError as error:
        return error


def _judge(
    batch: Sequence[Question],
    outcomes: Sequence[Answer | EndpointError],
    alone: Mapping[str, str],
    when: str,
    seen: _Seen,
) -> None:
    for question, outcome in zip(batch, outcomes, strict=True):
        seen.asked += 1
        if isinstance(outcome, EndpointError):
            seen.wrong.append(f"{when}: {question.name}: {outcome}")
            continue
        other = _whose(outcome.content.strip(), question, batch, alone)
        if question.is_right(outcome.content) and other is None:
            seen.right += 1
            continue
        crossed = f"cross-talk, the answer to {other!r} is in it" if other else f"alone {alone[question.name]!r}"
        seen.wrong.append(f"{when}: {question.name}: {shown(outcome)}, {crossed}")


def _whose(content: str, question: Question, batch: Sequence[Question], alone: Mapping[str, str]) -> str | None:
    """The other question of the batch whose answer this holds, and the question's own right answer does not."""
    own = alone[question.name]
    if content == own:
        return None
    for other in batch:
        foreign = content == alone[other.name] or other.is_right(content)
        if other.name != question.name and foreign and not other.is_right(own):
            return other.name
    return None


def _equal(outcomes: Sequence[Answer | EndpointError]) -> tuple[int, str]:
    """How many answers to one question begin alike. They need not be equal to the end: batches round differently."""
    starts = Counter(
        " ".join(outcome.content.split()[:_SAME_WORDS]) for outcome in outcomes if isinstance(outcome, Answer)
    )
    start, times = starts.most_common(1)[0] if starts else ("", 0)
    return times, f"{times} of {len(outcomes)} answers to the same question begin with {shorten(start, 100)!r}"


def _salt(context: Context) -> str:
    return f"{context.rng.getrandbits(64):016x}"


def _preemptions(context: Context) -> float | None:
    try:
        text = context.client.get_text(metrics.PATH, timeout=context.timeout(10.0))
    except EndpointError:
        return None
    return metrics.parse(text).get("vllm:num_preemptions_total")


def _difference(before: float | None, after: float | None) -> int | None:
    return None if before is None or after is None else int(after - before)
