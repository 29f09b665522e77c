# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.chat import Answer
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import tool_calls
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.tool_calls import ToolCall
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation.endpoint.server import Exchange, delta

Run = Callable[..., tuple[Check, Context]]

PROBE = tool_calls.read({"id_pattern": r"^functions\.get_weather:\d+$"}, "questions.tool_calls")
OSLO = '{"city": "Oslo"}'
NO_PARSER = '{"error": {"message": "\\"auto\\" tool choice requires --enable-auto-tool-choice to be set"}}'


class Model:
    """Calls the tool, or uses its result, with vLLM's reasons for the end. changes: what is different in an answer."""

    def __init__(self, changes: Callable[[Exchange], dict[str, Any]] = lambda exchange: {}) -> None:
        self.changes = changes
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, exchange: Exchange) -> bool:
        self.bodies.append(exchange.body)
        changed = self.changes(exchange)
        if "status" in changed:
            return exchange.send(changed["status"], changed["body"])
        if exchange.body["messages"][-1]["role"] == "tool":
            result = json.loads(exchange.prompt)
            said = changed.get("final", f"It is {result['temperature_c']} °C with {result['sky']}.")
            return exchange.answer(said)
        choice = exchange.body["tool_choice"]
        finish = "stop" if isinstance(choice, dict) else "tool_calls"
        call = {
            "id": changed.get("id", "functions.get_weather:0"),
            "type": "function",
            "function": {"name": changed.get("name", "get_weather"), "arguments": changed.get("arguments", OSLO)},
        }
        calls = changed.get("calls", [call])
        usage = {"prompt_tokens": 70, "completion_tokens": changed.get("tokens", 19)}
        return _say(exchange, changed.get("content", ""), calls, changed.get("finish", finish), usage)


def _say(exchange: Exchange, content: str, calls: list[dict[str, Any]], finish: str, usage: dict[str, int]) -> bool:
    if not exchange.body["stream"]:
        message = {"role": "assistant", "content": content or None, "tool_calls": calls}
        choices = [{"index": 0, "message": message, "finish_reason": finish}]
        return exchange.send(200, json.dumps({"choices": choices, "usage": usage}))
    pieces = [delta({"role": "assistant", "content": ""})]
    pieces += [delta({"content": character}) for character in content]
    for index, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        first = {**call, "index": index, "function": {**call["function"], "arguments": arguments[:5]}}
        pieces.append(delta({"tool_calls": [first]}))
        pieces.append(delta({"tool_calls": [{"index": index, "function": {"arguments": arguments[5:]}}]}))
    pieces += [delta({}, finish), f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n", "data: [DONE]\n\n"]
    return exchange.stream(*pieces)


def test_calls_in_every_form_and_the_round_trip_pass(run_check: Run) -> None:
    model = Model()
    check, context = run_check(tool_calls, model)
    assert (check.status, check.value, check.threshold) == ("pass", 8, 8)
    named = {"type": "function", "function": {"name": "get_weather"}}
    assert [(body["tool_choice"], body["stream"]) for body in model.bodies] == [
        *(("auto", False), ("auto", True), ("required", False), ("required", True)),
        *((named, False), (named, True), ("auto", False), ("auto", True)),
    ]
    user, called, result = model.bodies[-1]["messages"]
    assert user["role"] == "user"
    assert called["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": OSLO}
    assert result == {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": PROBE.result}
    assert len(context.answers) == 8


def test_quick_leaves_the_forced_calls_out(run_check: Run) -> None:
    check, _context = run_check(tool_calls, Model(), full=False)
    assert (check.status, check.threshold) == ("pass", 3)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"arguments": '{"city": "Oslo"', "tokens": 19}, "truncated_tool_call"),
        ({"arguments": '{"city": "Os'}, "truncated_tool_call"),
        ({"arguments": '"Oslo"'}, "arguments_not_an_object: str"),
        ({"arguments": '{"town": "Oslo"}'}, "missing_argument: city"),
        ({"arguments": OSLO + OSLO}, "more than one value"),
        ({"arguments": ""}, "no_arguments"),
        ({"arguments": "{city: Oslo}"}, "arguments_not_json"),
        ({"arguments": '{"city": "Rome"}'}, "wrong_arguments"),
        ({"name": "functions.get_weather"}, "unknown_tool_name: 'functions.get_weather'"),
        ({"id": ""}, "wrong_id"),
        ({"calls": []}, "no_tool_call"),
        ({"finish": "stop"}, "wrong_finish_reason: stop"),
        ({"content": "<|tool_calls_section_begin|>functions.get_weather:0"}, "tool_markup_leak: <| in content"),
        ({"status": 500, "body": '{"error": {"message": "grammar"}}'}, "server_error: HTTP 500: grammar"),
        ({"status": 400, "body": '{"error": {"message": "max_tokens"}}'}, "probe_rejected"),
    ],
)
def test_wrong_calls_fail_each_with_its_reason(run_check: Run, changed: dict[str, Any], said: str) -> None:
    check, _context = run_check(tool_calls, Model(lambda exchange: changed), full=False)
    assert (check.status, check.value, check.threshold) == ("fail", 0, 2)
    assert all(said in line for line in check.evidence)


def test_a_fault_of_the_stream_only_is_said_so(run_check: Run) -> None:
    model = Model(lambda exchange: {"arguments": '{"city'} if exchange.body["stream"] else {})
    check, _context = run_check(tool_calls, model)
    assert (check.status, check.value, check.threshold) == ("fail", 5, 8)
    assert all("streamed: truncated_tool_call" in line and "not" not in line for line in check.evidence[:3])


@pytest.mark.parametrize("more", [True, False])
def test_a_call_that_the_budget_cut_is_asked_once_more(run_check: Run, more: bool) -> None:
    def cut(exchange: Exchange) -> dict[str, Any]:
        limit = exchange.body["max_tokens"]
        return {} if more and limit > 256 else {"arguments": '{"city": "Os', "tokens": limit}

    model = Model(cut)
    check, _context = run_check(tool_calls, model, full=False)
    assert check.status == ("pass" if more else "fail")
    assert "budget_retry after" in check.evidence[0]
    assert [body["max_tokens"] for body in model.bodies[:4]] == [256, 1024, 256, 1024]


@pytest.mark.parametrize(
    ("final", "said"),
    [
        ("I do not know the weather.", "the result is not used"),
        ("It is -17<|im_end|>", "tool_markup_leak"),
    ],
)
def test_a_result_that_is_not_used_fails(run_check: Run, final: str, said: str) -> None:
    check, _context = run_check(tool_calls, Model(lambda exchange: {"final": final}))
    assert (check.status, check.value, check.threshold) == ("fail", 6, 8)
    assert said in check.evidence[0]


def test_a_tool_that_is_called_again_after_its_result_fails(run_check: Run) -> None:
    model = Model()

    def again(exchange: Exchange) -> bool:
        exchange.body["messages"] = exchange.body["messages"][:1]
        return model(exchange)

    check, _context = run_check(tool_calls, again, full=False)
    assert check.status == "fail"
    assert "called again" in check.evidence[0]


def test_a_server_without_a_tool_parser_is_not_run(run_check: Run) -> None:
    check, _context = run_check(tool_calls, Model(lambda exchange: {"status": 400, "body": NO_PARSER}))
    assert check.status == "not_run"
    assert "--enable-auto-tool-choice" in check.evidence[0]


def test_a_form_that_is_not_offered_is_said(run_check: Run) -> None:
    def refuses(exchange: Exchange) -> dict[str, Any]:
        refused = exchange.body["tool_choice"] == "required"
        return {"status": 400, "body": '{"error": {"message": "unsupported value"}}'} if refused else {}

    check, _context = run_check(tool_calls, Model(refuses))
    assert (check.status, check.threshold) == ("pass", 6)
    assert any("required: not offered" in line and "unsupported value" in line for line in check.evidence)


def answer(**members: Any) -> Answer:
    call = ToolCall("functions.get_weather:0", "get_weather", members.pop("arguments", OSLO))
    return Answer(**{"tool_calls": [call], "finish_reason": "tool_calls", **members})


def test_a_forced_call_may_stop_and_two_calls_are_one_too_many() -> None:
    assert tool_calls.judge(answer(finish_reason="stop"), PROBE, forced=True) is None
    assert "wrong_finish_reason" in str(tool_calls.judge(answer(finish_reason="length"), PROBE, forced=True))
    assert "2 calls" in str(tool_calls.judge(answer(tool_calls=answer().tool_calls * 2), PROBE, forced=False))
    assert "reasoning" in str(tool_calls.judge(answer(reasoning="<|tool_call_begin|>"), PROBE, forced=False))
    assert tool_calls.judge(answer(content="I use tool_calls."), PROBE, forced=False) is None
    assert "wrong_id" in str(
        tool_calls.judge(answer(tool_calls=[ToolCall("call_1", "get_weather", OSLO)]), PROBE, forced=False)
    )


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_no_cut_of_the_arguments_is_complete(arguments: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(arguments)
    assert tool_calls.judge_arguments(text, arguments) is None
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    said = tool_calls.judge_arguments(cut, arguments)
    assert said is not None
    assert said.partition(":")[0] in {"no_arguments", "truncated_tool_call", "arguments_not_json"}


@pytest.mark.parametrize(
    "section",
    [{"name": "get_time"}, {"expect": "("}, {"id_pattern": "["}, {"tools": ["x"]}, {"arguments": []}, {"tool": {}}],
)
def test_sections_that_are_not_usable(section: Any) -> None:
    with pytest.raises(ServingError, match=r"questions\.tool_calls.* is not usable"):
        tool_calls.read(section, "questions.tool_calls")
