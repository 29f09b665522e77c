# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules, and who is ended by them: nobody by title, nobody who is protected, denied, kept or foreign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.inventory import Card, Holder
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import ProcessTable
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.rules import Rule, read_rule
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.selection import Selection, owner_table, select
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.smi_csv import MIB, read_cell
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.smi_xml import SmiProcess
from simulation.cards.proc import FakeProc, map_line, unit_line

GLM5 = Rule(unit="vllm-glm5.service")


def judge(proc: FakeProc, pids: list[int], **options: Any) -> Selection:
    """The pids hold card 0, one GiB each."""
    table = ProcessTable(proc.root)
    holders = [Holder(SmiProcess(pid, "C", f"title{pid}", 1024 * MIB), table.read(pid)) for pid in pids]
    cells = {"memory.used": read_cell("93783 MiB"), "mig.mode.current": read_cell("Disabled")}
    cards = [Card(0, "GPU-a", cells, holders)]
    own = options.pop("own", {1})
    return select(cards, table, options.pop("allow", [GLM5]), options.pop("deny", []), options.pop("keep", []), own)


def pids(entries: list[dict[str, Any]]) -> dict[int, str]:
    return {entry["pid"]: entry["reason"] for entry in entries}


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def test_only_ours_is_ended_and_the_innocent_are_named(proc: FakeProc) -> None:
    proc.add(900, "nvidia-persistenced", uid=0, executable="/usr/bin/nvidia-persistenced")
    proc.add(910, "nv-hostengine", uid=0, executable="/usr/bin/nv-hostengine")
    proc.add(1200, "/usr/lib/xorg/Xorg", uid=0, executable="/usr/lib/xorg/Xorg")
    proc.add(2000, "python3 AnsiballZ_gpu_reclaim.py", uid=0, cgroup=unit_line("vllm-glm5.service"))
    proc.add(4110, "VLLM::Worker_TP0", cgroup=unit_line("vllm-glm5.service"))
    selection = judge(proc, [900, 910, 1200, 2000, 4110], own={1, 2000})
    assert [process.pid for process in selection.targets] == [4110]
    assert pids(selection.protected) == {
        900: "persistence daemon",
        910: "monitoring",
        1200: "display server",
        2000: "this automation",
    }
    assert selection.foreign == []


def test_a_title_alone_is_foreign(proc: FakeProc) -> None:
    proc.add(5, "VLLM::Worker_TP0", cgroup=unit_line("somebody.service"))
    selection = judge(proc, [5])
    assert selection.targets == [] and pids(selection.foreign) == {5: "no rule allows it"}
    text = owner_table(selection.foreign)
    assert "GPU 0: pid 5 'VLLM::Worker_TP0', user 990, somebody.service, 1024 MiB" in text


def test_members_of_an_allowed_unit_without_memory_are_ended_too(proc: FakeProc) -> None:
    proc.add(5, "VLLM::Worker_TP0", cgroup=unit_line("vllm-glm5.service"))
    proc.add(6, "resource_tracker", cgroup=unit_line("vllm-glm5.service"))
    proc.add(7, "bystander", cgroup=unit_line("other.service"))
    selection = judge(proc, [5])
    assert [process.pid for process in selection.targets] == [5, 6]
    assert selection.entries[6]["gpus"] == [] and selection.entries[6]["used_bytes"] == 0


def test_deny_wins(proc: FakeProc) -> None:
    proc.add(5, cgroup=unit_line("vllm-glm5.service"))
    proc.add(6, cgroup=unit_line("vllm-glm5.service"))
    selection = judge(proc, [5], deny=[Rule(user="990")])
    assert selection.targets == [] and pids(selection.foreign) == {5: "denied by a rule"}


def test_a_denial_that_cannot_be_checked_holds(proc: FakeProc) -> None:
    proc.add(5, cgroup=unit_line("vllm-glm5.service"))
    (proc.root / "5" / "maps").unlink()
    assert judge(proc, [5], deny=[Rule(venv="/opt/x")]).targets == []
    assert judge(proc, [5], allow=[Rule(user="990", venv="/opt/x")]).targets == []


def test_kept_units_are_neither_ended_nor_foreign(proc: FakeProc) -> None:
    proc.add(5, cgroup=unit_line("vllm-kimi.service"))
    selection = judge(proc, [5], allow=[Rule(unit="vllm-kimi")], keep=["vllm-kimi"])
    assert selection.targets == [] and selection.foreign == [] and list(pids(selection.kept)) == [5]


def test_user_and_virtual_environment(proc: FakeProc, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "_C.so").write_text("x")
    proc.add(5, maps=map_line(venv / "_C.so"))
    proc.add(6, maps=map_line(venv / "_C.so"), uid=1001)
    proc.add(7)
    selection = judge(proc, [5, 6, 7], allow=[Rule(user="990", venv=str(venv))])
    assert [process.pid for process in selection.targets] == [5]
    assert list(pids(selection.foreign)) == [6, 7]


def test_pid_and_start_time(proc: FakeProc) -> None:
    proc.add(5, start_time=100)
    assert [p.pid for p in judge(proc, [5], allow=[Rule(pid=5, start_time=100)]).targets] == [5]
    assert judge(proc, [5], allow=[Rule(pid=5, start_time=99)]).targets == []


def test_a_worker_of_a_container_is_foreign_and_the_container_is_named(proc: FakeProc) -> None:
    container = "deadbeef" * 8
    proc.add(7001, "VLLM::Worker_TP3", uid=0, cgroup=unit_line(f"docker-{container}.scope"))
    selection = judge(proc, [7001])
    assert selection.foreign[0]["container"] == container and selection.targets == []


def test_a_holder_of_another_namespace_is_foreign(proc: FakeProc) -> None:
    selection = judge(proc, [77])
    assert "namespace" in pids(selection.foreign)[77] and selection.foreign[0]["name"] == "title77"


@pytest.mark.parametrize(
    "members", [{}, {"user": "vllm"}, {"venv": "/opt/x"}, {"pid": 5}, {"start_time": 5}, {"user": "vllm", "pid": 5}]
)
def test_a_rule_that_is_too_weak_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ServingError, match="does not say enough"):
        read_rule(members, "allow")
    if members:
        read_rule(members, "deny")


def test_members_hold_together(proc: FakeProc) -> None:
    proc.add(5, cgroup=unit_line("vllm-glm5.service"))
    assert judge(proc, [5], allow=[Rule(unit="vllm-glm5", user="root")]).targets == []
    assert read_rule({"unit": "a", "user": None, "pid": 5}, "allow") == Rule(unit="a", pid=5)
