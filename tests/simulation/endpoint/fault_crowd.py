# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a batch: requests that are in flight at the same time get something of each other's answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from . import text_faults, wire
from .behaviour import Setting
from .proxy import Behaviour, Forward
from .wire import Answer, Call, Reply

# A remembered answer is there at once; only requests that the client sends together arrive within this time.
_TOGETHER_S = 0.04
_PATIENCE_S = 30.0

Mix = Callable[[Answer, Answer], None]


@dataclass(eq=False)
class _Flight:
    """One request under way, and those that were under way with it."""

    call: Call
    answered: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None
    beside: list[_Flight] = field(default_factory=list)


def _crowd(mix: Mix) -> Behaviour:
    flying: list[_Flight] = []
    lock = threading.Lock()

    def behave(call: Call, forward: Forward) -> Reply:
        if not call.generates:
            return forward(call)
        flight = _Flight(call)
        with lock:
            for other in flying:
                other.beside.append(flight)
            flight.beside = list(flying)
            flying.append(flight)
        try:
            reply = forward(call)
            if reply.status != 200:
                return reply
            flight.answer = wire.read(call, reply)
        finally:
            flight.answered.set()
            time.sleep(_TOGETHER_S)
            with lock:
                flying.remove(flight)
        answer = wire.read(call, reply)
        if another := _another(flight):
            mix(answer, another)
        return wire.write(call, answer)

    return behave


def _another(flight: _Flight) -> Answer | None:
    """The answer to another question of the same moment."""
    deadline = time.monotonic() + _PATIENCE_S
    for neighbour in flight.beside:
        neighbour.answered.wait(max(0.0, deadline - time.monotonic()))
        if neighbour.answer and flight.answer and neighbour.answer.content != flight.answer.content:
            return neighbour.answer
    return None


def cross_talk(_setting: Setting) -> Behaviour:
    """Whole answers go to the wrong requests."""

    def mix(answer: Answer, other: Answer) -> None:
        answer.content, answer.reasoning, answer.calls = other.content, other.reasoning, other.calls
        answer.finish_reason = other.finish_reason
        answer.usage = {**answer.usage, "completion_tokens": other.usage.get("completion_tokens")}

    return _crowd(mix)


def cross_talk_tail(setting: Setting) -> Behaviour:
    """An answer begins rightly and ends as another one."""

    def mix(answer: Answer, other: Answer) -> None:
        answer.content = text_faults.tail_of(answer.content, other.content, setting.draw(answer.content))

    return _crowd(mix)
