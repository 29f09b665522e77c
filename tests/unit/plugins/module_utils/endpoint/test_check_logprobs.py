# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.chat import Answer
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import logprobs
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given
from hypothesis import strategies as st
from simulation.endpoint.server import Endpoint, Exchange
from simulation.endpoint.tokens import context


def entry(word: str = "one", value: float | None = -0.1, **others: float) -> dict[str, Any]:
    """A token and the best ones, itself first."""
    best = [{"token": word, "logprob": value}]
    best += [{"token": name, "logprob": logprob} for name, logprob in (others or {"two": -3.0}).items()]
    return {"token": word, "logprob": value, "top_logprobs": best}


def payload(*entries: dict[str, Any], tokens: int | None = None, finish: str = "length") -> dict[str, Any]:
    choice = {"message": {"content": "one one"}, "finish_reason": finish, "logprobs": {"content": list(entries)}}
    usage = {"prompt_tokens": 9, "completion_tokens": len(entries) if tokens is None else tokens}
    return {"choices": [choice], "usage": usage}


class Chat:
    """Answers chats with what it holds, and counts corrupted requests."""

    def __init__(self, *answer: dict[str, Any], **more: Any) -> None:
        self.answer = payload(*(answer or (entry(), entry())), **more)
        self.corrupted: int | None = None
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, exchange: Exchange) -> bool:
        if exchange.path == "/metrics":
            counted = "" if self.corrupted is None else f"vllm:corrupted_requests_total {self.corrupted}.0\n"
            return exchange.send(200, counted, "text/plain")
        self.bodies.append(exchange.body)
        return exchange.send(200, json.dumps(self.answer))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


def prepared(endpoint: Endpoint, fault: Callable[[Exchange], bool], **section: Any) -> Context:
    endpoint.fault = fault
    return context(endpoint, "logprobs", logprobs.read(section, "questions.logprobs"))


def test_numbers_of_a_model_that_is_sure(endpoint: Endpoint) -> None:
    chat = Chat(entry(value=-0.1), entry("two", -0.3, three=-2.0))
    check = logprobs.run(prepared(endpoint, chat))
    assert (check.status, check.value, check.threshold) == ("pass", -0.2, -1.5)
    assert check.evidence == ["content: 'one one'"]
    (body,) = chat.bodies
    assert body["messages"] == [{"role": "user", "content": logprobs.DEFAULT["prompt"]}]
    expected = {"logprobs": True, "top_logprobs": 5, "max_tokens": 32, "temperature": 0, "repetition_penalty": 1.0}
    assert expected.items() <= body.items()
    assert body["chat_template_kwargs"] == {"thinking": False}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([entry(), entry(value=math.nan)], "token 2 of 2, 'one': its log probability is nan"),
        ([entry(value=-math.inf)], "its log probability is -inf"),
        ([entry(value=None)], "its log probability is None"),
        ([{**entry(), "logprob": True}], "its log probability is True"),
        ([{**entry(), "logprob": -(10**400)}], "its log probability is -1000"),
        ([{**entry(), "top_logprobs": 5}], "no most probable tokens"),
        ([entry(value=-0.1, two=math.nan)], "its log probability is nan"),
        ([entry(value=0.5)], "0.5 is no log probability"),
        ([entry(value=-9999.0)], "-9999.0 stands for minus infinity"),
        ([entry(value=-2.0, two=-0.2)], "chosen greedily at -2.0, but the most probable one has -0.2"),
        ([{**entry(), "token": "five"}], "not among the 2 most probable ones"),
        ([{**entry(), "top_logprobs": []}], "no most probable tokens"),
        ([entry(value=-1.9, two=-1.95), entry(value=-1.3, two=-2.0)], "mean log probability is -1.6, less than -1.5"),
    ],
)
def test_wrong_numbers(endpoint: Endpoint, entries: list[dict[str, Any]], said: str) -> None:
    check = logprobs.run(prepared(endpoint, Chat(*entries)))
    assert check.status == "fail"
    assert said in check.evidence[0]


def test_a_tie_and_rounding_are_right(endpoint: Endpoint) -> None:
    chat = Chat(entry(value=-0.7, two=-0.7), entry(value=1e-7))
    assert logprobs.run(prepared(endpoint, chat)).status == "pass"


@pytest.mark.parametrize(
    ("tokens", "finish", "status"),
    [(2, "length", "pass"), (3, "stop", "pass"), (3, "length", "fail"), (4, "stop", "fail"), (1, "length", "fail")],
)
def test_an_entry_for_each_token(endpoint: Endpoint, tokens: int, finish: str, status: str) -> None:
    check = logprobs.run(prepared(endpoint, Chat(entry(), entry(), tokens=tokens, finish=finish)))
    assert check.status == status
    if status == "fail":
        assert check.evidence[0] == f"2 log probabilities for {tokens} tokens"


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ((500, '{"error": {"message": "Out of range float values are not JSON compliant: nan"}}'), "fail", "NaN among"),
        ((500, '{"error": {"message": "CUDA error"}}'), "fail", "CUDA error"),
        ((400, '{"error": {"message": "logprobs are not supported"}}'), "not_run", "logprobs are not supported"),
        ((400, '{"error": {"message": "max_tokens is too large"}}'), "fail", "probe_rejected"),
        ((200, json.dumps({"choices": [{"message": {"content": "one"}}]})), "not_run", "gives no log probabilities"),
    ],
)
def test_answers_without_numbers(endpoint: Endpoint, answer: tuple[int, str], status: str, said: str) -> None:
    check = logprobs.run(prepared(endpoint, lambda exchange: exchange.send(*answer)))
    assert check.status == status
    assert said in check.evidence[0]


def test_an_engine_that_is_gone_ends_it(endpoint: Endpoint) -> None:
    with pytest.raises(EndpointError, match="503"):
        logprobs.run(prepared(endpoint, lambda exchange: exchange.send(503, "")))


def test_once_more_after_long_prompts(endpoint: Endpoint) -> None:
    chat = Chat()
    asked = prepared(endpoint, chat)
    assert logprobs.run(asked).status == "pass"
    without = logprobs.run_after(asked)
    assert without.status == "not_run"
    assert "no long prompt" in without.evidence[0]
    asked.metrics["longest_prompt_tokens"] = 4096
    after = logprobs.run_after(asked)
    assert (after.name, after.status) == ("logprobs_after", "pass")
    assert after.evidence[-1] == "after a prompt of 4096 tokens"
    assert len(chat.bodies) == 2
    chat.answer = payload(entry(value=math.nan))
    assert logprobs.run_after(asked).status == "fail"


@pytest.mark.parametrize(("after", "status"), [(3, "pass"), (5, "fail")])
def test_the_engines_own_count_of_nan(endpoint: Endpoint, after: int, status: str) -> None:
    chat = Chat()
    chat.corrupted = 3
    asked = prepared(endpoint, chat)
    assert logprobs.run(asked).status == "pass"
    assert asked.metrics["corrupted_requests"] == 3
    asked.metrics["longest_prompt_tokens"] = 4096
    chat.corrupted = after
    check = logprobs.run_after(asked)
    assert check.status == status
    assert asked.metrics["corrupted_requests"] == after
    assert ("vllm:corrupted_requests has risen by 2" in check.evidence[0]) == (status == "fail")


entries_of_a_healthy_engine = st.lists(
    st.lists(st.floats(-3, 0), min_size=1, max_size=5).map(lambda values: sorted(values, reverse=True)),
    min_size=1,
    max_size=8,
)


@given(entries_of_a_healthy_engine)
def test_the_mean_alone_decides_on_sound_entries(values: list[list[float]]) -> None:
    entries = [entry("t0", best[0], **{f"t{n}": value for n, value in enumerate(best[1:], 1)}) for best in values]
    average, problem = logprobs.judge(Answer(logprobs=entries, completion_tokens=len(entries)), -1.5)
    assert average == pytest.approx(sum(best[0] for best in values) / len(values), abs=1e-4)
    assert average is not None
    assert (problem is None) == (average >= -1.5)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"prompt": " "}, "logprobs.prompt"),
        ({"max_tokens": 0}, "logprobs.max_tokens"),
        ({"min_mean_logprob": 0.0}, "logprobs.min_mean_logprob"),
        ({"min_mean_logprob": math.nan}, "logprobs.min_mean_logprob"),
        ({"mean": -1}, "unknown key 'mean'"),
    ],
)
def test_sections_that_are_not_usable(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ServingError, match=said):
        logprobs.read(section, "questions.logprobs")
