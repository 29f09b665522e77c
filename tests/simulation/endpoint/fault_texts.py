# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults in what is said: always, from a certain token on, or when numbers are computed."""

from __future__ import annotations

import math
import re
import threading

from . import text_faults, wire
from .behaviour import Setting, answers, budget, endless, everywhere, garble
from .proxy import Behaviour, Forward
from .wire import Answer, Call, Reply

NAN_WORDS = "Out of range float values are not JSON compliant: nan"
_ARITHMETIC = re.compile(r"\d\s*(?:[*^+/-]|times|plus|minus)\s*\d")


def nan_error() -> Reply:
    return wire.error(500, NAN_WORDS, "InternalServerError")


def exclamation_marks(setting: Setting) -> Behaviour:
    """In every answer; the NaN behind them makes each request for logprobs fail."""

    def change(call: Call, answer: Answer) -> None:
        rng = setting.draw(answer.content)
        if answer.reasoning:
            answer.reasoning, answer.content = text_faults.bang(answer.reasoning, rng, budget(call)), ""
        else:
            answer.content = text_faults.bang(answer.content, rng, budget(call))

    speak = endless(setting, change)
    return lambda call, forward: nan_error() if call.asks_logprobs else speak(call, forward)


def nan_when_cold(setting: Setting) -> Behaviour:
    """Memory that nothing was written into yet holds NaN; a few hundred tokens later all of it is written."""
    enough = setting.rng.randint(100, 140)
    seen = 0
    lock = threading.Lock()

    def behave(call: Call, forward: Forward) -> Reply:
        nonlocal seen
        if not call.generates:
            return forward(call)
        with lock:
            cold = seen < enough
            seen += setting.prompt_length(call)
        return nan_error() if cold and call.asks_logprobs else forward(call)

    return behave


def nan_after_long(setting: Setting) -> Behaviour:
    """NaN in a body that is not JSON, for ever after one long prompt."""
    long = setting.rng.randint(1200, 1600)
    broken = threading.Event()

    def change(_call: Call, answer: Answer) -> None:
        for entry in (answer.logprobs or {}).get("content") or ():
            entry["logprob"] = math.nan

    speak = answers(lambda call: broken.is_set() and call.asks_logprobs, change)

    def behave(call: Call, forward: Forward) -> Reply:
        reply = speak(call, forward)
        if call.generates and setting.prompt_length(call) >= long:
            broken.set()
        return reply

    return behave


def loops(setting: Setting) -> Behaviour:
    def change(call: Call, answer: Answer) -> None:
        rng = setting.draw(answer.content)
        if answer.reasoning:
            answer.reasoning, answer.content = text_faults.loop(answer.reasoning, rng, budget(call)), ""
        else:
            answer.content = text_faults.loop(answer.content, rng, budget(call))

    return endless(setting, change)


def late_loop(setting: Setting) -> Behaviour:
    """Only what comes after a number of tokens that few checks ask for repeats itself."""
    begins = setting.rng.randint(100, 130)

    def change(call: Call, answer: Answer) -> None:
        at = setting.upstream.cut(str(call.body["model"]), answer.content, begins)
        if at < len(answer.content):
            tail = answer.content[at:]
            again = text_faults.loop(" ".join(tail.split()[:8]), setting.draw(tail), 2 * len(tail.split()))
            answer.content = f"{answer.content[:at]} {again}"
            answer.finish_reason = "length"

    return answers(everywhere, change)


def word_salad(setting: Setting) -> Behaviour:
    return answers(everywhere, garble(setting))


def fluent_but_wrong(setting: Setting) -> Behaviour:
    """Arithmetic has answers of the right form with a wrong digit; nothing else is touched."""

    def change(_call: Call, answer: Answer) -> None:
        answer.content = text_faults.wrong_digit(answer.content, setting.draw(answer.content))

    return answers(lambda call: bool(_ARITHMETIC.search(call.said)), change)


def wrong_after_thinking(setting: Setting) -> Behaviour:
    """The reasoning is right, the conclusion is not."""

    def change(_call: Call, answer: Answer) -> None:
        if answer.reasoning and not answer.calls:
            answer.content = text_faults.salad(answer.content, setting.draw(answer.content))

    return answers(lambda call: call.thinks, change)


def miscounts(setting: Setting) -> Behaviour:
    """After a number of output tokens a number is left out or said twice."""
    begins = setting.rng.randint(31, 45)

    def change(call: Call, answer: Answer) -> None:
        at = setting.upstream.cut(str(call.body["model"]), answer.content, begins)
        tail = answer.content[at:]
        answer.content = answer.content[:at] + text_faults.miscounted(tail, setting.draw(tail))

    return answers(everywhere, change)


def empty(_setting: Setting) -> Behaviour:
    def change(_call: Call, answer: Answer) -> None:
        answer.content = answer.reasoning = ""
        answer.calls = []

    return answers(everywhere, change)


def only_special_tokens(setting: Setting) -> Behaviour:
    """The detokenizer leaves special tokens out, so nothing is left of an answer that uses its whole budget."""

    def change(_call: Call, answer: Answer) -> None:
        answer.content = answer.reasoning = ""

    return endless(setting, change)
