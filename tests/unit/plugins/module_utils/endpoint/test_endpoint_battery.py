# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, battery, checks, verdict
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.battery import Plan, Report
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.readiness import Limits
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.endpoint.server import ANSWERS, QUESTIONS, Endpoint, Exchange

# The battery's own work is the same for every check; each check has tests of its own.
NAMES = ("ready", "exact_set", "count", "channels")
PLAN = Plan(Limits(0, 0, 60, 0.01), model="kimi", checks=NAMES, expected_max_model_len=8192)
CHAT = "/v1/chat/completions"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


def examine(endpoint: Endpoint, plan: Plan = PLAN, watch: Any = None, key: str | None = None, **options: Any) -> Report:
    return battery.examine(context_of(endpoint, key=key, **options), plan, watch, sleep=lambda seconds: None)


def context_of(endpoint: Endpoint, asked: Any = QUESTIONS, key: str | None = None, **options: Any) -> Context:
    sections = checks.read_sections({"exact_set": asked})
    return Context(Client(address.parse(endpoint.url), api_key=key), sections["exact_set"], sections, **options)


def statuses(report: Report) -> dict[str, str]:
    return {check.name: check.status for check in report.checks}


def on_chat(fault: Callable[[Exchange], bool]) -> Callable[[Exchange], bool]:
    return lambda exchange: exchange.path == CHAT and fault(exchange)


def test_healthy(endpoint: Endpoint) -> None:
    report = examine(endpoint)
    assert report.problem is None
    assert report.state == "healthy"
    assert statuses(report) == dict.fromkeys(NAMES, "pass")
    assert report.metrics["served_model"] == "kimi"
    assert report.metrics["max_model_len"] == 8192
    assert report.metrics["first_request_s"] > 0
    assert report.metrics["count_tokens_per_s"] > 0
    assert report.metrics["reasoning_field"] == "reasoning"
    assert [answer["name"] for answer in report.answers] == [
        *("ready", "capital", "product", "count"),
        *("channels, thinking on, not streamed", "channels, thinking on, streamed"),
        *("channels, thinking off, not streamed", "channels, thinking off, streamed"),
    ]
    count = report.answers[3]
    assert count["prompt"] == "Count from 1 to 50."
    assert count["content"].endswith("49 50")
    assert count["completion_tokens"] == 51


def test_quick_profile_and_a_model_without_thinking_ask_less(endpoint: Endpoint) -> None:
    assert len(examine(endpoint, full=False).answers) == 6
    endpoint.fault = on_chat(lambda exchange: exchange.answer(ANSWERS[exchange.prompt][1]))
    report = examine(endpoint, full=False, thinking_parameter="")
    assert report.state == "healthy"
    assert len(report.answers) == 5


@pytest.mark.parametrize(
    ("fault", "state", "said"),
    [
        (lambda exchange: exchange.send(401, '{"error": "Unauthorized"}'), "auth_required", "api_key"),
        (lambda exchange: exchange.send(404, '{"detail": "Not Found"}'), "listening", "root of an OpenAI-compatible"),
        (lambda exchange: exchange.send(200, "<html>"), "listening", "not JSON"),
        (lambda exchange: exchange.send(200, "[]"), "listening", "list of models"),
        (lambda exchange: exchange.send(302, "", Location="/login"), "listening", "redirects"),
        (lambda exchange: exchange.send(503, ""), "listening", "503"),
        (lambda exchange: exchange.send(200, '{"data": [{"id": "glm-5"}]}'), "wrong_model", "served ids: glm-5"),
        (lambda exchange: exchange.send(200, '{"data": []}'), "wrong_model", "served ids: none"),
    ],
)
def test_rungs_below_generation(endpoint: Endpoint, fault: Callable[[Exchange], bool], state: str, said: str) -> None:
    endpoint.fault = fault
    report = examine(endpoint)
    assert report.state == state
    assert said in str(report.problem)
    assert statuses(report) == {"ready": "fail", "exact_set": "not_run", "count": "not_run", "channels": "not_run"}


@pytest.mark.parametrize(
    ("fault", "state", "said"),
    [
        (lambda e: e.send(400, '{"error": {"message": "No user query"}}'), "generation_failed", "No user query"),
        (lambda e: e.send(500, '{"error": {"message": "float nan"}}'), "generation_failed", "nan"),
        (lambda e: e.answer("", None, "length"), "generation_failed", "nothing at all in 1 tokens"),
        (lambda e: e.send(404, '{"error": {"message": "The model `a` does not exist."}}'), "wrong_model", "does not"),
    ],
)
def test_generation_that_fails(endpoint: Endpoint, fault: Callable[[Exchange], bool], state: str, said: str) -> None:
    endpoint.fault = on_chat(fault)
    report = examine(endpoint)
    assert report.state == state
    assert said in str(report.problem)
    assert report.failed_checks == ["ready"]
    assert len([path for path, _headers in endpoint.seen if path == CHAT]) == 1


@pytest.mark.parametrize(
    ("fault", "failed", "said"),
    [
        (lambda e: e.answer("Sis", "J4 1 1 1 1" if e.thinking else None), ["exact_set", "count"], "content: 'Sis'"),
        (lambda e: e.answer("!" * 32), ["exact_set", "count", "channels"], "!!!!"),
        (
            lambda e: e.prompt == "Count from 1 to 50." and e.answer("1 2 3 5 8"),
            ["count"],
            "1 2 3 5 8",
        ),
        (
            lambda e: e.thinking and e.answer("User wants 17*23.</think>391"),
            ["exact_set", "channels"],
            "expected /^391$/",
        ),
        (
            lambda e: e.thinking and bool(e.body["stream"]) and e.answer("17*23=391.</think>391"),
            ["channels"],
            "thinking on, streamed: reasoning_not_parsed",
        ),
        (lambda e: not e.thinking and e.answer(ANSWERS[e.prompt][1], "Hm"), ["channels"], "reasoning_unasked"),
        (
            lambda e: bool(e.body["stream"]) and e.answer("391<|tool_calls_section_begin|>", "x"),
            ["channels"],
            "special_token_leaked",
        ),
        (lambda e: e.thinking and e.answer("391"), ["channels"], "reasoning_missing"),
        (
            lambda e: bool(e.body["stream"]) and e.stream('data: {"error": {"message": "EngineCore died"}}\n\n'),
            ["channels"],
            "thinking off, streamed: stream_error: EngineCore died",
        ),
        (
            lambda e: e.prompt == "What is 17*23?" and e.send(500, '{"error": {"message": "nan"}}'),
            ["exact_set", "channels"],
            "product: server_error: HTTP 500: nan",
        ),
        (
            lambda e: e.thinking and e.answer(None, "I think", "length"),
            ["exact_set", "channels"],
            "token budget went into reasoning",
        ),
    ],
)
def test_faults_are_found(endpoint: Endpoint, fault: Callable[[Exchange], bool], failed: list[str], said: str) -> None:
    endpoint.fault = on_chat(fault)
    report = examine(endpoint)
    assert report.failed_checks == failed
    assert report.state == "generating"
    assert any(said in evidence for check in report.checks for evidence in check.evidence)


def test_streamed_text_that_differs_is_inconclusive(endpoint: Endpoint) -> None:
    endpoint.fault = on_chat(lambda e: bool(e.body["stream"]) and not e.thinking and e.answer("It is 391"))
    report = examine(endpoint)
    assert statuses(report)["channels"] == "inconclusive"
    assert report.state == "degraded"


def test_thinking_that_needs_more_tokens_passes_and_shows_both_tries(endpoint: Endpoint) -> None:
    endpoint.fault = on_chat(
        lambda e: e.thinking and e.body["max_tokens"] <= 2048 and e.answer(None, "Long thoughts", "length")
    )
    report = examine(endpoint)
    assert report.state == "healthy"
    assert any("budget_retry" in evidence for evidence in report.checks[-1].evidence)
    assert [a["content"] for a in report.answers if a["name"] == "product"] == ["", "391"]


def test_length_is_part_of_the_expectation(endpoint: Endpoint) -> None:
    endpoint.max_model_len = 4096
    report = examine(endpoint)
    assert report.failed_checks == ["ready"]
    assert report.state == "generating"
    assert "max_model_len is 4096, expected 8192" in report.checks[0].evidence


def test_nine_of_ten_is_inconclusive_and_allowed_not_run_is_healthy(endpoint: Endpoint) -> None:
    ten = [QUESTIONS[0]] * 9 + [QUESTIONS[0] | {"expect": "Lyon"}]
    plan = replace(PLAN, checks=["ready", "exact_set"])
    report = battery.examine(context_of(endpoint, ten), plan)
    assert (report.checks[1].status, report.checks[1].value, report.checks[1].threshold) == ("inconclusive", 9, 10)
    assert report.state == "degraded"


def test_time_that_is_up_leaves_checks_not_run(endpoint: Endpoint) -> None:
    def slow(exchange: Exchange) -> bool:
        time.sleep(1.2 if exchange.prompt.startswith("Count") else 0)
        return False

    endpoint.fault = on_chat(slow)
    report = examine(endpoint, deadline=time.monotonic() + 1.0)
    assert statuses(report)["count"] == "fail"
    assert statuses(report)["channels"] == "not_run"
    allowed = verdict.state_of_checks(report.checks[:2] + report.checks[3:], ["channels"])
    assert allowed == "healthy"


def test_busy_server_is_not_broken(endpoint: Endpoint) -> None:
    readings = iter(range(1000, 9000, 1000))
    endpoint.metrics = lambda: f'vllm:num_requests_running{{e="0"}} 64\nvllm:generation_tokens_total {next(readings)}\n'

    def first_two_hang(exchange: Exchange) -> bool:
        if exchange.number <= 2:
            time.sleep(0.8)
        return False

    endpoint.fault = on_chat(first_two_hang)
    report = examine(endpoint, replace(PLAN, checks=["ready"], warmup_timeout=0.5))
    assert report.state == "healthy"
    assert len([line for line in report.checks[0].evidence if "busy" in line]) == 2


def test_hanging_server_fails_although_it_is_listening(endpoint: Endpoint) -> None:
    endpoint.metrics = lambda: "vllm:num_requests_running 64\nvllm:generation_tokens_total 1000\n"

    def hang(exchange: Exchange) -> bool:
        time.sleep(0.3)
        return False

    endpoint.fault = on_chat(hang)
    report = examine(endpoint, replace(PLAN, warmup_timeout=0.2))
    assert report.state == "generation_failed"
    assert "no answer within" in str(report.problem)


class Watch:
    """A unit that lives until told otherwise."""

    def __init__(self, owner: ServingError | str | None = None, cause: Any = None) -> None:
        self.owner = owner
        self.reason = cause
        self.death: ServingError | None = None

    def look(self) -> Any:
        raise AssertionError("nobody waits")

    def stalled(self, seen: Any, seconds: float) -> ServingError:
        raise AssertionError("nobody waits")

    def check_alive(self) -> None:
        if self.death:
            raise self.death

    def check_owner(self, port: int) -> str | None:
        if isinstance(self.owner, ServingError):
            raise self.owner
        return self.owner

    def cause(self) -> Any:
        return self.reason


class Cause:
    def as_result(self) -> dict[str, str]:
        return {"class": "engine_error", "message": "RuntimeError: found Float8_e4m3fn", "hint": "Use bfloat16"}


@pytest.mark.parametrize("status", [200, 401, 404, 503])
def test_another_owner_of_the_port(endpoint: Endpoint, status: int) -> None:
    endpoint.fault = lambda exchange: status != 200 and exchange.send(status, "{}")
    stranger = ServingError("another process owns the port", facts={"listener_pid": 9})
    report = examine(endpoint, replace(PLAN, owned_port=endpoint.port), Watch(stranger))
    assert report.state == "wrong_model"
    assert report.problem is stranger


def test_owner_that_cannot_be_seen_is_not_proven(endpoint: Endpoint) -> None:
    report = examine(endpoint, replace(PLAN, owned_port=endpoint.port), Watch("the owner may not be seen"))
    assert statuses(report)["ready"] == "inconclusive"
    assert report.state == "degraded"


def test_failed_generation_names_the_engines_reason(endpoint: Endpoint) -> None:
    endpoint.fault = on_chat(lambda exchange: exchange.send(500, '{"error": {"message": "internal"}}'))
    report = examine(endpoint, watch=Watch(cause=Cause()))
    assert report.state == "generation_failed"
    assert "the engine says: RuntimeError: found Float8_e4m3fn" in str(report.problem)
    assert report.problem is not None
    assert report.problem.facts["root_cause"] == Cause().as_result()


def test_unit_that_dies_during_the_battery_ends_it(endpoint: Endpoint) -> None:
    watch = Watch()
    death = ServingError("the unit's process died")

    def die(exchange: Exchange) -> bool:
        if exchange.prompt.startswith("Count"):
            watch.death = death
            exchange.handler.connection.close()
            return True
        return False

    endpoint.fault = on_chat(die)
    report = examine(endpoint, watch=watch)
    assert statuses(report) == {"ready": "pass", "exact_set": "pass", "count": "fail", "channels": "not_run"}
    assert report.state == "generation_failed"
    assert report.problem is death
