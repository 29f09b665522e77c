# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import json

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import failure
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.chat import (
    Answer,
    Request,
    read_completion,
    read_stream,
)
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.stream import events
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)


def event(delta: dict[str, object], finish: str | None = None) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


@given(st.lists(TEXT), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400)), st.booleans())
def test_events_do_not_depend_on_where_the_bytes_are_cut(
    texts: list[str], end: str, cuts: list[int], space: bool
) -> None:
    lines = [f": ping{end}{end}"] + [f"id: 7{end}data:{' ' if space else ''}{text}{end}{end}" for text in texts]
    body = "".join(lines).encode()
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    chunks = [body[start:stop] for start, stop in itertools.pairwise(edges)]
    expected = texts if space else [text.removeprefix(" ") for text in texts]
    assert list(events(chunks)) == expected
    assert list(events(bytes([byte]) for byte in body)) == expected


def test_several_data_lines_are_one_event_and_an_unfinished_one_is_none() -> None:
    assert list(events([b"\xef\xbb\xbfdata: a\ndata: b\n\ndata: lost"])) == ["a\nb"]


def test_stream_is_put_together() -> None:
    answer = read_stream(
        [
            (0.5, event({"role": "assistant", "content": ""})),
            (1.0, event({"reasoning": "A"})),
            (1.5, event({"content": "Pa"})),
            (2.0, event({"content": "ris"})),
            (2.5, event({}, "stop")),
            (2.6, json.dumps({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})),
            (2.7, "[DONE]"),
        ]
    )
    assert (answer.reasoning, answer.content, answer.finish_reason) == ("A", "Paris", "stop")
    assert (answer.first_token_s, answer.last_token_s, answer.deltas) == (1.0, 2.5, 3)
    assert (answer.prompt_tokens, answer.completion_tokens) == (9, 4)


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (
            ['{"error": {"message": "EngineCore encountered an issue"}}', "[DONE]"],
            failure.STREAM_ERROR,
            "EngineCore enc",
        ),
        ([event({"content": "x"})], failure.STREAM_TRUNCATED, "DONE"),
        ([event({"content": "x"}), "[DONE]"], failure.STREAM_TRUNCATED, "finish_reason"),
        ([event({"content": "x"}, "stop")], failure.STREAM_TRUNCATED, "DONE"),
        (["{"], failure.STREAM_ERROR, "not JSON"),
        (["[" * 200_000], failure.STREAM_ERROR, "not JSON"),
    ],
)
def test_failures_inside_a_stream(data: list[str], kind: str, said: str) -> None:
    with pytest.raises(EndpointError, match=said) as caught:
        read_stream((0.0, item) for item in data)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("fields", "reasoning", "name"),
    [
        ({"reasoning": "A"}, "A", "reasoning"),
        ({"reasoning_content": "A"}, "A", "reasoning_content"),
        ({"reasoning": "A", "reasoning_content": "A"}, "A", "both"),
        ({"reasoning": None}, "", None),
        ({}, "", None),
    ],
)
def test_both_names_of_reasoning_count_once(fields: dict[str, object], reasoning: str, name: str | None) -> None:
    whole = read_completion({"choices": [{"message": {"content": "ok", **fields}, "finish_reason": "stop"}]})
    parts = read_stream([(0.0, event(fields)), (0.1, event({"content": "ok"}, "stop")), (0.2, "[DONE]")])
    for answer in (whole, parts):
        assert (answer.content, answer.reasoning, answer.reasoning_field) == ("ok", reasoning, name)


@pytest.mark.parametrize(
    "payload", [None, [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": {"content": 1}}]}]
)
def test_answers_of_another_shape_are_errors(payload: object) -> None:
    with pytest.raises(EndpointError, match="not_openai"):
        read_completion(payload)


def test_nan_in_the_body_does_not_crash() -> None:
    body = '{"choices": [{"message": {"content": "!"}, "logprobs": {"content": [{"logprob": NaN}]}}]}'
    assert read_completion(json.loads(body)).content == "!"


def test_spent_budget_is_not_an_empty_answer() -> None:
    assert Answer(reasoning="The user asks", finish_reason="length").spent_budget
    assert not Answer(reasoning="The user asks", finish_reason="stop").spent_budget
    assert not Answer(content="Paris", reasoning="x", finish_reason="length").spent_budget


def test_thinking_switch_is_a_boolean_or_absent() -> None:
    body = Request("m", [], 8, thinking=False, thinking_parameter="enable_thinking").body(stream=True)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["stream_options"] == {"include_usage": True}
    assert "chat_template_kwargs" not in Request("m", [], 8).body(stream=False)
