# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Mixed traffic for a while: what real clients do at the same time, each answer judged."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import chat, counting, failure
from .chat import Request, ask
from .client import Client
from .failure import EndpointError
from .questions import Question
from .stream import events

KINDS = ("exact", "streamed", "long", "cancelled")
_SHOWN = 5
_CHARACTERS = 200
_WORDS = (
    "harbour lantern window quiet ferry north ladder copper garden bridge winter signal paper orange valley "
    "engine morning silver station candle river autumn market letter island"
)


@dataclass(frozen=True)
class Plan:
    """seconds: no request is sent later. long_words: words of the longest prompt. request: the counting one."""

    seconds: float
    concurrency: int
    request_timeout: float
    long_words: int
    request: Request
    questions: Sequence[Question]


@dataclass
class Tally:
    """What happened so far; shown: the first failures and wrong answers in words."""

    requests: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    wrong: int = 0
    tokens: int = 0
    shown: list[str] = field(default_factory=list)


class Traffic:
    """One run of mixed traffic. Texts, lengths and the order come from `rng`."""

    def __init__(self, client: Callable[[], Client], plan: Plan, rng: random.Random) -> None:
        self._client, self._plan, self._rng = client, plan, rng
        self._lock = threading.Lock()
        self._senders: dict[str, Callable[[Client, random.Random], str | None]] = {
            "exact": self._exact,
            "streamed": self._streamed,
            "long": self._long,
            "cancelled": self._cancelled,
        }
        self.tally = Tally()

    def start(self) -> list[threading.Thread]:
        """The running workers; join them: each ends with its first answer after the time is over."""
        deadline = time.monotonic() + self._plan.seconds
        workers = []
        for _number in range(self._plan.concurrency):
            rng = random.Random(self._rng.random())  # noqa: S311
            workers.append(threading.Thread(target=self._work, args=(self._client(), rng, deadline), daemon=True))
        for worker in workers:
            worker.start()
        return workers

    def _work(self, client: Client, rng: random.Random, deadline: float) -> None:
        pause = 0.0
        while time.monotonic() + pause < deadline:
            time.sleep(pause)
            kind = rng.choice(KINDS)
            wrong = error = None
            try:
                wrong = self._senders[kind](client, rng)
                pause = 0.0
            except EndpointError as caught:
                error = str(caught)
                pause = min(5.0, 2 * pause + 0.1)  # a server that is down is not asked a thousand times a second
            with self._lock:
                self.tally.requests[kind] += 1
                self.tally.failed += error is not None
                self.tally.wrong += wrong is not None
                if (said := error or wrong) and len(self.tally.shown) < _SHOWN:
                    self.tally.shown.append(f"{kind}: {said[:_CHARACTERS]}")

    def _exact(self, client: Client, rng: random.Random) -> str | None:
        question = rng.choice(self._plan.questions)
        answer = ask(client, request_of(question, self._plan.request), timeout=self._plan.request_timeout)
        self._count(answer.completion_tokens)
        if question.is_right(answer.content):
            return None
        return f"{question.name} was answered {answer.content!r}"

    def _streamed(self, client: Client, _rng: random.Random) -> str | None:
        answer = ask(client, self._plan.request, timeout=self._plan.request_timeout, stream=True)
        self._count(answer.completion_tokens)
        if counting.is_right(answer.content, cut=answer.finish_reason == "length"):
            return None
        return f"1 to {counting.LAST} came as {answer.content!r}"

    def _long(self, client: Client, rng: random.Random) -> str | None:
        """A prompt of random words, unlike any before, so that no prefix is cached; any tokens will do."""
        words = " ".join(
            rng.choices(_WORDS.split(), k=rng.randint(self._plan.long_words // 4 + 1, self._plan.long_words))
        )
        messages = [{"role": "user", "content": f"{words}\n\nWhich words occur most often above?"}]
        answer = ask(client, like(self._plan.request, messages, 64), timeout=self._plan.request_timeout)
        self._count(answer.completion_tokens)
        return None if answer.completion_tokens else "a long prompt was answered with no token"

    def _cancelled(self, client: Client, rng: random.Random) -> str | None:
        """Hang up after some events of the stream, as impatient people do."""
        wanted = rng.randint(1, 20)
        body = self._plan.request.body(stream=True)
        data = ""
        with client.stream(chat.PATH, body, timeout=self._plan.request_timeout) as chunks:
            for number, data in enumerate(events(chunks), start=1):
                if _is_error(data):
                    raise EndpointError(failure.STREAM_ERROR, client.hide(data)[:_CHARACTERS])
                if number >= wanted:
                    return None
        if data.strip() != "[DONE]":
            raise EndpointError(failure.STREAM_TRUNCATED, "the stream ended without [DONE]")
        return None

    def _count(self, tokens: int | None) -> None:
        with self._lock:
            self.tally.tokens += tokens or 0


def request_of(question: Question, template: Request) -> Request:
    """The question as a request to the template's model."""
    switch = question.thinking if template.thinking is not None else None
    return Request(template.model, question.messages, question.max_tokens, switch, template.thinking_parameter)


def like(template: Request, messages: list[dict[str, Any]], max_tokens: int) -> Request:
    return Request(template.model, messages, max_tokens, template.thinking, template.thinking_parameter)


def _is_error(data: str) -> bool:
    try:
        payload = json.loads(data)
    except ValueError:
        return data.strip() != "[DONE]"
    return isinstance(payload, dict) and bool(payload.get("error"))
