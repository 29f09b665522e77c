# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import length_sweep
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks.length_sweep import ranges
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.garbage import longest_run, unstable
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.raw import Completion
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given
from hypothesis import strategies as st
from simulation.endpoint.server import Endpoint, Exchange
from simulation.endpoint.tokens import Prompt, Tokens, context

SMALLEST = 16  # <user>, a paragraph, ten words of the instruction, four tokens of the template
LENGTHS = [1, 5, 9, 16, 31, 64, 65, 129, 257, 1025]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


def prepared(endpoint: Endpoint, tokens: Tokens | None, seed: int = 0, **options: Any) -> Context:
    section = {"lengths": LENGTHS, "quick_lengths": [5, 65], **options.pop("section", {})}
    endpoint.fault = tokens or endpoint.fault
    return context(endpoint, "length_sweep", length_sweep.read(section, "questions.length_sweep"), seed, **options)


def run(endpoint: Endpoint, tokens: Tokens | None, seed: int = 0, **options: Any) -> Check:
    return length_sweep.run(prepared(endpoint, tokens, seed, **options))


def garbage_at(*lengths: int) -> Tokens:
    return Tokens(answer=lambda prompt: "olvas qua" if len(prompt.ids) in lengths else "Paris")


def test_every_length_is_right(endpoint: Endpoint) -> None:
    tokens = Tokens()
    asked = prepared(endpoint, tokens)
    check = length_sweep.run(asked)
    assert (check.status, check.value, check.threshold) == ("pass", 10, 10)
    assert check.evidence == [
        "right at 1, 5, 9, 16, 31, 64..65, 129, 257, 1025 tokens",
        "too short for the question, so only looked at for garbage: 1, 5, 9",
    ]
    assert asked.metrics["longest_prompt_tokens"] == 1025
    # exactly so long, each under a salt of its own, the short ones twice
    assert Counter(len(prompt.ids) for prompt in tokens.prompts) == {
        length: 2 if length < SMALLEST else 1 for length in LENGTHS
    }
    assert len({prompt.body["cache_salt"] for prompt in tokens.prompts}) == len(tokens.prompts)
    assert all(prompt.reused == 0 for prompt in tokens.prompts)
    whole = tokens.prompts[-1].text
    assert whole.startswith("<user> ")
    assert whole.endswith("Answer with one word. <end> <assistant> <think> </think>")
    five = next(prompt.text for prompt in tokens.prompts if len(prompt.ids) == 5)
    assert five == "word. <end> <assistant> <think> </think>"


def test_fillers_do_not_begin_alike(endpoint: Endpoint) -> None:
    tokens = Tokens()
    run(endpoint, tokens, section={"lengths": list(range(500, 520))})
    starts = [tuple(prompt.ids[:8]) for prompt in tokens.prompts]
    assert len(set(starts)) == len(starts) == 20


def test_wrong_lengths_are_named(endpoint: Endpoint) -> None:
    check = run(endpoint, garbage_at(64, 65, 257))
    assert (check.status, check.value, check.threshold) == ("fail", 7, 10)
    assert check.evidence[:2] == [
        "wrong at 64..65, 257 tokens",
        r"64 tokens: expected /(?i)^\W*paris\b/, came 'olvas qua'",
    ]


def test_the_quick_profile_asks_less(endpoint: Endpoint) -> None:
    check = run(endpoint, garbage_at(65), full=False)
    assert (check.status, check.value, check.threshold) == ("fail", 1, 2)


def test_lengths_above_the_context_are_left_out(endpoint: Endpoint) -> None:
    endpoint.max_model_len = 264
    assert run(endpoint, Tokens()).threshold == 8
    endpoint.max_model_len = 265
    check = run(endpoint, Tokens())
    assert (check.status, check.threshold) == ("pass", 9)
    assert check.evidence[-1] == "left out, longer than max_model_len 265 allows: 1025"
    check = run(endpoint, Tokens(), section={"lengths": [300, 301]})
    assert check.status == "not_run"
    assert check.evidence == ["left out, longer than max_model_len 265 allows: 300..301"]


def test_a_server_without_tokenize(endpoint: Endpoint) -> None:
    check = run(endpoint, None)
    assert check.status == "not_run"
    assert "404" in check.evidence[0]


def test_a_server_without_completions(endpoint: Endpoint) -> None:
    def tamper(exchange: Exchange, _prompt: Prompt, _payload: dict[str, Any]) -> None:
        exchange.send(404, '{"detail": "Not Found"}')

    assert run(endpoint, Tokens(tamper=tamper)).status == "not_run"


@pytest.mark.parametrize(("difference", "said"), [(1, "added"), (-3, "cut off")])
def test_a_server_that_works_on_another_prompt(endpoint: Endpoint, difference: int, said: str) -> None:
    def tamper(_exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any]:
        payload["usage"]["prompt_tokens"] = len(prompt.ids) + difference
        return payload

    check = run(endpoint, Tokens(tamper=tamper))
    assert (check.status, check.value) == ("fail", 0)
    assert f"usage.prompt_tokens is {1 + difference}: tokens were {said}" in check.evidence[1]


def test_usage_that_is_missing_is_not_judged(endpoint: Endpoint) -> None:
    tokens = Tokens(tamper=lambda _exchange, _prompt, payload: {"choices": payload["choices"]})
    assert run(endpoint, tokens).status == "pass"


def at_five(tokens: Tokens, change: Any) -> Tokens:
    """The fifth of the short prompts' lengths breaks, the others do not."""

    def tamper(exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any] | None:
        if len(prompt.ids) != 5:
            return payload
        changed: dict[str, Any] | None = change(exchange, prompt, payload)
        return changed

    tokens.tamper = tamper
    return tokens


def nan(_exchange: Exchange, _prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any]:
    payload["choices"][0]["logprobs"]["token_logprobs"][0] = math.nan
    return payload


def bangs(_exchange: Exchange, _prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any]:
    payload["choices"][0]["text"] = "so" + "!" * 16
    return payload


def other_token(_exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any]:
    payload["choices"][0]["logprobs"]["tokens"] = [f"word {prompt.number}"]
    payload["choices"][0]["logprobs"]["top_logprobs"] = [{f"word {prompt.number}": -0.1}]
    return payload


def refused(exchange: Exchange, _prompt: Prompt, _payload: dict[str, Any]) -> None:
    exchange.send(500, '{"error": {"message": "Out of range float values are not JSON compliant: nan"}}')


def broken(exchange: Exchange, _prompt: Prompt, _payload: dict[str, Any]) -> None:
    exchange.send(500, '{"error": {"message": "CUDA error"}}')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (nan, "log probabilities that are no numbers"),
        (bangs, "a run of 16 equal characters"),
        (other_token, "the first token is ['word 3'], then ['word 4']"),
        (refused, "NaN: server_error"),
        (broken, "server_error: HTTP 500: CUDA error"),
    ],
)
def test_garbage_after_five_tokens(endpoint: Endpoint, change: Any, said: str) -> None:
    check = run(endpoint, at_five(Tokens(), change))
    assert (check.status, check.value, check.threshold) == ("fail", 9, 10)
    assert check.evidence[0] == "wrong at 5 tokens"
    assert said in check.evidence[1]


def test_a_server_that_gives_no_log_probabilities(endpoint: Endpoint) -> None:
    def tamper(exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any] | None:
        if "logprobs" not in prompt.body:
            return payload
        exchange.send(400, '{"error": {"message": "Requested sample logprobs of 5, more than allowed: 0"}}')
        return None

    tokens = Tokens(tamper=tamper)
    check = run(endpoint, tokens)
    assert check.status == "pass"
    assert "without log probabilities, because HTTP 400" in check.evidence[2]
    assert sum("logprobs" in prompt.body for prompt in tokens.prompts) == 1


def test_an_engine_that_is_gone_ends_it(endpoint: Endpoint) -> None:
    def tamper(exchange: Exchange, _prompt: Prompt, _payload: dict[str, Any]) -> None:
        exchange.send(503, "")

    with pytest.raises(EndpointError, match="503"):
        run(endpoint, Tokens(tamper=tamper))

    def garbage_then_gone(exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any] | None:
        if len(prompt.ids) < 65:
            return payload
        tamper(exchange, prompt, payload)
        return None

    tokens = garbage_at(64)
    tokens.tamper = garbage_then_gone
    with pytest.raises(EndpointError, match="503"):
        run(endpoint, tokens)


def test_an_engine_that_hangs_is_not_waited_for_at_every_length(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(length_sweep, "_TIMEOUTS", 1)

    def tamper(_exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1.5 if len(prompt.ids) > 60 else 0)
        return payload

    tokens = Tokens(tamper=tamper)
    check = run(endpoint, tokens, request_timeout=1.0)
    assert (check.status, check.value, check.threshold) == ("fail", 5, 10)
    assert check.evidence[:2] == ["wrong at 64 tokens", "64 tokens: timeout: no answer within 1 s"]
    assert check.evidence[-1] == "given up at 64 tokens, requests without an answer: 1"
    assert len(tokens.prompts) == 9


def test_time_that_is_up_hides_no_wrong_length(endpoint: Endpoint) -> None:
    asked = prepared(endpoint, garbage_at(16))

    def tamper(_exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any]:
        if len(prompt.ids) == 31:
            asked.deadline = 0.0
        return payload

    assert isinstance(endpoint.fault, Tokens)
    endpoint.fault.tamper = tamper
    check = length_sweep.run(asked)
    assert (check.status, check.value, check.threshold) == ("fail", 4, 10)
    assert check.evidence[-1] == "not asked from 64 tokens on: max_timeout is used up"
    assert asked.metrics["longest_prompt_tokens"] == 31
    with pytest.raises(EndpointError, match="time_is_up"):
        length_sweep.run(asked)


def test_a_context_that_is_not_told(endpoint: Endpoint) -> None:
    def tamper(exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any] | None:
        if len(prompt.ids) <= 128:
            return payload
        exchange.send(400, '{"error": {"message": "maximum context length is 128 tokens"}}')
        return None

    check = run(endpoint, Tokens(tamper=tamper), metrics={})
    assert (check.status, check.value, check.threshold) == ("pass", 7, 10)
    assert check.evidence[-1] == "left out from 129 tokens on: HTTP 400: maximum context length is 128 tokens"
    check = run(endpoint, Tokens(tamper=tamper))
    assert (check.status, check.value, check.threshold) == ("fail", 7, 10)


@given(st.text(alphabet="ab \n", max_size=40))
def test_longest_run(text: str) -> None:
    run = longest_run(text)
    found = [char * length for char in "ab" for length in range(1, 41) if char * length in text]
    assert run == max(map(len, found), default=0)


@given(st.sets(st.integers(1, 40)))
def test_ranges_hold_the_same_numbers(numbers: set[int]) -> None:
    parts = [part.split("..") for part in ranges(sorted(numbers)).split(", ") if part]
    assert {number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)} == numbers


def test_a_tie_is_not_unstable() -> None:
    first = Completion(tokens=["a"], top=[{"a": -0.7, "b": -0.9}])
    second = Completion(tokens=["b"], top=[{"b": -0.75, "a": -0.8}])
    assert not unstable(first, first)
    assert not unstable(first, second)
    assert unstable(first, Completion(tokens=["b"], top=[{"b": -0.1, "a": -2.4}]))
    assert unstable(first, Completion(tokens=["c"], top=[{"c": -0.1}]))
    assert unstable(first, Completion())


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"filler": ["one"]}, "length_sweep.filler"),
        ({"lengths": []}, "length_sweep.lengths"),
        ({"quick_lengths": [0]}, "length_sweep.quick_lengths"),
        ({"expect": "["}, "length_sweep.expect"),
        ({"max_tokens": 0}, "length_sweep.max_tokens"),
        ({"max_tokens": "8"}, "max_tokens has the type str"),
        ({"lenghts": [1]}, "did you mean lengths"),
    ],
)
def test_sections_that_are_not_usable(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ServingError, match=said):
        length_sweep.read(section, "questions.length_sweep")


def test_the_default_section_is_usable() -> None:
    probe = length_sweep.read({}, "questions.length_sweep")
    assert set(range(1, 10)) | {63, 64, 65, 129, 8192} <= set(probe.lengths)
    assert probe.expect.search("Paris.")
    assert not probe.expect.search("It is Paris.")
