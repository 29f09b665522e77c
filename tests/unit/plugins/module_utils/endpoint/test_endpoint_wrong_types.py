# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any JSON at any place of any answer: the whole battery gives a state and checks, never a traceback."""

from __future__ import annotations

import copy
import itertools
import json
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, battery, readiness, verdict
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import prefix_cache, read_sections
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulation.endpoint import wire
from simulation.endpoint.wire import Answer, Call

SECTIONS = read_sections(
    {
        "exact_set": [
            {"prompt": "What is 17*23?", "expect": "391", "thinking": thinking} for thinking in (True, False)
        ],
        "length_sweep": {"lengths": [1, 40, 300], "quick_lengths": [40], "expect": "391"},
        "prefix_cache": {"expect": "391"},
        "concurrency": {"levels": [2]},
        "needle": {"lengths": [300], "depths": [0.5]},
        "tool_calls": {"expect": "391"},
    }
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        [10**400, -1, 0, 2**64, "", "391", "\ud800", "{}", "[", "<|im_end|>", "1e999", {}, [], [[]], [None]]
    )
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MISSING = object()
PLACES = ("/v1/models", "/metrics", "/tokenize", wire.COMPLETIONS, wire.CHAT, "stream")
Path = tuple[Any, ...]


class Server(Client):
    """A client whose server is this object: right answers, but one member of one kind of answer is another value."""

    def __init__(self, place: str, path: Path, value: Any) -> None:
        super().__init__(address.parse("http://127.0.0.1:9"))
        self._place, self._path, self._value = place, path, value
        self._read = itertools.count()

    @contextmanager
    def _open(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> Iterator[Iterator[bytes]]:
        call = Call(method, path, {}, body or {})
        if path == "/metrics":
            yield iter([self._metrics().encode()])
        elif call.streams:
            events = right(call)
            sent = self._broken(events) if self._place == "stream" else events
            sent = sent if isinstance(sent, list) else [sent]
            lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in sent if event is not MISSING]
            yield iter([*lines, b"data: [DONE]\n\n"])
        else:
            answer = right(call)
            yield iter([json.dumps(self._broken(answer) if self._place == path else answer).encode()])

    def _broken(self, answer: Any) -> Any:
        return put(answer, self._path, self._value)

    def _metrics(self) -> str:
        count = 10_000 * next(self._read)
        value = json.dumps(self._value) if self._place == "/metrics" else count
        names = (
            "prefix_cache_queries",
            "prefix_cache_hits",
            "generation_tokens",
            "num_preemptions",
            "corrupted_requests",
        )
        return "".join(f'vllm:{name}_total{{engine="0"}} {value}\n' for name in names)


def right(call: Call) -> Any:
    """A right answer: an object, or the list of a stream's events."""
    if call.path == "/v1/models":
        return {"data": [{"id": "kimi", "max_model_len": 8192}]}
    if call.path == "/tokenize":
        said = call.body.get("prompt") or f"begin {' '.join(wire.text(item) for item in call.messages)} end"
        return {"tokens": [zlib.crc32(word.encode()) for word in said.split()], "count": 1, "max_model_len": 8192}
    usage = {"prompt_tokens": len(call.body.get("prompt") or call.said.split()), "completion_tokens": 1}
    if call.path == wire.COMPLETIONS:
        logprobs = {"tokens": ["391"], "token_logprobs": [-0.1], "top_logprobs": [{"391": -0.1}]}
        return {"choices": [{"text": "391", "logprobs": logprobs, "finish_reason": "stop"}], "usage": usage}
    entry = {"token": "391", "logprob": -0.1, "top_logprobs": [{"token": "391", "logprob": -0.1}]}
    wants_call = "tools" in call.body and call.messages[-1]["role"] == "user"
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    calls = [{"id": "functions.get_weather:0", "type": "function", "function": function}] if wants_call else []
    reasoning = "17*23=391." if call.thinks else ""
    payload = {"id": "x", "model": "kimi", "choices": [{"index": 0, "message": {"role": "assistant"}}]}
    answer = Answer("" if wants_call else "391", reasoning, calls, "stop", usage, {"content": [entry]}, payload)
    body = wire.write(call, answer).read()
    return list(wire.events(body)) if call.streams else json.loads(body)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a value, the whole included."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        yield from places(member, (*path, name))


def put(value: Any, path: Path, new: Any) -> Any:
    """The value with another one at this place, or without it; unchanged where it has no such place."""
    if not path:
        return {} if new is MISSING else new
    if not (isinstance(value, dict) and path[0] in value) and not (isinstance(value, list) and path[0] < len(value)):
        return value
    changed = copy.copy(value)
    if len(path) == 1 and new is MISSING:
        del changed[path[0]]
    else:
        changed[path[0]] = put(changed[path[0]], path[1:], new)
    return changed


def examine(client: Client, *, full: bool = True) -> battery.Report:
    context = Context(client, SECTIONS["exact_set"], SECTIONS, full=full, deadline=time.monotonic() + 60)
    plan = battery.Plan(readiness.Limits(0, 0, 5, 0.05), expected_max_model_len=8192, allowed_not_run=("vision",))
    with mock.patch.object(prefix_cache, "_COUNTER_WAIT_S", 0.0):
        return battery.examine(context, plan)


def samples(place: str) -> list[Any]:
    """Right answers of this kind, whose places are all there are."""
    user = [{"role": "user", "content": "What is 17*23?"}]
    tools = {"messages": user, "tools": [{}]}
    asked: dict[str, list[dict[str, Any]]] = {
        "/v1/models": [{}],
        "/metrics": [],
        "/tokenize": [{"prompt": "one two"}],
        wire.COMPLETIONS: [{"prompt": [1, 2], "logprobs": 5}],
        wire.CHAT: [{"messages": user, "logprobs": True}, tools],
        "stream": [
            {"messages": user, "stream": True},
            {**tools, "stream": True, "stream_options": {"include_usage": True}},
        ],
    }
    return [right(Call("POST", wire.CHAT if place == "stream" else place, {}, body)) for body in asked[place]]


ANYWHERE = {
    place: sorted({path for value in samples(place) for path in places(value)} or {()}, key=str) for place in PLACES
}


def judge(report: battery.Report) -> None:
    assert report.state in verdict.LADDER
    assert [check.name for check in report.checks] == list(battery.NAMES)
    for check in report.checks:
        assert check.status in ("pass", "fail", "inconclusive", "not_run"), check
        assert check.status == "pass" or check.evidence, check
        assert all(isinstance(said, str) for said in check.evidence), check
    assert (report.problem is None) == (report.state == "healthy")
    if report.problem is not None:
        assert "\n" not in str(report.problem)
    json.dumps(report.as_result())


def test_right_answers_are_judged_at_all() -> None:
    """A control: what the next tests change is what makes the checks pass."""
    report = examine(Server("nowhere", (), None))
    judge(report)
    passed = {check.name for check in report.checks if check.status == "pass"}
    assert {"ready", "logprobs", "exact_set", "length_sweep", "prefix_cache", "channels"} <= passed


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_at_any_place(place: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(ANYWHERE[place]), "path")
    value = data.draw(JSON, "value")
    judge(examine(Server(place, path, value), full=data.draw(st.booleans(), "full")))


@pytest.mark.parametrize("place", [place for place in PLACES if place != "/metrics"])
def test_any_member_may_be_missing(place: str) -> None:
    for path in ANYWHERE[place]:
        judge(examine(Server(place, path, MISSING), full=False))
