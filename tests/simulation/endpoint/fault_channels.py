# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of the server's parsers: reasoning, special tokens and calls of tools end up where they do not belong."""

from __future__ import annotations

import json

from . import text_faults
from .behaviour import Change, Setting, answers, everywhere
from .proxy import Behaviour
from .wire import Answer, Call


def leaked_special_tokens(setting: Setting) -> Behaviour:
    def change(_call: Call, answer: Answer) -> None:
        answer.content = text_faults.leak(answer.content, setting.draw(answer.content))

    return answers(everywhere, change)


def _unparsed(_call: Call, answer: Answer) -> None:
    if answer.reasoning:
        answer.content, answer.reasoning = f"{answer.reasoning}</think>{answer.content}", ""


def reasoning_in_content(_setting: Setting) -> Behaviour:
    """No reasoning parser."""
    return answers(everywhere, _unparsed)


def reasoning_in_content_streamed(_setting: Setting) -> Behaviour:
    """A parser that works only where the whole answer is there."""
    return answers(lambda call: call.streams, _unparsed)


def _calls(change: Change) -> Behaviour:
    def where_called(call: Call, answer: Answer) -> None:
        if answer.calls:
            change(call, answer)

    return answers(everywhere, where_called)


def truncated_arguments(setting: Setting) -> Behaviour:
    """Arguments that end anywhere, in a call that says it is complete."""

    def change(_call: Call, answer: Answer) -> None:
        for item in answer.calls:
            arguments = item["function"]["arguments"]
            ends = setting.draw(arguments).randrange(len(arguments))
            item["function"] = {**item["function"], "arguments": arguments[:ends]}

    return _calls(change)


def tool_call_as_text(_setting: Setting) -> Behaviour:
    """No tool parser: the model's own markup is the answer."""

    def change(_call: Call, answer: Answer) -> None:
        marked = "".join(
            f"<|tool_call_begin|>{item['id']}<|tool_call_argument_begin|>"
            f"{json.dumps(json.loads(item['function']['arguments']))}<|tool_call_end|>"
            for item in answer.calls
        )
        answer.content += f"<|tool_calls_section_begin|>{marked}<|tool_calls_section_end|>"
        answer.calls = []
        answer.finish_reason = "stop"

    return _calls(change)
