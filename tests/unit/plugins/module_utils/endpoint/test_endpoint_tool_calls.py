# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import failure
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.chat import (
    Answer,
    Request,
    read_completion,
    read_stream,
)
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.tool_calls import ToolCall
from hypothesis import given, settings
from hypothesis import strategies as st

CALLS = st.lists(st.builds(ToolCall, st.text(), st.text(), st.text()), max_size=3)


def function(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def event(delta: dict[str, Any], finish: str | None = None) -> tuple[float, str]:
    return 0.0, json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def streamed(deltas: list[dict[str, Any]]) -> Answer:
    return read_stream([*map(event, deltas), event({}, "tool_calls"), (0.0, "[DONE]")])


@given(CALLS, st.data())
@settings(deadline=None)
def test_calls_are_the_same_whole_and_in_pieces(calls: list[ToolCall], data: st.DataObject) -> None:
    message = {"content": None, "tool_calls": [function(call) for call in calls]}
    whole = read_completion({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    deltas: list[dict[str, Any]] = []
    for index, call in enumerate(calls):
        cut = data.draw(st.integers(0, len(call.arguments)))
        first = function(ToolCall(call.id, call.name, call.arguments[:cut]))
        deltas.append({"tool_calls": [{"index": index, **first}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": call.arguments[cut:]}}]})
    assert whole.tool_calls == streamed(deltas).tool_calls == calls
    assert [call.as_sent() for call in calls] == message["tool_calls"]


def test_pieces_of_two_calls_may_alternate() -> None:
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "["}},
        {"index": 0, "function": {"arguments": "}"}},
        {"index": 1, "function": {"arguments": "]"}},
    ]
    answer = streamed([{"tool_calls": pieces[:2]}, {"tool_calls": pieces[2:]}])
    assert answer.tool_calls == [ToolCall("a", "f", "{}"), ToolCall("b", "g", "[]")]
    assert answer.deltas == 2


@pytest.mark.parametrize("calls", [None, [], "x", {}, [None, 3], [{"index": 0}]])
def test_other_shapes_hold_no_call(calls: Any) -> None:
    message = {"content": "no", "tool_calls": calls}
    whole = read_completion({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert all(call == ToolCall("", "", "") for call in (*whole.tool_calls, *streamed([message]).tool_calls))


@pytest.mark.parametrize("delta", ["x", 3, {"content": ["x"]}, {"content": {"text": "x"}}])
def test_a_delta_of_another_shape_is_an_error_of_the_stream(delta: Any) -> None:
    with pytest.raises(EndpointError, match="holds no text") as caught:
        streamed([delta])
    assert caught.value.kind == failure.STREAM_ERROR


def test_further_members_of_a_request_go_into_the_body() -> None:
    request = Request("m", [], 8, extra={"cache_salt": "s", "tools": [1], "tool_choice": "auto", "logprobs": True})
    body = request.body(stream=False)
    assert (body["cache_salt"], body["tools"], body["tool_choice"], body["logprobs"]) == ("s", [1], "auto", True)
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0, 0, 8)


@pytest.mark.parametrize(
    ("name", "sent"), [("reasoning", "reasoning"), ("reasoning_content", "reasoning_content"), ("both", "reasoning")]
)
def test_an_answer_goes_back_as_clients_send_it(name: str, sent: str) -> None:
    call = ToolCall("functions.f:0", "f", "{}")
    answer = Answer(content="", reasoning="hm", reasoning_field=name, tool_calls=[call])
    assert answer.as_message(with_reasoning=True) == {
        "role": "assistant",
        "content": "",
        sent: "hm",
        "tool_calls": [function(call)],
    }
    assert Answer(content="ok", reasoning="hm").as_message() == {"role": "assistant", "content": "ok"}


def test_log_probabilities_come_whole_and_in_pieces() -> None:
    entries = [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -0.2}]
    choice = {"message": {"content": "ab"}, "logprobs": {"content": entries}, "finish_reason": "stop"}
    assert read_completion({"choices": [choice]}).logprobs == entries
    pieces = [
        json.dumps({"choices": [{"delta": {"content": entry["token"]}, "logprobs": {"content": [entry]}}]})
        for entry in entries
    ]
    answer = read_stream([*((0.0, piece) for piece in pieces), event({}, "stop"), (0.0, "[DONE]")])
    assert answer.logprobs == entries
