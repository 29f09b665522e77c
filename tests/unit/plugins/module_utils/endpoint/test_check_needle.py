# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import needle
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given
from hypothesis import strategies as st
from simulation.endpoint.server import Endpoint, Exchange
from simulation.endpoint.tokens import context

SECTION = {"lengths": [1000, 2000], "codes": ["HERON", "AMBER-HERON", "FALCON"]}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


class Reader:
    """Reads a share of the words of its prompt, and says the code that is among them. A word is a token."""

    def __init__(self, begin: float = 0.0, end: float = 0.0, says: str = "{code}") -> None:
        self.begin, self.end, self.says = begin, end, says
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, exchange: Exchange) -> bool:
        if exchange.path != "/v1/chat/completions":
            return False
        self.bodies.append(exchange.body)
        words = exchange.prompt.split()
        read = [word for at, word in enumerate(words) if not self.begin <= at / len(words) < self.end]
        found = re.search(r"The secret code is (\S+)\.", " ".join(read))
        usage = {"prompt_tokens": len(words), "completion_tokens": 2}
        return exchange.answer(self.says.replace("{code}", found[1]) if found else "I see none.", usage=usage)


def prepared(endpoint: Endpoint, fault: Callable[[Exchange], bool] | None, **options: Any) -> Context:
    endpoint.fault = fault
    probe = needle.read({**SECTION, **options.pop("section", {})}, "questions.needle")
    return context(endpoint, "needle", probe, **options)


def run(endpoint: Endpoint, fault: Callable[[Exchange], bool] | None, **options: Any) -> Check:
    return needle.run(prepared(endpoint, fault, **options))


def test_every_needle_is_found(endpoint: Endpoint) -> None:
    reader = Reader(says="The code is {code}.")
    asked = prepared(endpoint, reader)
    check = needle.run(asked)
    assert (check.status, check.value, check.threshold) == ("pass", 6, 6)
    assert check.evidence[0].startswith("1000 tokens, depth 10% (1015 counted): ")
    assert asked.metrics["longest_prompt_tokens"] == 2015
    assert [answer["name"] for answer in asked.answers][-1] == "needle, 2000 tokens, depth 90%"
    measured, *bodies = reader.bodies
    assert measured["max_tokens"] == 1
    assert len({body["cache_salt"] for body in bodies}) == 6
    prompts = [body["messages"][0]["content"] for body in bodies]
    places = [prompt.split().index("secret") / len(prompt.split()) for prompt in prompts]
    assert places == pytest.approx([0.1, 0.5, 0.9] * 2, abs=0.02)
    assert all(prompt.endswith(f"\n\n{needle.DEFAULT['ask']}") for prompt in prompts)
    assert len({prompt[:200] for prompt in prompts}) == 6


def test_a_middle_that_is_not_read(endpoint: Endpoint) -> None:
    check = run(endpoint, Reader(0.3, 0.7))
    assert (check.status, check.value, check.threshold) == ("fail", 4, 6)
    assert [line.split(" (")[0] for line in check.evidence[:2]] == [
        "1000 tokens, depth 50%",
        "2000 tokens, depth 50%",
    ]
    assert "content: 'I see none.'" in check.evidence[0]


@pytest.mark.parametrize("says", ["HERON", "HERON, AMBER-HERON or FALCON", "FALCONS", "olvas qua"])
def test_other_answers_than_the_code(endpoint: Endpoint, says: str) -> None:
    check = run(endpoint, Reader(says=says), section={"codes": ["AMBER-HERON", "HERON", "FALCON"]}, seed=4)
    assert check.status == "fail"


def test_the_quick_profile_hides_one(endpoint: Endpoint) -> None:
    check = run(endpoint, Reader(), full=False)
    assert (check.status, check.value, check.threshold) == ("pass", 1, 1)
    assert check.evidence[0].startswith("1000 tokens")


def test_lengths_above_the_context(endpoint: Endpoint) -> None:
    endpoint.max_model_len = 2060
    check = run(endpoint, Reader())
    assert (check.status, check.threshold) == ("pass", 3)
    assert check.evidence[-1] == "left out, longer than max_model_len 2060 allows: 2000"
    endpoint.max_model_len = 600
    reader = Reader()
    check = run(endpoint, reader)
    assert check.status == "not_run"
    assert check.evidence == ["left out, longer than max_model_len 600 allows: 1000, 2000"]
    assert reader.bodies == []


@pytest.mark.parametrize(("known", "status"), [({"max_model_len": 8192}, "fail"), ({}, "pass")])
def test_a_prompt_that_is_refused(endpoint: Endpoint, known: dict[str, int], status: str) -> None:
    reader = Reader()

    def fault(exchange: Exchange) -> bool:
        if len(exchange.prompt.split()) < 1500:
            return reader(exchange)
        return exchange.send(400, '{"error": {"message": "maximum context length is 1500 tokens"}}')

    check = run(endpoint, fault, metrics=known)
    assert (check.status, check.value, check.threshold) == (status, 3, 6 if status == "fail" else 3)
    assert any("maximum context length" in line for line in check.evidence)
    everything = run(endpoint, lambda e: (len(e.prompt.split()) > 500 and e.send(400, "{}")) or reader(e), metrics={})
    assert everything.status == "not_run"


def test_a_budget_spent_on_thinking_is_no_loss(endpoint: Endpoint) -> None:
    def fault(exchange: Exchange) -> bool:
        return exchange.answer(None, "The user asks", "length", usage={"prompt_tokens": 400, "completion_tokens": 8})

    check = run(endpoint, fault, full=False)
    assert (check.status, check.value, check.threshold) == ("inconclusive", 0, 1)


def test_a_server_that_fails_on_long_prompts(endpoint: Endpoint) -> None:
    reader = Reader()
    check = run(endpoint, lambda e: (len(e.prompt.split()) > 1500 and e.send(500, "{}")) or reader(e))
    assert (check.status, check.value, check.threshold) == ("fail", 3, 6)
    blind = Reader(0.05, 0.95)
    with pytest.raises(EndpointError, match="503"):
        run(endpoint, lambda e: (len(e.prompt.split()) > 1500 and e.send(503, "")) or blind(e))
    with pytest.raises(EndpointError, match="503"):
        run(endpoint, lambda e: (len(e.prompt.split()) > 1500 and e.send(503, "")) or reader(e))


def test_an_engine_that_hangs_is_not_waited_for_at_every_needle(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needle, "_TIMEOUTS", 1)
    reader = Reader()

    def fault(exchange: Exchange) -> bool:
        time.sleep(1.5 if len(exchange.prompt.split()) > 500 else 0)
        return reader(exchange)

    check = run(endpoint, fault, request_timeout=1.0)
    assert (check.status, check.value, check.threshold) == ("fail", 0, 1)
    assert check.evidence[-1] == "given up, requests without an answer: 1"


def test_time_that_is_up_hides_no_lost_needle(endpoint: Endpoint) -> None:
    reader = Reader(0.3, 0.7)
    asked = prepared(endpoint, None)

    def fault(exchange: Exchange) -> bool:
        if len(reader.bodies) == 2:
            asked.deadline = 0.0
        return reader(exchange)

    endpoint.fault = fault
    check = needle.run(asked)
    assert (check.status, check.value, check.threshold) == ("fail", 1, 2)
    assert check.evidence[-1] == "not asked from 1000 tokens, depth 90% on: max_timeout is used up"
    with pytest.raises(EndpointError, match="time_is_up"):
        needle.run(asked)


def test_a_server_that_counts_no_tokens(endpoint: Endpoint) -> None:
    check = run(endpoint, lambda exchange: exchange.answer("x", usage={}))
    assert check.status == "not_run"
    assert "usage.prompt_tokens" in check.evidence[0]


@given(st.integers(1, 60), st.floats(0, 1))
def test_the_needle_is_whole_at_any_depth(words: int, depth: float) -> None:
    probe = needle.read(SECTION, "questions.needle")
    given_words = " ".join(f"w{number}" for number in range(words))
    prompt = probe.prompt(given_words, depth, "HERON")
    assert "The secret code is HERON." in prompt.split("\n\n")
    assert re.findall(r"\bw\d+\b", prompt) == given_words.split(" ")


def test_names_of_codes() -> None:
    probe = needle.read(SECTION, "questions.needle")
    assert probe.named("It is AMBER-HERON.") == {"AMBER-HERON"}
    assert probe.named("HERON") == {"HERON"}
    assert probe.named("HERONS or heron") == set()
    assert probe.named("FALCON, HERON") == {"FALCON", "HERON"}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"sentence": "The code is a secret."}, "sentence is not usable"),
        ({"ask": ""}, "ask is not usable"),
        ({"codes": ["ONE"]}, "codes is not usable"),
        ({"depths": [0.5, 50]}, "depths is not usable"),
        ({"depths": []}, "depths is not usable"),
        ({"lengths": [1.5]}, "lengths is not usable"),
        ({"max_tokens": -1}, "max_tokens is not usable"),
        ({"length": [1]}, "did you mean lengths"),
    ],
)
def test_sections_that_are_not_usable(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ServingError, match=said):
        needle.read(section, "questions.needle")


def test_the_default_section_is_usable() -> None:
    probe = needle.read({}, "questions.needle")
    assert len(set(probe.codes)) == 100
    assert probe.lengths == (30000, 60000, 120000)
