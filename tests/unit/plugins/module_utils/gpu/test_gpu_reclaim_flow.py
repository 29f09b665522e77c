# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole of reclaiming: real processes in an invented unit, on simulated cards."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.gpu import reclaim as subject
from ansible_collections.blackwell.serving.plugins.module_utils.gpu import settle
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.nvidia_smi import NvidiaSmi
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import ProcessTable
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.rules import Rule
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.smi_csv import MIB
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.units import UnitState, unit_state
from simulation.cards.beside import SimulatedCards
from simulation.cards.proc import FakeProc, unit_line

pytestmark = pytest.mark.slow

ME = str(os.getuid())
GLM5 = "vllm-glm5.service"
NOBODY = 2**22 + 1  # beyond every kernel's pid_max: an invented process that is signalled must not be a real one


class Host:
    """Cards, a /proc with the test's processes only, and a /dev/shm."""

    def __init__(self, folder: Path) -> None:
        self.cards = SimulatedCards(folder)
        self.proc = FakeProc(folder / "proc")
        self.shm = folder / "shm"
        self.shm.mkdir()
        self.units: dict[str, UnitState] = {}
        self.settings = subject.Settings(
            gpus=None,
            allow=[Rule(unit=GLM5)],
            deny=[],
            keep_units=[],
            term_timeout=5,
            kill_timeout=5,
            memory_floor_bytes=1024 * MIB,
            settle_timeout=30,
            shared_memory=True,
            shared_memory_users=[ME],
            fail_on_foreign=True,
        )

    def worker(self, rank: int, unit: str, *, stubborn: bool = False) -> subprocess.Popen[bytes]:
        child = self.cards.hold(f"Worker_TP{rank}", stubborn=stubborn)
        self.proc.mirror(child.pid, cgroup=unit_line(unit))
        return child

    def reclaim(self, *, check: bool = False, **settings: Any) -> dict[str, Any]:
        smi = NvidiaSmi(self.cards.run, 20, self.proc.root)
        chosen = dataclasses.replace(self.settings, **settings)
        return subject.reclaim(smi, ProcessTable(self.proc.root), self.shm, chosen, self.state, check=check)

    def state(self, unit: str) -> UnitState:
        return self.units.get(unit, UnitState())

    def refuse(self, **settings: Any) -> ServingError:
        with pytest.raises(ServingError) as caught:
            self.reclaim(**settings)
        return caught.value


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(settle, "INTERVAL_S", 0.05)
    made = Host(tmp_path)
    made.cards.start()
    yield made
    made.cards.stop()


def pids(entries: list[dict[str, Any]]) -> list[int]:
    return [entry["pid"] for entry in entries]


def test_a_retired_service_is_ended_and_its_memory_proven_free(host: Host) -> None:
    workers = [host.worker(rank, GLM5, stubborn=rank == 1) for rank in range(2)]
    host.cards.wait_held(*(worker.pid for worker in workers))
    (host.shm / "psm_1f2e").write_bytes(b"x" * 100)
    (host.shm / "pulse-shm-1").write_bytes(b"x")

    predicted = host.reclaim(check=True)
    assert pids(predicted["terminated"]) == [worker.pid for worker in workers] and predicted["changed"] is True
    assert predicted["after"] is None and predicted["freed_bytes"] is None
    assert all(worker.poll() is None for worker in workers) and (host.shm / "psm_1f2e").exists()

    result = host.reclaim(term_timeout=0.3)
    assert pids(result["terminated"]) == [workers[0].pid] and pids(result["killed"]) == [workers[1].pid]
    assert sorted(pids(result["terminated"] + result["killed"])) == sorted(pids(predicted["terminated"]))
    assert (
        result["removed_segments"]
        == predicted["removed_segments"]
        == [{"name": "psm_1f2e", "bytes": 100, "user": result["removed_segments"][0]["user"]}]
    )
    assert result["left_segments"] == predicted["left_segments"]
    assert [state["used_bytes"] for state in result["before"][:3]] == [93783 * MIB, 93783 * MIB, 4 * MIB]
    assert {state["used_bytes"] for state in result["after"]} == {4 * MIB}
    assert result["freed_bytes"] == 2 * (93783 - 4) * MIB
    assert result["changed"] is True and len(result["diff"]["before"].splitlines()) == 3

    for check in (True, False):
        again = host.reclaim(check=check)
        assert again["changed"] is False and again["terminated"] == again["removed_segments"] == []
        assert again["freed_bytes"] == 0 and again["diff"] == {"before": "", "after": ""}


@pytest.mark.parametrize("check", [True, False])
def test_a_foreign_holder_stops_everything_before_the_first_signal(host: Host, check: bool) -> None:
    ours, theirs = host.worker(0, GLM5), host.worker(1, "jupyter.service")
    host.cards.wait_held(ours.pid, theirs.pid)
    (host.shm / "psm_1f2e").write_bytes(b"x")
    error = host.refuse(check=check)
    assert "nothing was touched" in str(error) and f"pid {theirs.pid}" in str(error) and "jupyter.service" in str(error)
    assert error.facts["changed"] is False and pids(error.facts["foreign"]) == [theirs.pid]  # type: ignore[arg-type]
    assert ours.poll() is None and theirs.poll() is None and (host.shm / "psm_1f2e").exists()


def test_other_cards_are_nobodys_business(host: Host) -> None:
    ours, theirs = host.worker(0, GLM5), host.worker(7, "jupyter.service")
    host.cards.wait_held(ours.pid, theirs.pid)
    result = host.reclaim(gpus=[0, 1])
    assert pids(result["terminated"]) == [ours.pid] and result["foreign"] == [] and theirs.poll() is None


def test_foreign_holders_may_be_tolerated(host: Host) -> None:
    ours, theirs = host.worker(0, GLM5), host.worker(1, "jupyter.service")
    host.cards.wait_held(ours.pid, theirs.pid)
    result = host.reclaim(fail_on_foreign=False)
    assert pids(result["terminated"]) == [ours.pid] and pids(result["foreign"]) == [theirs.pid]
    assert theirs.poll() is None and result["after"][1]["used_bytes"] == 93783 * MIB


def test_the_service_in_place_keeps_its_memory(host: Host) -> None:
    serving = host.worker(0, "vllm-kimi.service")
    host.cards.wait_held(serving.pid)
    for check in (True, False):
        result = host.reclaim(check=check, keep_units=["vllm-kimi"])
        assert result["changed"] is False and pids(result["kept"]) == [serving.pid]
    assert serving.poll() is None


def test_a_card_kept_by_one_is_still_cleared_of_the_other(host: Host) -> None:
    serving, left = host.worker(0, "vllm-kimi.service"), host.worker(0, GLM5)
    host.cards.wait_held(serving.pid, left.pid)
    result = host.reclaim(keep_units=["vllm-kimi.service"])
    assert pids(result["terminated"]) == [left.pid] and serving.poll() is None


def test_memory_without_a_process_is_not_free(host: Host) -> None:
    host.cards.configure(faults={"cells": {"3": {"memory.used": "31000"}}})
    for check in (True, False):
        error = host.refuse(check=check, settle_timeout=0.2)
        assert "GPU 3: 31000 MiB, without any process" in str(error)
        assert error.facts["not_free"] == [{"gpu": 3, "used_bytes": 31000 * MIB, "pids": []}]
    assert host.reclaim(gpus=[0, 1, 2])["changed"] is False


def test_a_failed_proof_tells_what_was_done(host: Host) -> None:
    worker = host.worker(0, GLM5)
    host.cards.wait_held(worker.pid)
    host.cards.configure(faults={"cells": {"3": {"memory.used": "31000"}}})
    error = host.refuse(settle_timeout=0.2)
    assert error.facts["changed"] is True and pids(error.facts["terminated"]) == [worker.pid]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("faults", "message"),
    [({"cells": {"3": {"memory.used": "[N/A]"}}}, "cannot be read"), ({"mig": [3]}, r"mig_enabled: \[3\]")],
)
def test_a_card_that_can_never_be_proven_stops_before_the_first_signal(
    host: Host, faults: dict[str, Any], message: str
) -> None:
    worker = host.worker(0, GLM5)
    host.cards.wait_held(worker.pid)
    host.cards.configure(faults=faults)
    with pytest.raises(ServingError, match=message):
        host.reclaim()
    assert worker.poll() is None


def test_a_process_that_hangs_in_the_driver_needs_a_reboot(host: Host) -> None:
    host.proc.add(NOBODY, "VLLM::Worker_TP0", state="D", waits_in="uvm_spin_loop", cgroup=unit_line(GLM5))
    (host.shm / "psm_1f2e").write_bytes(b"x")
    error = host.refuse(term_timeout=0.1, kill_timeout=0.1, allow=[Rule(unit=GLM5)])
    assert error.facts["reboot_required"] is True and "unkillable" in str(error) and "uvm_spin_loop" in str(error)
    survivors: Any = error.facts["survivors"]
    (survivor,) = survivors
    assert (survivor["pid"], survivor["state"], survivor["reason"]) == (NOBODY, "D", "unkillable")
    assert (host.shm / "psm_1f2e").exists()


def test_a_holder_that_is_just_ending_is_waited_for(host: Host) -> None:
    worker = host.cards.hold("Worker_TP0")
    host.cards.wait_held(worker.pid)
    worker.kill()
    worker.wait()
    assert host.reclaim()["foreign"] == []


def test_segments_may_be_left_out(host: Host) -> None:
    (host.shm / "psm_1f2e").write_bytes(b"x")
    result = host.reclaim(shared_memory=False)
    assert result["removed_segments"] == result["left_segments"] == [] and (host.shm / "psm_1f2e").exists()


def test_an_active_unit_is_refused(host: Host) -> None:
    worker = host.worker(0, GLM5)
    host.cards.wait_held(worker.pid)
    host.units[GLM5] = UnitState(active=True)
    error = host.refuse()
    assert "still active" in str(error) and GLM5 in str(error) and worker.poll() is None
    assert error.facts["changed"] is False


@pytest.mark.parametrize(
    ("kill_mode", "left"), [("control-group", []), ("mixed", []), ("process", [1]), ("none", [0, 1])]
)
def test_check_mode_foresees_what_stopping_the_unit_leaves(host: Host, kill_mode: str, left: list[int]) -> None:
    workers = [host.worker(rank, GLM5) for rank in range(2)]
    host.cards.wait_held(*(worker.pid for worker in workers))
    host.units[GLM5] = UnitState(active=True, kill_mode=kill_mode, main_pid=workers[0].pid)
    result = host.reclaim(check=True)
    assert pids(result["terminated"]) == [workers[rank].pid for rank in left]
    assert result["changed"] is bool(left) and result["after"] is None and result["foreign"] == []


@pytest.mark.parametrize(
    ("unit", "answer", "state"),
    [
        ("a.service", (0, "ActiveState=active\nKillMode=process\nMainPID=7\n", ""), UnitState(True, "process", 7)),
        ("a.service", (0, "ActiveState=inactive\nKillMode=mixed\nMainPID=0\n", ""), UnitState(False, "mixed", 0)),
        ("a.service", (124, "", ""), UnitState()),
        ("a.service", (1, "", "System has not been booted with systemd"), UnitState()),
        ("session-3.scope", (0, "ActiveState=active\nKillMode=none\nMainPID=7\n", ""), UnitState()),
    ],
)
def test_the_state_of_a_unit(unit: str, answer: tuple[int, str, str], state: UnitState) -> None:
    assert unit_state(lambda *_: answer, unit) == state
