# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""tool_calls: a tool is called rightly, by choice and by force, streamed and not, and its result is used."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import ServingError
from .. import failure, probes, special_tokens
from ..chat import Answer
from ..check import FAIL, NOT_RUN, PASS, Check, Context, shorten, shown
from ..failure import EndpointError
from ..fields import pattern

# One legal call: the city is one of three. The result is nothing that a model would guess.
DEFAULT: dict[str, Any] = {
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Get the current weather in a city.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "city": {
                            "type": "string",
                            "enum": ["Lima", "Oslo", "Rome"],
                            "description": "The name of the city",
                        }
                    },
                    "required": ["city"],
                },
            },
        }
    ],
    "prompt": "What is the weather in Oslo right now? Use the tool.",
    "name": "get_weather",
    "arguments": {"city": "Oslo"},
    "result": '{"city": "Oslo", "temperature_c": -17, "sky": "hail"}',
    "expect": r"17",
    "id_pattern": r".",
}
_MAX_TOKENS = 256
_MORE_TOKENS = 4 * _MAX_TOKENS
_FLAGS = "--enable-auto-tool-choice, --tool-call-parser, --reasoning-parser"


@dataclass(frozen=True)
class Probe:
    """The prompt needs one call of `name` with `arguments`; expect: a regular expression for the answer to `result`."""

    tools: list[dict[str, Any]]
    prompt: str
    name: str
    arguments: dict[str, Any]
    result: str
    expect: re.Pattern[str]
    id_pattern: re.Pattern[str]


@dataclass(frozen=True)
class _Form:
    """One way to ask for the call."""

    label: str
    choice: Any
    stream: bool

    def __str__(self) -> str:
        return f"{self.label}, {'streamed' if self.stream else 'not streamed'}"


@dataclass
class _Seen:
    asked: int = 0
    bad: list[str] = field(default_factory=list)
    good: list[str] = field(default_factory=list)


def read(section: Any, where: str) -> Probe:
    known: dict[str, Any] = {
        "tools": list,
        "prompt": str,
        "name": str,
        "arguments": dict,
        "result": str,
        "expect": str,
        "id_pattern": str,
    }
    given = {**DEFAULT, **probes.members(section, where, known)}
    functions = [tool.get("function") for tool in given["tools"] if isinstance(tool, dict)]
    names = [function.get("name") for function in functions if isinstance(function, dict)]
    if given["name"] not in names:
        raise ServingError(f"{where} is not usable", why=f"no tool in tools has the name {given['name']!r}")
    expect = pattern(given.pop("expect"), f"{where}.expect")
    id_pattern = pattern(given.pop("id_pattern"), f"{where}.id_pattern")
    return Probe(**given, expect=expect, id_pattern=id_pattern)


def run(context: Context) -> Check:
    """value = right answers, threshold = answers asked for. A server that offers no tools is not_run.

    The quick profile leaves the forced calls out.
    """
    probe: Probe = context.probes["tool_calls"]
    named = {"type": "function", "function": {"name": probe.name}}
    choices = [("auto", "auto"), ("required", "required"), ("named", named)] if context.full else [("auto", "auto")]
    seen = _Seen()
    called: Answer | None = None
    for label, choice in choices:
        for stream in (False, True):
            form = _Form(label, choice, stream)
            try:
                answer = _call(context, probe, form, seen)
            except EndpointError as error:
                if not error.is_one_answer:
                    raise
                if error.kind == failure.REJECTED and label != "auto":
                    seen.good.append(f"{label}: not offered: {error.message}")
                    break
                if error.kind == failure.REJECTED and "tool" in error.message.lower():
                    return Check("tool_calls", NOT_RUN, evidence=[error.message])
                seen.asked += 1
                seen.bad.append(f"{form}: {error}")
                continue
            called = called or answer
    if called is not None:
        for stream in (False, True) if context.full else (False,):
            _return_result(context, probe, called, seen, stream=stream)
    right = seen.asked - len(seen.bad)
    return Check("tool_calls", FAIL if seen.bad else PASS, right, seen.asked, seen.bad + seen.good)


def _call(context: Context, probe: Probe, form: _Form, seen: _Seen) -> Answer | None:
    """The answer that holds the right call, or None. A call cut off by its budget is asked once more with a larger."""
    name = f"tool_calls, {form}"
    messages = [{"role": "user", "content": probe.prompt}]
    extra = {"tools": probe.tools, "tool_choice": form.choice}
    answer = context.ask(name, messages, max_tokens=_MAX_TOKENS, stream=form.stream, extra=extra)[-1]
    said = ""
    if _ran_out(answer, _MAX_TOKENS) and judge(answer, probe, forced=form.choice != "auto"):
        said = f"budget_retry after {_shown(answer)}: "
        answer = context.ask(name, messages, max_tokens=_MORE_TOKENS, stream=form.stream, extra=extra)[-1]
    seen.asked += 1
    if problem := judge(answer, probe, forced=form.choice != "auto"):
        seen.bad.append(f"{form}: {said}{problem}; {_shown(answer)}")
        return None
    seen.good.append(f"{form}: {said}{_shown(answer)}")
    return answer


def _ran_out(answer: Answer, max_tokens: int) -> bool:
    """vLLM says tool_calls as the reason even where the limit ended the call: the count of tokens tells."""
    return answer.finish_reason == "length" or (answer.completion_tokens or 0) >= max_tokens


def judge(answer: Answer, probe: Probe, *, forced: bool) -> str | None:
    """What is wrong with the answer that should be the call, or None.

    A forced call may say stop: vLLM does for a named function, as OpenAI does.
    """
    for channel, text in (("content", answer.content), ("reasoning", answer.reasoning)):
        if markup := special_tokens.leaked(text):
            return f"tool_markup_leak: {markup} in {channel} (do {_FLAGS} fit the model?)"
    if not answer.tool_calls:
        return "no_tool_call"
    if len(answer.tool_calls) > 1:
        return f"{len(answer.tool_calls)} calls instead of one"
    call = answer.tool_calls[0]
    if call.name != probe.name:
        return f"unknown_tool_name: {call.name!r}, expected {probe.name!r}"
    if problem := judge_arguments(call.arguments, probe.arguments):
        return problem
    if not probe.id_pattern.search(call.id):
        return f"wrong_id: {call.id!r}, expected /{probe.id_pattern.pattern}/"
    if answer.finish_reason != "tool_calls" and not (forced and answer.finish_reason == "stop"):
        return f"wrong_finish_reason: {answer.finish_reason}, expected tool_calls"
    return None


def judge_arguments(text: str, expected: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments of a call, or None."""
    if not text.strip():
        return "no_arguments"
    try:
        arguments = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return "arguments_not_json: more than one value"
        # Python says where an unterminated string begins, not where it ends
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        return f"{'truncated_tool_call' if cut else 'arguments_not_json'}: {error.msg}"
    if not isinstance(arguments, dict):
        return f"arguments_not_an_object: {type(arguments).__name__}"
    if missing := [name for name in expected if name not in arguments]:
        return f"missing_argument: {', '.join(missing)}"
    return None if arguments == expected else f"wrong_arguments: expected {json.dumps(expected)}"


def _return_result(context: Context, probe: Probe, called: Answer, seen: _Seen, *, stream: bool) -> None:
    """The round trip: the call and its result go back, the answer must use the result."""
    form = f"result, {'streamed' if stream else 'not streamed'}"
    messages = [
        {"role": "user", "content": probe.prompt},
        called.as_message(with_reasoning=True),
        {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": probe.result},
    ]
    extra = {"tools": probe.tools, "tool_choice": "auto"}
    seen.asked += 1
    try:
        answer = context.ask(f"tool_calls, {form}", messages, max_tokens=_MAX_TOKENS, stream=stream, extra=extra)[-1]
    except EndpointError as error:
        if not error.is_one_answer:
            raise
        seen.bad.append(f"{form}: {error}")
        return
    markup = special_tokens.leaked(answer.content) or special_tokens.leaked(answer.reasoning)
    if markup:
        seen.bad.append(f"{form}: tool_markup_leak: {markup}, {shown(answer)}")
    elif answer.tool_calls:
        seen.bad.append(f"{form}: the tool is called again: {_shown(answer)}")
    elif not probe.expect.search(answer.content.strip()):
        seen.bad.append(f"{form}: the result is not used: expected /{probe.expect.pattern}/, {shown(answer)}")
    else:
        seen.good.append(f"{form}: {shown(answer)}")


def _shown(answer: Answer) -> str:
    if not answer.tool_calls:
        return shown(answer)
    calls = ", ".join(f"{call.id} {call.name}({call.arguments})" for call in answer.tool_calls)
    return f"{shorten(calls)}, finish_reason {answer.finish_reason}, {answer.completion_tokens} tokens"
