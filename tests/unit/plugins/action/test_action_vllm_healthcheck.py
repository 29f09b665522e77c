# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm_healthcheck in a play, against a slow local endpoint."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.action.vllm_healthcheck import ActionModule
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_display import Line
from simulation.endpoint.server import QUESTIONS, Endpoint, Exchange
from simulation.play import Play, Task

CANARY = "canary-7f3a"
CHECKS = ["ready", "exact_set", "count", "channels"]

pytestmark = pytest.mark.slow


def slowly(exchange: Exchange) -> bool:
    """Counts wrongly, and takes its time."""
    time.sleep(0.7 if exchange.path.endswith("completions") else 0)
    return exchange.prompt.startswith("Count") and exchange.answer("1 2 4")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(api_key=CANARY, fault=slowly).running() as running:
        yield running


def examine(endpoint: Endpoint, **more: Any) -> Task:
    options = {"base_url": endpoint.url, "api_key": CANARY, "questions": QUESTIONS, "checks": CHECKS}
    return {"blackwell.serving.vllm_healthcheck": {**options, **more}}


def test_an_examination_shows_its_checks_and_fails_as_the_module_does(endpoint: Endpoint, tmp_path: Path) -> None:
    tasks = {
        "shown": examine(endpoint, checks=["ready", "exact_set", "channels"]),
        "failing": examine(endpoint),
        "checked": {**examine(endpoint, checks=["ready"]), "check_mode": True},
        "quiet": examine(endpoint, checks=["ready"], show_progress=False),
        "hidden": {**examine(endpoint), "no_log": True},
        "mistaken": examine(endpoint, max_timeout="soon"),
    }
    play = Play(tmp_path, tasks, "-vvv")
    shown = play.lines("shown")
    running = re.compile(r"gpu1: (ready|exact_set|channels) [123]/3(, \d+ s)?; [012] passed")
    assert len(shown) >= 2
    assert all(running.fullmatch(line) for line in shown[:-1]), shown
    assert re.fullmatch(r"gpu1: 3 of 3 checks passed in \d+ s", shown[-1])
    assert any(re.fullmatch(r"gpu1: channels 4/4.*; 2 passed; fail: count", line) for line in play.lines("failing"))
    assert play.lines("checked") == play.lines("quiet") == play.lines("hidden") == []
    results = play.results()
    assert (results["shown"]["state"], results["shown"]["changed"]) == ("healthy", False)
    assert not {"ansible_job_id", "results_file", "started", "finished", "stdout", "stderr"} & results["shown"].keys()
    failing = results["failing"]
    assert (failing["failed"], failing["state"], failing["failed_checks"]) == (True, "generating", ["count"])
    assert "not healthy" in failing["msg"]
    assert (results["checked"]["state"], results["quiet"]["state"]) == ("healthy", "healthy")
    assert results["mistaken"]["failed"]
    assert play.left() == []
    assert CANARY not in play.output


def test_what_takes_long_says_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    action = object.__new__(ActionModule)
    base: dict[str, Any] = {"state": "checking", "check": "needle", "done": 8, "total": 15, "checks": [], "at": 1.0}
    clock = iter([100.0, 142.0, 200.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))

    def text(progress: dict[str, Any]) -> str:
        line = action.describe(progress, ())
        assert isinstance(line, Line)
        return line.text

    assert text(base) == "needle 9/15; 0 passed"
    assert text(base) == "needle 9/15, 42 s; 0 passed"
    assert text({**base, "check": "channels", "done": 9, "at": 2.0}) == "channels 10/15; 0 passed"


@pytest.mark.parametrize(
    ("arguments", "limit"), [({}, 3600), ({"max_timeout": "60"}, 60), ({"max_timeout": "soon"}, 3600)]
)
def test_the_job_may_take_as_long_as_the_module(arguments: dict[str, Any], limit: float) -> None:
    assert object.__new__(ActionModule).limit_s(arguments) == limit
