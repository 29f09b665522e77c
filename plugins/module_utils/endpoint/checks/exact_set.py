# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""exact_set: questions with one right answer each. Text statistics do not see fluent nonsense; this does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import questions
from ..check import FAIL, INCONCLUSIVE, PASS, Check, Context, shown
from ..failure import EndpointError
from ..questions import Question

# One slip of a model is possible among ten questions; with fewer, every wrong answer is a failure.
_ONE_WRONG_ALLOWED_FROM = 10
DEFAULT = questions.DEFAULT


def read(section: Any, where: str) -> Sequence[Question]:
    return questions.load(section, where)


def run(context: Context) -> Check:
    """Every question once, greedy; value = right answers, threshold = questions. Wrong answers are shown first."""
    wrong: list[str] = []
    right: list[str] = []
    for question in context.questions:
        try:
            tries = context.ask(
                question.name, question.messages, max_tokens=question.max_tokens, thinking=question.thinking
            )
        except EndpointError as error:
            if not error.is_one_answer:
                raise
            wrong.append(f"{question.name}: {error}")
            continue
        seen = shown(tries[-1])
        if len(tries) > 1:
            seen += " (asked again with more tokens after: " + shown(tries[0]) + ")"
        if question.is_right(tries[-1].content):
            right.append(f"{question.name}: {seen}")
        else:
            wrong.append(f"{question.name}: expected /{question.expect.pattern}/, {seen}")
    asked = len(context.questions)
    one_slip = len(wrong) == 1 and asked >= _ONE_WRONG_ALLOWED_FROM
    status = PASS if not wrong else INCONCLUSIVE if one_slip else FAIL
    return Check("exact_set", status, len(right), asked, wrong + right)
