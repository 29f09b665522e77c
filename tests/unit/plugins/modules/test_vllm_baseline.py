# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulation.endpoint.server import Endpoint, Exchange

RunModule = Callable[..., dict[str, Any]]


class Engine:
    """What the endpoint answers to any prompt: one token with its log probability."""

    def __init__(self) -> None:
        self.token, self.logprob, self.asked = "A", -0.1, 0

    def __call__(self, exchange: Exchange) -> bool:
        if not exchange.path.endswith("completions"):
            return False
        self.asked += 1
        top = [{"token": self.token, "logprob": self.logprob}, {"token": "?", "logprob": -9.0}]
        entries = [{"token": self.token, "logprob": self.logprob, "top_logprobs": top}]
        choice = {"message": {"content": self.token}, "finish_reason": "stop", "logprobs": {"content": entries}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        return exchange.send(200, json.dumps({"choices": [choice], "usage": usage}))


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def endpoint(engine: Engine) -> Iterator[Endpoint]:
    with Endpoint(fault=engine).running() as running:
        yield running


@pytest.fixture
def options(endpoint: Endpoint, tmp_path: Path) -> dict[str, Any]:
    path = str(tmp_path / "baseline.json")
    return {"base_url": endpoint.url, "path": path, "engine": {"version": "1"}}


def test_keeps_compares_and_does_not_ask_again(run_module: RunModule, options: dict[str, Any], engine: Engine) -> None:
    path = Path(options["path"])
    first = run_module("vllm_baseline", options, diff=True)
    assert (first["changed"], first["verdict"], first["comparison"]) == (True, "new", None)
    assert (first["baseline"]["engine"], first["baseline"]["answers"]) == ({"version": "1"}, 12)
    assert first["diff"]["before"] == ""
    assert '"answers": "12 answers"' in first["diff"]["after"]
    assert path.stat().st_mode & 0o777 == 0o640
    asked, text = engine.asked, path.read_text()
    again = run_module("vllm_baseline", options)
    assert (again["changed"], again["verdict"], engine.asked) == (False, "equal", asked)
    engine.logprob = -0.15
    newer = {**options, "engine": {"version": "2"}}
    second = run_module("vllm_baseline", newer, diff=True)
    assert (second["changed"], second["verdict"]) == (True, "equal")
    assert second["comparison"]["mean_logprob_distance"] == 0.05
    assert second["baseline"]["engine"] == {"version": "1"}
    assert '"version": "2"' in second["diff"]["after"]
    assert path.read_text() != text
    asked = engine.asked
    assert run_module("vllm_baseline", newer)["changed"] is False
    assert engine.asked == asked


def test_a_different_engine_fails_and_may_be_accepted(
    run_module: RunModule, options: dict[str, Any], engine: Engine
) -> None:
    run_module("vllm_baseline", options)
    text = Path(options["path"]).read_text()
    engine.token = "Sis"
    other = {**options, "engine": {"version": "2"}}
    failed = run_module("vllm_baseline", other)
    assert (failed["failed"], failed["verdict"]) == (True, "different")
    assert "max_shift is 17.8, allowed is 2" in failed["msg"]
    assert "accept true" in failed["msg"]
    assert failed["comparison"]["first_difference"]["now"] == "Sis"
    assert Path(options["path"]).read_text() == text
    accepted = run_module("vllm_baseline", {**other, "accept": True})
    assert (accepted["changed"], accepted["verdict"]) == (True, "accepted")
    assert accepted["baseline"]["engine"] == {"version": "2"}
    assert run_module("vllm_baseline", {**other, "accept": True})["changed"] is False


def test_compared_asks_each_time_and_writes_nothing(
    run_module: RunModule, options: dict[str, Any], engine: Engine
) -> None:
    only = {**options, "state": "compared"}
    failed = run_module("vllm_baseline", only)
    assert "no baseline to compare with" in failed["msg"]
    run_module("vllm_baseline", options)
    text, asked = Path(options["path"]).read_text(), engine.asked
    result = run_module("vllm_baseline", only)
    assert (result["changed"], result["verdict"], engine.asked) == (False, "equal", 2 * asked)
    assert Path(options["path"]).read_text() == text
    assert "other questions" in run_module("vllm_baseline", {**only, "prompts": ["x"]})["msg"]
    engine.token = "Sis"
    assert run_module("vllm_baseline", {**only, "accept": True})["failed"] is True


def test_check_mode_predicts_and_asks_nothing(run_module: RunModule, options: dict[str, Any], engine: Engine) -> None:
    predicted = run_module("vllm_baseline", options, check=True)
    assert (predicted["changed"], predicted["verdict"], predicted["baseline"]) == (True, None, None)
    assert not Path(options["path"]).exists()
    run_module("vllm_baseline", options)
    asked = engine.asked
    assert run_module("vllm_baseline", options, check=True)["changed"] is False
    assert run_module("vllm_baseline", {**options, "engine": {"version": "2"}}, check=True)["changed"] is True
    assert run_module("vllm_baseline", {**options, "state": "compared"}, check=True)["changed"] is False
    assert engine.asked == asked
    missing = {**options, "python": "/nowhere/bin/python"}
    assert run_module("vllm_baseline", missing, check=True)["unknown_until"] == "install"


def test_absent(run_module: RunModule, options: dict[str, Any]) -> None:
    gone = {"path": options["path"], "state": "absent"}
    assert run_module("vllm_baseline", gone)["changed"] is False
    run_module("vllm_baseline", options)
    assert run_module("vllm_baseline", gone, check=True)["changed"] is True
    assert Path(options["path"]).exists()
    assert run_module("vllm_baseline", gone)["changed"] is True
    assert not Path(options["path"]).exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"base_url": None}, "base_url"),
        ({"base_url": "ftp://x"}, "not the address"),
        ({"max_tokens": 0}, "at least 1"),
        ({"prompts": ["x"] * 65}, "one to 64"),
        ({"model": "other"}, "served ids: kimi"),
        ({"python": "/nowhere/bin/python"}, "cannot be run"),
    ],
)
def test_bad_input(run_module: RunModule, options: dict[str, Any], changed: dict[str, Any], said: str) -> None:
    given = {name: value for name, value in {**options, **changed}.items() if value is not None}
    result = run_module("vllm_baseline", given)
    assert result["failed"] is True
    assert said in result["msg"]
    assert not Path(options["path"]).exists()


def test_a_damaged_file_is_an_error(run_module: RunModule, options: dict[str, Any]) -> None:
    Path(options["path"]).write_text("{")
    assert "the baseline is not usable" in run_module("vllm_baseline", options)["msg"]
