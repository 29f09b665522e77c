# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import memory
from simulation.endpoint.server import QUESTIONS, Endpoint

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


def closed_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_measures(run_module: RunModule, endpoint: Endpoint) -> None:
    result = run_module("vllm_benchmark", {"base_url": f"{endpoint.url}/v1", "concurrency": [1, 2], "repetitions": 2})
    assert (result["changed"], result["served_model"]) == (False, "kimi")
    assert [run["max_concurrency"] for run in result["runs"]] == [1, 2]
    assert all(run["correct"] for run in result["runs"])
    assert all(run["output_throughput"] > 0 and run["mean_ttft_ms"] > 0 for run in result["runs"])


def test_failure_is_no_row_of_zeros(run_module: RunModule, endpoint: Endpoint) -> None:
    endpoint.fault = lambda exchange: exchange.path.endswith("completions") and exchange.send(500, "{}")
    result = run_module("vllm_benchmark", {"base_url": endpoint.url})
    assert result["failed"] is True
    assert "nothing was measured" in result["msg"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": "other"}, "served ids: kimi"),
        ({"concurrency": []}, "at least 1"),
        ({"repetitions": 0}, "at least 1"),
        ({"num_prompts": 0}, "at least 1"),
        ({"min_success_rate": 0}, "min_success_rate must be above 0"),
        ({"tool": "wrk"}, "value of tool must be one of"),
        ({"concurrency": [1, 10**9]}, "concurrency must be at most 4096"),
        ({"num_prompts": 10**9}, "num_prompts at most"),
        ({"request_timeout": 10**12}, "request_timeout must be from 1 to"),
        ({"api_key": "sk-canary-0123456789\n"}, "api_key cannot be sent"),
        ({"base_url": "http://[::1"}, "not the address"),
        ({"base_url": "http://"}, "not the address"),
    ],
)
def test_bad_input(run_module: RunModule, endpoint: Endpoint, changed: dict[str, object], said: str) -> None:
    result = run_module("vllm_benchmark", {"base_url": endpoint.url, **changed})
    assert result["failed"] is True
    assert said in result["msg"]


def test_check_mode_before_anything_exists(run_module: RunModule) -> None:
    assert run_module("vllm_benchmark", {"base_url": closed_url()}, check=True)["unknown_until"] == "switch"
    missing = {"base_url": closed_url(), "python": "/nowhere/bin/python"}
    assert run_module("vllm_benchmark", missing, check=True)["unknown_until"] == "install"
    assert run_module("vllm_benchmark", {"base_url": closed_url()})["failed"] is True


def test_check_mode_asks_for_the_model_and_measures_nothing(run_module: RunModule, endpoint: Endpoint) -> None:
    result = run_module("vllm_benchmark", {"base_url": endpoint.url}, check=True)
    assert (result["changed"], result["runs"], result["stable"], result["served_model"]) == (False, [], None, "kimi")
    assert [path for path, _headers in endpoint.seen] == ["/v1/models"]
    assert run_module("vllm_benchmark", {"base_url": endpoint.url, "model": "x"}, check=True)["failed"] is True


def test_vllm_bench_needs_vllm_and_keeps_the_key(run_module: RunModule, endpoint: Endpoint) -> None:
    """This interpreter holds no vLLM: the tool's own words are the error, and the key is not among them."""
    endpoint.api_key = "sk-canary-0123456789"
    result = run_module("vllm_benchmark", {"base_url": endpoint.url, "tool": "vllm_bench", "api_key": endpoint.api_key})
    assert result["failed"] is True
    assert "No module named 'vllm'" in result["msg"]
    assert "sk-canary" not in str(result)


SOAK = {"minutes": 0.01, "concurrency": 2, "min_speed_ratio": 0}


def test_soak_passes_between_two_measurements(run_module: RunModule, endpoint: Endpoint) -> None:
    options = {"base_url": endpoint.url, "repetitions": 1, "soak": SOAK, "questions": QUESTIONS}
    result = run_module("vllm_benchmark", options)
    assert (result["changed"], result["served_model"], len(result["runs"])) == (False, "kimi", 1)
    assert result["soak"]["requests"]["total"] > 0
    assert result["soak"]["failed_requests"] == 0
    # the endpoint is a thread of this very process
    assert result["soak"]["memory"]["start_bytes"] > 1 << 20
    assert "soak" not in run_module("vllm_benchmark", {**options, "soak": None})


def test_soak_beyond_its_limits_fails_with_what_it_showed(run_module: RunModule, endpoint: Endpoint) -> None:
    endpoint.fault = lambda exchange: "occur most often" in exchange.prompt and exchange.send(500, "{}")
    options = {"base_url": endpoint.url, "repetitions": 1, "soak": SOAK, "questions": QUESTIONS}
    result = run_module("vllm_benchmark", options)
    assert result["failed"] is True
    assert "the soak failed" in result["msg"]
    assert "requests failed (first: long: server_error: HTTP 500" in result["msg"]
    assert result["soak"]["failed_requests"] > 0
    assert result["runs"][0]["correct"] is True
    assert run_module("vllm_benchmark", {**options, "soak": {**SOAK, "max_failures": 10_000}})["changed"] is False


def test_soak_watches_the_unit_and_the_cards(
    run_module: RunModule, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "memory.stat").write_text("anon 1000\nshmem 24\n")
    program(tmp_path / "systemctl", f"echo ControlGroup=/group; echo MainPID={os.getpid()}")
    program(tmp_path / "nvidia-smi", "echo '0, 100 MiB'; echo '1, 200 MiB'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(memory.of_control_group, "__kwdefaults__", {"cgroups": tmp_path})
    options = {"base_url": endpoint.url, "repetitions": 1, "soak": SOAK, "questions": QUESTIONS, "unit": "kimi"}
    found = run_module("vllm_benchmark", options)["soak"]
    assert (found["memory"]["end_bytes"], found["gpu_memory"]["end_bytes"]) == (1024, 300 << 20)
    (tmp_path / "group" / "memory.stat").unlink()  # a container without an account of memory
    assert run_module("vllm_benchmark", options)["soak"]["memory"]["end_bytes"] > 10 << 20
    program(tmp_path / "systemctl", "echo ControlGroup=; echo 'not running' >&2")
    assert "the unit has no control group" in run_module("vllm_benchmark", options)["msg"]


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("soak", "said"),
    [
        ({"minutes": 0}, "above 0"),
        ({"minutes": 2000}, "at most 1440"),
        ({"minutes": 1, "concurrency": 0}, "at least 1"),
        ({"minutes": 1, "concurrency": 10**6}, "at most 4096"),
        ({"minutes": 1, "max_memory_growth": "nan"}, "0 or more"),
        ({"minutes": 1, "min_speed_ratio": "nan"}, "0 or more"),
        ({"concurrency": 1}, "missing required arguments: minutes"),
    ],
)
def test_bad_soak(run_module: RunModule, endpoint: Endpoint, soak: dict[str, object], said: str) -> None:
    result = run_module("vllm_benchmark", {"base_url": endpoint.url, "soak": soak})
    assert result["failed"] is True
    assert said in result["msg"]
    assert endpoint.seen == []


def test_soak_beside_counters_that_are_no_numbers(run_module: RunModule, endpoint: Endpoint) -> None:
    endpoint.metrics = lambda: "vllm:num_requests_running NaN\nvllm:generation_tokens_total +Inf\n"
    options = {"soak": {"minutes": 0.01, "min_speed_ratio": 0}, "questions": QUESTIONS, "repetitions": 1}
    result = run_module("vllm_benchmark", {"base_url": endpoint.url, **options})
    assert "failed" not in result, result["msg"]
    assert result["soak"]["requests_left_running"] is None
