# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_reclaim as a task runs it: options, check mode, diff mode, one error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.gpu import settle
from ansible_collections.blackwell.serving.plugins.modules import gpu_reclaim
from simulation.cards.beside import HERE, SimulatedCards
from simulation.cards.proc import FakeProc, unit_line

pytestmark = pytest.mark.slow

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCards]:
    simulated = SimulatedCards(tmp_path)
    monkeypatch.setenv("PATH", f"{HERE}{os.pathsep}{os.environ['PATH']}")
    for name, value in simulated.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shm").mkdir()
    monkeypatch.setattr(gpu_reclaim, "SHM", str(tmp_path / "shm"))
    monkeypatch.setattr(gpu_reclaim, "PROC", str(tmp_path / "proc"))
    monkeypatch.setattr(settle, "INTERVAL_S", 0.05)
    simulated.start()
    yield simulated
    simulated.stop()


def test_what_a_unit_left_is_ended(run_module: RunModule, cards: SimulatedCards, tmp_path: Path) -> None:
    worker = cards.hold("Worker_TP2")
    FakeProc(tmp_path / "proc").mirror(worker.pid, cgroup=unit_line("vllm-glm5.service"))
    segment = tmp_path / "shm" / "nccl-Ab3x9Q"
    segment.write_bytes(b"x")
    cards.wait_held(worker.pid)
    options = {"allow": [{"unit": "vllm-glm5"}], "shared_memory_users": [str(os.getuid())], "settle_timeout": 30}

    predicted = run_module("gpu_reclaim", options, check=True, diff=True)
    assert predicted["changed"] is True and worker.poll() is None and segment.exists()
    real = run_module("gpu_reclaim", options, diff=True)
    assert real["changed"] is True and worker.wait(5) == -15 and not segment.exists()
    for name in ("terminated", "killed", "foreign", "protected", "kept", "removed_segments", "left_segments", "diff"):
        assert real[name] == predicted[name], name
    assert f"pid {worker.pid}" in real["diff"]["before"] and "nccl-Ab3x9Q" in real["diff"]["before"]
    assert run_module("gpu_reclaim", options)["changed"] is False


def test_a_foreign_holder_is_told_with_its_owner(run_module: RunModule, cards: SimulatedCards, tmp_path: Path) -> None:
    worker = cards.hold("Worker_TP2")
    FakeProc(tmp_path / "proc").mirror(worker.pid, cgroup=unit_line("jupyter.service"))
    cards.wait_held(worker.pid)
    result = run_module("gpu_reclaim", {"allow": [{"unit": "vllm-glm5"}]})
    assert result["failed"] is True and result["changed"] is False
    assert "jupyter.service" in result["msg"] and result["foreign"][0]["pid"] == worker.pid
    assert worker.poll() is None
    kept = run_module("gpu_reclaim", {"keep_units": ["jupyter.service"]})
    assert kept["changed"] is False and kept["kept"][0]["pid"] == worker.pid


def test_a_weak_rule_is_refused(run_module: RunModule, cards: SimulatedCards, tmp_path: Path) -> None:
    FakeProc(tmp_path / "proc")
    result = run_module("gpu_reclaim", {"allow": [{"user": "vllm"}]})
    assert result["failed"] is True and "does not say enough" in result["msg"]
    assert run_module("gpu_reclaim", {"allow": [{"title": "VLLM"}]})["failed"] is True


def test_a_failing_tool_ends_nobody(run_module: RunModule, cards: SimulatedCards, tmp_path: Path) -> None:
    worker = cards.hold("Worker_TP2")
    FakeProc(tmp_path / "proc").mirror(worker.pid, cgroup=unit_line("vllm-glm5.service"))
    cards.wait_held(worker.pid)
    for faults in ({"driver_mismatch": "580.178"}, {"no_devices": True}, {"lost_card": 6}):
        cards.configure(faults=faults)
        assert run_module("gpu_reclaim", {"allow": [{"unit": "vllm-glm5"}]})["failed"] is True
        assert worker.poll() is None
