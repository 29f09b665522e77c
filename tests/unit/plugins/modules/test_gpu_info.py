# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info as a task runs it: the tool found on PATH, the result or one error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulation.cards.beside import HERE, SimulatedCards

pytestmark = pytest.mark.slow

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCards]:
    simulated = SimulatedCards(tmp_path)
    monkeypatch.setenv("PATH", f"{HERE}{os.pathsep}{os.environ['PATH']}")
    for name, value in simulated.environment.items():
        monkeypatch.setenv(name, value)
    yield simulated
    simulated.stop()


@pytest.mark.parametrize("check", [True, False])
def test_the_cards_of_a_host(run_module: RunModule, cards: SimulatedCards, check: bool) -> None:
    worker = cards.hold("Worker_TP2")
    cards.look()
    result = run_module("gpu_info", {"expected_count": 8}, check=check)
    assert result["changed"] is False and result["driver"] == "580.95.05"
    assert [len(card["processes"]) for card in result["gpus"]] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert result["gpus"][2]["processes"][0]["pid"] == worker.pid
    assert set(result) >= {"driver", "cuda", "gpus", "topology", "unattributed", "problems"}


def test_a_failure_names_the_problem(run_module: RunModule, cards: SimulatedCards) -> None:
    cards.configure(faults={"driver_mismatch": "580.178"})
    result = run_module("gpu_info")
    assert result["failed"] is True and result["problems"][0]["problem"] == "driver_mismatch"
    assert "580.178" in result["msg"]


def test_a_tool_that_hangs_is_given_up(run_module: RunModule, cards: SimulatedCards) -> None:
    cards.configure(faults={"hang_s": 60})
    result = run_module("gpu_info", {"timeout": 0.5})
    assert result["failed"] is True and "timed out after 0.5 s" in result["msg"]


@pytest.mark.parametrize("timeout", [True, False])
def test_a_host_without_the_tool(
    run_module: RunModule, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, timeout: bool
) -> None:
    if timeout:
        (tmp_path / "timeout").symlink_to("/usr/bin/timeout")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run_module("gpu_info")
    assert result["failed"] is True and result["problems"][0]["problem"] == "no_nvidia_smi"
