# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import battery, checks
from ansible_collections.blackwell.serving.plugins.module_utils.engine import listener
from ansible_collections.blackwell.serving.plugins.module_utils.engine.listener import Listener
from simulation.endpoint.server import QUESTIONS, Endpoint, Exchange
from simulation.endpoint.unit import tell

NAMES = ["ready", "exact_set", "count", "channels"]
ASKED = {"questions": QUESTIONS, "checks": NAMES}
RunModule = Callable[..., dict[str, Any]]

LOGS = Path(__file__).parents[2] / "data" / "engine_logs"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def closed_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def own_the_port(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    monkeypatch.setattr(listener, "find", lambda port, **options: Listener(port, 77, unit))


def test_healthy_endpoint(run_module: RunModule, endpoint: Endpoint) -> None:
    arguments = {"base_url": endpoint.url, "model": "kimi", "expected_max_model_len": 8192, **ASKED}
    result = run_module("vllm_healthcheck", arguments)
    assert (result["state"], result["changed"], result["failed_checks"]) == ("healthy", False, [])
    assert [check["status"] for check in result["checks"]] == ["pass"] * 4
    predicted = run_module("vllm_healthcheck", arguments, check=True)
    assert predicted["state"] == "healthy"


def test_wrong_answers_fail_the_task_with_the_evidence(run_module: RunModule, endpoint: Endpoint) -> None:
    endpoint.fault = lambda exchange: exchange.path.endswith("completions") and exchange.answer("Sis")
    result = run_module("vllm_healthcheck", {"base_url": endpoint.url, **ASKED})
    assert result["failed"] is True
    assert result["state"] == "generating"
    assert result["failed_checks"] == ["exact_set", "count", "channels"]
    assert "the endpoint is generating, not healthy" in result["msg"]
    assert result["checks"][1]["evidence"][0] == "capital: expected /^Paris$/, content: 'Sis'"
    assert result["answers"][0]["content"] == "Sis"


def test_nothing_there(run_module: RunModule, closed_url: str) -> None:
    result = run_module("vllm_healthcheck", {"base_url": closed_url})
    assert (result["failed"], result["state"]) == (True, "no_response")
    assert [check["status"] for check in result["checks"]] == ["fail"] + ["not_run"] * (len(battery.NAMES) - 1)


def test_check_mode_before_anything_exists(run_module: RunModule, closed_url: str) -> None:
    switch = run_module("vllm_healthcheck", {"base_url": closed_url, "unit": "kimi"}, check=True)
    assert (switch["unknown_until"], switch["changed"]) == ("switch", False)
    install = run_module("vllm_healthcheck", {"base_url": closed_url, "python": "/nowhere/bin/python"}, check=True)
    assert install["unknown_until"] == "install"


def test_check_mode_while_the_old_service_still_serves(
    run_module: RunModule, endpoint: Endpoint, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"base_url": endpoint.url, **ASKED}
    assert run_module("vllm_healthcheck", {**old, "model": "other"}, check=True)["unknown_until"] == "switch"
    assert run_module("vllm_healthcheck", {**old, "expected_max_model_len": 1}, check=True)["unknown_until"] == "switch"
    tell(host, LoadState="not-found", ActiveState="inactive")
    assert run_module("vllm_healthcheck", {**old, "unit": "kimi"}, check=True)["unknown_until"] == "switch"
    tell(host)
    own_the_port(monkeypatch, "vllm-glm5.service")
    assert run_module("vllm_healthcheck", {**old, "unit": "kimi"}, check=True)["unknown_until"] == "switch"
    own_the_port(monkeypatch, "kimi.service")
    assert run_module("vllm_healthcheck", {**old, "unit": "kimi"}, check=True)["state"] == "healthy"


def test_dead_unit_fails_at_once_with_its_reason(run_module: RunModule, closed_url: str, host: Path) -> None:
    tell(host, (LOGS / "big_toolong.log").read_text(), ActiveState="failed", Result="exit-code", ExecMainStatus="1")
    result = run_module("vllm_healthcheck", {"base_url": closed_url, "unit": "kimi", "startup_timeout": 600})
    assert result["failed"] is True
    assert (result["state"], result["stage"]) == ("no_response", "dead")
    assert "ValueError: To serve at least one request" in result["msg"]
    assert result["root_cause"]["class"] == "engine_error"


def test_another_process_on_the_units_port(
    run_module: RunModule, endpoint: Endpoint, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(host)
    own_the_port(monkeypatch, "vllm-glm5.service")
    result = run_module("vllm_healthcheck", {"base_url": endpoint.url, "unit": "kimi", **ASKED})
    assert (result["failed"], result["state"]) == (True, "wrong_model")
    assert "vllm-glm5.service" in result["msg"]


def test_loading_unit_without_a_wait(run_module: RunModule, closed_url: str, host: Path) -> None:
    tell(host, "Starting to load model /m...")
    result = run_module("vllm_healthcheck", {"base_url": closed_url, "unit": "kimi"})
    assert (result["failed"], result["state"]) == (True, "loading")


def test_stalled_unit(run_module: RunModule, closed_url: str, host: Path) -> None:
    tell(host, "Loading safetensors checkpoint shards:  48% Completed | 57/119 [00:19<")
    arguments = {
        "base_url": closed_url,
        "unit": "kimi",
        "startup_timeout": 60,
        "stall_timeout": 1,
        "poll_interval": 0.2,
    }
    result = run_module("vllm_healthcheck", arguments)
    assert (result["failed"], result["state"]) == (True, "loading")
    assert result["root_cause"]["class"] == "load_stalled"
    assert "57/119" in result["msg"]
    assert result["stages"][0]["stage"] == "loading_weights"


def test_key_stays_secret(run_module: RunModule, endpoint: Endpoint) -> None:
    endpoint.api_key = "sk-canary-0123456789"
    arguments = {
        "base_url": endpoint.url,
        "questions": QUESTIONS,
        "checks": ["ready", "exact_set"],
        "api_key": endpoint.api_key,
    }
    result = run_module("vllm_healthcheck", arguments)
    assert result["state"] == "healthy"
    refused = run_module("vllm_healthcheck", {**arguments, "api_key": "sk-canary-wrong"})
    assert refused["state"] == "auth_required"
    assert "canary" not in str((result["checks"], result["answers"], refused))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"base_url": "localhost:8000"}, "not the address of an endpoint"),
        ({"questions": [{"prompt": "x"}]}, "question 1 is not usable"),
        ({"python": "/nowhere/bin/python"}, "cannot be run"),
        ({"checks": ["ready", "soak"]}, "soak"),
    ],
)
def test_bad_input(run_module: RunModule, endpoint: Endpoint, changed: dict[str, object], said: str) -> None:
    result = run_module("vllm_healthcheck", {"base_url": endpoint.url, **changed})
    assert result["failed"] is True
    assert said in result["msg"]


def test_the_profile_chooses_the_checks(run_module: RunModule, closed_url: str) -> None:
    """Nothing listens there, so that the checks are named and none of them is run."""
    for profile, names in {"quick": checks.QUICK, "full": battery.NAMES}.items():
        result = run_module("vllm_healthcheck", {"base_url": closed_url, "profile": profile})
        assert [check["name"] for check in result["checks"]] == list(names)


def test_the_seed_is_told_and_taken(run_module: RunModule, endpoint: Endpoint) -> None:
    arguments = {"base_url": endpoint.url, "questions": QUESTIONS, "checks": ["ready"]}
    drawn = [run_module("vllm_healthcheck", arguments)["metrics"]["seed"] for _run in range(2)]
    assert drawn[0] != drawn[1]
    assert run_module("vllm_healthcheck", {**arguments, "seed": 7})["metrics"]["seed"] == 7


def test_the_progress_file_is_gone_at_the_end(run_module: RunModule, endpoint: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "progress"
    seen: list[str] = []

    def look(exchange: Exchange) -> bool:
        seen.append(path.read_text())
        return False

    endpoint.fault = look
    arguments = {"base_url": endpoint.url, **ASKED, "progress_file": str(path)}
    assert run_module("vllm_healthcheck", arguments)["state"] == "healthy"
    assert any('"check": "count"' in text for text in seen)
    assert not path.exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"request_timeout": 0}, "request_timeout must be from 1"),
        ({"warmup_timeout": -1}, "warmup_timeout must be from 1"),
        ({"max_timeout": 10**12}, "max_timeout must be from 1"),
        ({"startup_timeout": -1}, "startup_timeout must be from 0"),
        ({"poll_interval": -1}, "poll_interval must be from 0.1"),
        ({"poll_interval": "nan"}, "poll_interval must be from 0.1"),
        ({"questions": {"tool_calls": {"tools": [{"function": "x"}]}}}, "no tool in tools"),
        ({"questions": {"tool_calls": {"expect": ""}}}, "matches an empty answer"),
        ({"questions": {"vision": {"expect": "{colour}|"}}}, "matches an empty answer"),
        ({"questions": {"latency": {"max_ttft_s": float("nan")}}}, "questions.latency is not usable"),
        ({"api_key": "\u043a\u043b\u044e\u0447"}, "api_key cannot be sent"),
        ({"model": "other"}, "other is not served; served ids: kimi"),
    ],
)
def test_options_that_no_run_can_use(
    run_module: RunModule, endpoint: Endpoint, changed: dict[str, Any], said: str
) -> None:
    result = run_module("vllm_healthcheck", {"base_url": endpoint.url, **changed})
    assert result["failed"] is True
    assert said in result["msg"]


def test_without_an_exact_set_the_others_still_ask(run_module: RunModule, endpoint: Endpoint) -> None:
    options = {"checks": ["exact_set", "count"], "questions": {"exact_set": None}, "allowed_not_run": ["exact_set"]}
    result = run_module("vllm_healthcheck", {"base_url": endpoint.url, **options})
    assert result["state"] == "healthy", result["msg"]
    assert [check["status"] for check in result["checks"]] == ["pass", "not_run", "pass"]


def test_ten_thousand_models_are_no_message_of_ten_thousand(run_module: RunModule, endpoint: Endpoint) -> None:
    listed = json.dumps({"data": [{"id": f"m{number}\x1b[31m"} for number in range(10_000)]})
    endpoint.fault = lambda exchange: exchange.path == "/v1/models" and exchange.send(200, listed)
    result = run_module("vllm_healthcheck", {"base_url": endpoint.url, "model": "kimi"})
    assert result["state"] == "wrong_model"
    assert "and 9,980 more" in result["msg"]
    assert result["msg"].isprintable()


def test_the_message_says_which_length_is_served(run_module: RunModule, endpoint: Endpoint) -> None:
    options = {"base_url": endpoint.url, "expected_max_model_len": 131072, **ASKED}
    result = run_module("vllm_healthcheck", options)
    assert "max_model_len is 8192, expected 131072" in result["msg"]
