# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, battery, questions
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.battery import Plan
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import ready
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.readiness import Limits
from simulation.endpoint.server import QUESTIONS, Endpoint, Exchange

SERVED = ready.Served("kimi", 8192)


def context(endpoint: Endpoint) -> Context:
    return Context(Client(address.parse(endpoint.url)), questions.load(QUESTIONS))


def first_slow(exchange: Exchange) -> bool:
    if exchange.path.endswith("/completions") and exchange.number == 1:
        time.sleep(1.0)
    return exchange.path == "/health" and exchange.send(200, "")


def test_the_first_request_has_its_own_limit_and_time() -> None:
    with Endpoint(fault=first_slow).running() as endpoint:
        asked = context(endpoint)
        asked.request_timeout = 0.8
        check = ready.run(asked, SERVED, expected_max_model_len=8192, warmup_timeout=9)
        assert check.status == "pass"
        assert asked.metrics["first_request_s"] >= 1.0
        began = time.monotonic()
        asked.ask("again", [{"role": "user", "content": "What is 17*23?"}], max_tokens=8)
        assert time.monotonic() - began < 0.8


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("", "warmup_timeout: no answer within"),
        ("vllm:generation_tokens_total 7\n", "no_progress: the engine generated no token meanwhile"),
        ("vllm:generation_tokens_total 7\n", "/health says 200 all the same"),
    ],
)
def test_a_first_request_without_end_is_a_timeout_of_the_warm_up(metrics: str, said: str) -> None:
    with Endpoint(fault=first_slow, metrics=lambda: metrics).running() as endpoint:
        with pytest.raises(EndpointError) as caught:
            ready.run(context(endpoint), SERVED, expected_max_model_len=None, warmup_timeout=0.2)
        assert said in caught.value.message
        assert caught.value.kind == "timeout"


def refuses(words: str, status: int = 400) -> Callable[[Exchange], bool]:
    body = f'{{"error": {{"message": "{words}"}}}}'
    return lambda exchange: exchange.path.endswith("/completions") and exchange.send(status, body)


@pytest.mark.parametrize(
    ("fault", "state", "said"),
    [
        (refuses("No user query found in messages."), "generation_failed", "probe_rejected: HTTP 400: No user query"),
        (refuses("max_tokens is too large: 64"), "generation_failed", "probe_rejected: HTTP 400: max_tokens"),
        (refuses("The model `kimi` does not exist.", 404), "wrong_model", "wrong_model: HTTP 404"),
    ],
)
def test_a_refused_request_is_no_health_and_not_repeated(
    fault: Callable[[Exchange], bool], state: str, said: str
) -> None:
    with Endpoint(fault=fault).running() as endpoint:
        report = battery.examine(context(endpoint), Plan(Limits(0, 0, 9, 0.01), checks=["ready"]))
        assert report.state == state
        assert said in report.checks[0].evidence[0]
        assert [path for path, _headers in endpoint.seen].count("/v1/chat/completions") == 1
