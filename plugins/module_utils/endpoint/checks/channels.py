# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""channels: reasoning and answer are told apart, thinking on and off, streamed and not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..chat import Answer
from ..check import FAIL, INCONCLUSIVE, PASS, Check, Context, shorten, shown
from ..failure import EndpointError
from ..questions import MAX_TOKENS_THINKING

# <think>, </think>, and every special token of the form <|...|>
LEAK = re.compile(r"</?think>|<\|")


@dataclass(frozen=True)
class _Mode:
    thinking: bool
    stream: bool

    def __str__(self) -> str:
        return f"thinking {'on' if self.thinking else 'off'}, {'streamed' if self.stream else 'not streamed'}"


def run(context: Context) -> Check:
    """One question in every mode; value = modes in order, threshold = modes asked.

    The streamed modes belong to the full profile. A model without a thinking switch is asked in instant mode only.
    """
    question = next((item for item in context.questions if item.thinking), context.questions[0])
    modes = [
        _Mode(thinking, stream)
        for thinking in ((True, False) if context.thinking_parameter else (False,))
        for stream in ((False, True) if context.full else (False,))
    ]
    evidence: list[str] = []
    last: dict[_Mode, Answer] = {}
    failed = 0
    for mode in modes:
        try:
            tries = context.ask(
                f"channels, {mode}",
                question.messages,
                max_tokens=max(question.max_tokens, MAX_TOKENS_THINKING) if mode.thinking else question.max_tokens,
                thinking=mode.thinking,
                stream=mode.stream,
            )
        except EndpointError as error:
            if not error.is_one_answer:
                raise
            failed += 1
            evidence.append(f"{mode}: {error}")
            continue
        if len(tries) > 1:
            evidence.append(f"{mode}: budget_retry, {shown(tries[0])}")
        last[mode] = tries[-1]
        if problem := judge(tries[-1], thinking=mode.thinking):
            failed += 1
            evidence.append(f"{mode}: {problem}, {shown(tries[-1])}")
    different = _differences(last)
    status = FAIL if failed else INCONCLUSIVE if different else PASS
    evidence += different
    return Check("channels", status, len(modes) - failed, len(modes), evidence or [shown(last[modes[0]])])


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


def judge(answer: Answer, *, thinking: bool) -> str | None:
    """What is wrong with the channels of one answer, or None."""
    if leaked := LEAK.search(answer.content):
        if leaked[0].endswith("think>"):
            return f"reasoning_not_parsed: {leaked[0]} in content (is --reasoning-parser set?)"
        return f"special_token_leaked: {leaked[0]} in content (parser or chat template)"
    if not answer.content.strip():
        return "no_answer: the budget was spent twice" if answer.spent_budget else "no_answer: content is empty"
    if thinking and not answer.reasoning.strip():
        return "reasoning_missing: thinking is on, but the reasoning is empty (is --reasoning-parser set?)"
    if not thinking and answer.reasoning.strip():
        return "reasoning_unasked: thinking is off, but there is reasoning (does thinking_parameter fit the template?)"
    return None
