# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a fault is made: where it acts, and what it makes of the real server's answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import text_faults, wire
from .proxy import Behaviour, Forward
from .upstream import Upstream
from .wire import Answer, Call, Reply

BEGINNING_TOKENS = 64

Where = Callable[[Call], bool]
Change = Callable[[Call, Answer], None]


@dataclass
class Setting:
    """seed: of everything random. elsewhere: an origin that must see nothing.

    slow_s: seconds to the first token that count as slow.
    """

    seed: str
    upstream: Upstream
    elsewhere: str = ""
    slow_s: float = 1.0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def draw(self, text: str) -> random.Random:
        """Randomness of one answer: a broken engine gives the same question the same wrong answer."""
        return random.Random(f"{self.seed} {text}")

    def prompt_length(self, call: Call) -> int:
        return len(self.upstream.prompt_tokens(call))


@dataclass(frozen=True)
class Fault:
    """case: the row of published failures, or the numbered case, that it comes from.

    finds: the checks that must find it. warmup_s, request_s, sections: the limits of an examination and members of its
    questions, where the usual ones would make the matrix wait for nothing.
    """

    name: str
    case: str
    does: str
    finds: frozenset[str]
    make: Callable[[Setting], Behaviour]
    warmup_s: float = 60.0
    request_s: float = 60.0
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def everywhere(call: Call) -> bool:
    return call.generates


def answers(where: Where, change: Change) -> Behaviour:
    """Change what is generated where the fault acts; everything else goes through as it comes."""

    def behave(call: Call, forward: Forward) -> Reply:
        acts = call.generates and where(call)
        reply = forward(call)
        if not acts or reply.status != 200:
            return reply
        answer = wire.read(call, reply)
        change(call, answer)
        return wire.write(call, answer)

    return behave


def requests(setting: Setting, where: Where, change: Callable[[Call], Call]) -> Behaviour:
    """Let the server see another request; it still counts the tokens of the one that was sent."""

    def behave(call: Call, forward: Forward) -> Reply:
        if not (call.generates and where(call)):
            return forward(call)
        other = change(call)
        if other.body == call.body:
            return forward(call)
        reply = forward(other)
        if reply.status != 200:
            return reply
        answer = wire.read(other, reply)
        answer.usage = {**answer.usage, "prompt_tokens": setting.prompt_length(call)}
        return wire.write(call, answer)

    return behave


def budget(call: Call) -> int:
    """Tokens that an answer which never ends would have."""
    return int(call.body.get("max_tokens") or call.body.get("max_completion_tokens") or 256)


def endless(setting: Setting, change: Change) -> Behaviour:
    """Change every answer into one that only the token limit stops. Only its beginning is the server's own work."""

    def ended(call: Call, answer: Answer) -> None:
        change(call, answer)
        answer.calls = []
        answer.finish_reason = "length"
        answer.usage = {**answer.usage, "completion_tokens": budget(call)}

    def behave(call: Call, forward: Forward) -> Reply:
        def begin(sent: Call) -> Reply:
            short = sent.generates and not setting.upstream.knows(sent)
            return forward(sent.changed(max_tokens=min(budget(sent), BEGINNING_TOKENS)) if short else sent)

        return answers(everywhere, ended)(call, begin)

    return behave


def garble(setting: Setting) -> Change:
    """Real words without meaning, in place of everything that was generated."""

    def change(_call: Call, answer: Answer) -> None:
        rng = setting.draw(answer.content)
        answer.content = text_faults.salad(answer.content, rng)
        answer.reasoning = text_faults.salad(answer.reasoning, rng) if answer.reasoning else ""
        answer.calls = []

    return change
