# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, failure, metrics, raw
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.raw import Untokenized
from hypothesis import given
from hypothesis import strategies as st
from simulation.endpoint.server import Endpoint, Exchange
from simulation.endpoint.tokens import Tokens

MESSAGES = [{"role": "user", "content": "one two"}]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


def client(endpoint: Endpoint) -> Client:
    return Client(address.parse(endpoint.url))


def test_ids_of_a_text_and_of_a_chat(endpoint: Endpoint) -> None:
    tokens = Tokens()
    endpoint.fault = tokens
    assert tokens.decode(raw.tokenize_text(client(endpoint), "kimi", "one two", timeout=5)) == "one two"
    for template, end in (({"thinking": False}, "<think> </think>"), ({}, "<think>")):
        ids = raw.tokenize_chat(client(endpoint), "kimi", MESSAGES, template, timeout=5)
        assert tokens.decode(ids) == f"<user> one two <end> <assistant> {end}"


@pytest.mark.parametrize(
    "answer",
    [
        (404, '{"detail": "Not Found"}'),
        (400, '{"error": {"message": "prompt: field required"}}'),
        (200, '{"ids": []}'),
        (200, '{"tokens": [true]}'),
        (200, "<html>"),
    ],
)
def test_a_server_that_tells_no_ids(endpoint: Endpoint, answer: tuple[int, str]) -> None:
    endpoint.fault = lambda exchange: exchange.send(*answer)
    with pytest.raises(Untokenized) as caught:
        raw.tokenize_chat(client(endpoint), "kimi", MESSAGES, {}, timeout=5)
    assert raw.lacks(caught.value)


@pytest.mark.parametrize("answer", [(500, "{}"), (401, "{}"), (404, '{"message": "The model `x` does not exist."}')])
def test_a_server_that_fails_to_tell_ids_is_another_matter(endpoint: Endpoint, answer: tuple[int, str]) -> None:
    endpoint.fault = lambda exchange: exchange.send(*answer)
    with pytest.raises(EndpointError) as caught:
        raw.tokenize_text(client(endpoint), "kimi", "one", timeout=5)
    assert not raw.lacks(caught.value)


def test_completion_of_ids(endpoint: Endpoint) -> None:
    tokens = Tokens(tells_cached=True)
    endpoint.fault = tokens
    ids = tokens.encode("the capital")
    found = raw.complete(client(endpoint), "kimi", ids, max_tokens=3, timeout=5, cache_salt="a", logprobs=2)
    assert found == raw.Completion("Paris", "stop", 2, 1, 0, ["Paris"], [-0.01], [{"Paris": -0.01, "other": -4.6}])
    assert tokens.prompts[0].body == {
        "model": "kimi",
        "prompt": ids,
        "max_tokens": 3,
        "temperature": 0,
        "seed": 0,
        "cache_salt": "a",
        "logprobs": 2,
    }
    raw.complete(client(endpoint), "kimi", ids, max_tokens=3, timeout=5, cache_salt="a")
    assert "logprobs" not in tokens.prompts[1].body


def test_numbers_that_are_none_are_nan() -> None:
    held = {"tokens": ["a", "b"], "token_logprobs": [None, True, 10**400], "top_logprobs": [None, {"b": None}]}
    found = raw.read_completion({"choices": [{"text": "ab", "logprobs": held}]})
    assert [math.isfinite(value) for value in found.logprobs] == [False, False, False]
    assert found.top[0] == {}
    assert math.isnan(found.top[1]["b"])
    assert (found.prompt_tokens, found.cached_tokens) == (None, None)


@pytest.mark.parametrize("payload", [None, [], {}, {"choices": []}, {"choices": [1]}, {"choices": [{"text": None}]}])
def test_no_completion(payload: Any) -> None:
    with pytest.raises(EndpointError, match=r"no choices\[0\]\.text"):
        raw.read_completion(payload)


names = st.sampled_from(("tokens", "token_logprobs", "top_logprobs", "prompt_tokens", "prompt_tokens_details", "x"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_any_json_is_read_or_refused(logprobs: Any, usage: Any) -> None:
    payload = json.loads(json.dumps({"choices": [{"text": "a", "logprobs": logprobs}], "usage": usage}))
    assert raw.read_completion(payload).text == "a"


def test_kinds_of_refusal() -> None:
    refused = EndpointError(failure.REJECTED, "HTTP 400: Requested sample logprobs of 5, the most is 0", status=400)
    assert raw.refuses_logprobs(refused)
    assert not raw.says_nan(refused)
    nan = EndpointError(failure.SERVER_ERROR, "Out of range float values are not JSON compliant: nan", status=500)
    assert raw.says_nan(nan)
    assert not raw.refuses_logprobs(nan)
    assert not raw.says_nan(EndpointError(failure.SERVER_ERROR, "finance"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", metrics.Counters()),
        (
            'vllm:prefix_cache_hits_total{engine="0"} 3\nvllm:prefix_cache_hits_total{engine="1"} 4.0\n'
            'vllm:prefix_cache_hits_created{engine="0"} 1.7e9\nvllm:external_prefix_cache_hits_total 9\n'
            "vllm:prefix_cache_queries_total 10\nvllm:num_preemptions_total 2\nvllm:corrupted_requests_total 1\n"
            'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0"} 1.0',
            metrics.Counters(7, 10, 2, 1, True),
        ),
        (
            "# HELP x\nvllm:gpu_prefix_cache_hits 5\nvllm:gpu_prefix_cache_queries 6\n"
            'vllm:cache_config_info{enable_prefix_caching="False"} 1.0',
            metrics.Counters(5, 6, None, None, False),
        ),
        ("sglang:cached_tokens_total 5\nsglang:prompt_tokens_total 6", metrics.Counters(5, 6)),
    ],
)
def test_counters_of_several_releases(text: str, expected: metrics.Counters) -> None:
    assert metrics.counters(text) == expected


def test_counters_that_cannot_be_read(endpoint: Endpoint) -> None:
    endpoint.fault = lambda exchange: exchange.send(404, "")
    assert metrics.read_counters(client(endpoint), timeout=5) is None
    endpoint.fault = Tokens()
    assert metrics.read_counters(client(endpoint), timeout=5) == metrics.Counters(0, 0, prefix_caching=True)


def test_an_exchange_of_another_path_is_left_alone(endpoint: Endpoint) -> None:
    def fault(exchange: Exchange) -> bool:
        return Tokens()(exchange)

    endpoint.fault = fault
    assert client(endpoint).get_json("/v1/models", timeout=5)["data"][0]["id"] == "kimi"
