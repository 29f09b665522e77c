# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What every check gets and what it hands back."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from . import failure
from .chat import Answer, Request, ask, ask_within_budget
from .client import Client
from .failure import EndpointError
from .questions import Question

EVIDENCE_CHARACTERS = 400
ANSWER_CHARACTERS = 4000

PASS, FAIL, INCONCLUSIVE, NOT_RUN = "pass", "fail", "inconclusive", "not_run"


@dataclass
class Check:
    """status: pass, fail, inconclusive or not_run. value and threshold: in the check's own unit."""

    name: str
    status: str
    value: Any = None
    threshold: Any = None
    evidence: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_result(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": round(self.seconds, 3)}


@dataclass
class Context:
    """The endpoint under test, and what the checks have learnt of it so far.

    probes: what a check asks, by the check's name, as its own `read` has read it
    seed:   of everything that this run draws
    rng:    what the check that runs draws its texts and positions from
    """

    client: Client
    questions: Sequence[Question]
    probes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    rng: random.Random = field(default_factory=random.Random)
    model: str = ""
    thinking_parameter: str = "thinking"
    full: bool = True
    request_timeout: float = 120.0
    deadline: float = float("inf")
    metrics: dict[str, Any] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)

    def timeout(self, wanted: float | None = None) -> float:
        """Seconds for the next request: the request's limit, or what is left of the whole."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise EndpointError(failure.TIME_IS_UP, "max_timeout is used up")
        return min(wanted or self.request_timeout, left)

    def request(
        self,
        messages: list[dict[str, Any]],
        *,
        max_tokens: int,
        thinking: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> Request:
        switch = thinking if self.thinking_parameter else None
        return Request(self.model, messages, max_tokens, switch, self.thinking_parameter, extra or {})

    def ask(
        self,
        name: str,
        messages: list[dict[str, Any]],
        *,
        max_tokens: int,
        thinking: bool = False,
        stream: bool = False,
        timeout: float | None = None,
        extra: Mapping[str, Any] | None = None,
        again: bool = True,
    ) -> list[Answer]:
        """The tries (two when thinking ate the first one's budget and it may be asked again); each is kept."""
        request = self.request(messages, max_tokens=max_tokens, thinking=thinking, extra=extra)
        if again:
            tries = ask_within_budget(self.client, request, timeout=self.timeout(timeout), stream=stream)
        else:
            tries = [ask(self.client, request, timeout=self.timeout(timeout), stream=stream)]
        for answer in tries:
            self.metrics["reasoning_field"] = answer.reasoning_field or self.metrics.get("reasoning_field")
            self.answers.append(
                {
                    "name": name,
                    "prompt": shorten(str(messages[-1].get("content")), ANSWER_CHARACTERS),
                    "content": shorten(answer.content, ANSWER_CHARACTERS),
                    "reasoning": shorten(answer.reasoning, ANSWER_CHARACTERS),
                    "finish_reason": answer.finish_reason,
                    "seconds": round(answer.seconds, 3),
                    "completion_tokens": answer.completion_tokens,
                }
            )
        return tries


def shorten(text: str, limit: int = EVIDENCE_CHARACTERS) -> str:
    """At most `limit` characters, an ellipsis marking the cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown(answer: Answer) -> str:
    """An answer as evidence: content, else what there was instead."""
    if answer.content.strip():
        return f"content: {shorten(answer.content)!r}"
    if answer.spent_budget:
        return f"no content, the token budget went into reasoning: {shorten(answer.reasoning)!r}"
    if answer.reasoning.strip():
        return f"no content, only reasoning: {shorten(answer.reasoning)!r}"
    return f"nothing at all in {answer.completion_tokens} tokens, finish_reason {answer.finish_reason}"
