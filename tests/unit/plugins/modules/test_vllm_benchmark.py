# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from simulation.endpoint.server import Endpoint

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
