# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""channels: reasoning and answer are told apart, thinking on and off, streamed and not, and when the limit cuts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import special_tokens
from ..chat import Answer
from ..check import FAIL, INCONCLUSIVE, PASS, Check, Context, shorten, shown
from ..failure import EndpointError
from ..questions import MAX_TOKENS_THINKING, Question

_QUICK_MAX_TOKENS = 512
_CUT_AT_MOST = 64
_CUT_FROM_TOKENS = 8  # of a shorter answer no part is surely reasoning
_CUT = "thinking on, cut off"


@dataclass(frozen=True)
class _Mode:
    thinking: bool
    stream: bool

    def __str__(self) -> str:
        return f"thinking {'on' if self.thinking else 'off'}, {'streamed' if self.stream else 'not streamed'}"


def run(context: Context) -> Check:
    """One question in every mode; value = modes in order, threshold = modes asked.

    The streamed modes, and reasoning that the token limit cuts off, belong to the full profile; the quick one does not
    ask again with more tokens. A model without a thinking switch is asked in instant mode only. Adds
    metrics.deltas_per_token of a stream: parsers may hold tokens back and send many at once.
    """
    question = next((item for item in context.questions if item.thinking), context.questions[0])
    modes = [
        _Mode(thinking, stream)
        for thinking in ((True, False) if context.thinking_parameter else (False,))
        for stream in ((False, True) if context.full else (False,))
    ]
    evidence: list[str] = []
    last: dict[_Mode, Answer] = {}
    failed = open_ends = 0
    for mode in modes:
        try:
            tries = _ask(context, question, mode)
        except EndpointError as error:
            if not error.is_one_answer:
                raise
            failed += 1
            evidence.append(f"{mode}: {error}")
            continue
        last[mode] = tries[-1]
        if len(tries) > 1:
            evidence.append(f"{mode}: budget_retry, {shown(tries[0])}")
        problem = judge(tries[-1], thinking=mode.thinking)
        if problem and tries[-1].spent_budget and not context.full:
            open_ends += 1
            problem = f"budget: all {_QUICK_MAX_TOKENS} tokens went into reasoning; the full profile gives more"
        elif problem:
            failed += 1
        if problem:
            evidence.append(f"{mode}: {problem}, {shown(tries[-1])}")
    asked = len(modes)
    if context.full and (whole := last.get(_Mode(True, False))) and _may_be_cut(whole):
        asked += 1
        if problem := _cut_problem(context, question, whole):
            failed += 1
            evidence.append(f"{_CUT}: {problem}")
    _record_deltas(context, last)
    different = _differences(last)
    status = FAIL if failed else INCONCLUSIVE if different or open_ends else PASS
    evidence += different
    return Check("channels", status, asked - failed - open_ends, asked, evidence or [shown(last[modes[0]])])


def _ask(context: Context, question: Question, mode: _Mode) -> list[Answer]:
    tokens = max(question.max_tokens, MAX_TOKENS_THINKING) if mode.thinking else question.max_tokens
    return context.ask(
        f"channels, {mode}",
        question.messages,
        max_tokens=tokens if context.full else min(tokens, _QUICK_MAX_TOKENS),
        thinking=mode.thinking,
        stream=mode.stream,
        again=context.full,
    )


def judge(answer: Answer, *, thinking: bool) -> str | None:
    """What is wrong with the channels of one answer, or None."""
    if problem := _leak(answer):
        return problem
    if not answer.content.strip():
        if answer.spent_budget:
            return f"no_answer: the budget was spent {'once' if answer.retry_error else 'twice'}" + (
                f", {answer.retry_error}" if answer.retry_error else ""
            )
        return "no_answer: content is empty"
    if thinking and not answer.reasoning.strip():
        return "reasoning_missing: thinking is on, but the reasoning is empty (is --reasoning-parser set?)"
    if not thinking and answer.reasoning.strip():
        return "reasoning_unasked: thinking is off, but there is reasoning (does thinking_parameter fit the template?)"
    return None


def _leak(answer: Answer) -> str | None:
    for channel, text in (("content", answer.content), ("reasoning", answer.reasoning)):
        if markup := special_tokens.leaked(text):
            if special_tokens.is_think_tag(markup):
                return f"reasoning_not_parsed: {markup} in {channel} (is --reasoning-parser set?)"
            return f"special_token_leaked: {markup} in {channel} (parser or chat template)"
    return None


def _may_be_cut(whole: Answer) -> bool:
    return (whole.completion_tokens or 0) >= _CUT_FROM_TOKENS and bool(whole.reasoning.strip())


def _cut_problem(context: Context, question: Question, whole: Answer) -> str | None:
    """Ask with too few tokens for the reasoning: that is a spent budget, to be told from a parser that is broken.

    Greedy, so the beginning is the whole answer's: where its reasoning turns up as content, clients would show it.
    """
    limit = max(2, min(_CUT_AT_MOST, (whole.completion_tokens or 0) // 4))
    try:
        answer = context.ask(f"channels, {_CUT}", question.messages, max_tokens=limit, thinking=True, again=False)[0]
    except EndpointError as error:
        if not error.is_one_answer:
            raise
        return str(error)
    if problem := _leak(answer):
        return f"{problem}, {shown(answer)}"
    content = answer.content.strip()
    if content and whole.reasoning.strip().startswith(content) and not whole.content.strip().startswith(content):
        return f"reasoning_not_parsed: after {limit} tokens the reasoning is content, {shown(answer)}"
    if not content and answer.finish_reason != "length":
        return f"cut_off_unsaid: finish_reason {answer.finish_reason} without an answer, {shown(answer)}"
    return None


def _record_deltas(context: Context, answers: Mapping[_Mode, Answer]) -> None:
    for thinking in (False, True):
        streamed = answers.get(_Mode(thinking, True))
        if streamed and streamed.completion_tokens:
            context.metrics["deltas_per_token"] = round(streamed.deltas / streamed.completion_tokens, 3)


def _differences(answers: Mapping[_Mode, Answer]) -> list[str]:
    """Where the streamed answer is another one. Only content counts: the words of long reasoning may differ, because
    batches of other sizes round differently."""
    found = []
    for thinking in (True, False):
        plain, streamed = answers.get(_Mode(thinking, False)), answers.get(_Mode(thinking, True))
        if plain and streamed and plain.content.strip() != streamed.content.strip():
            found.append(
                f"thinking {'on' if thinking else 'off'}: streamed {shorten(streamed.content)!r}, "
                f"not streamed {shorten(plain.content)!r}"
            )
    return found
