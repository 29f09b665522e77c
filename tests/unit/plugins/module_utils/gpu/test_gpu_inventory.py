# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No answer is never "no cards"; what the cards say is told with its owner or its reason."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.inventory import report
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.nvidia_smi import FIELDS, NvidiaSmi, bounded
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import ProcessTable
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.smi_csv import MIB
from simulation.cards.beside import SimulatedCards
from simulation.cards.proc import FakeProc, unit_line

pytestmark = pytest.mark.slow

DATA = Path(__file__).resolve().parents[3] / "data" / "gpu"
LOST = "Unable to determine the device handle for GPU0000:BA:00.0: Unknown Error"
CARD = "GPU-7c1e90b4-35da-4f82-91b6-0d2a84c7e5f3"


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[SimulatedCards]:
    simulated = SimulatedCards(tmp_path)
    yield simulated
    simulated.stop()


def ask(cards: SimulatedCards, **options: Any) -> dict[str, Any]:
    proc = options.pop("proc", "/proc")
    smi = NvidiaSmi(cards.run, options.pop("timeout", 20), proc)
    return report(smi, ProcessTable(proc), options.get("gpus"), options.get("expected_count"))


def fail(cards: SimulatedCards, **options: Any) -> ServingError:
    with pytest.raises(ServingError) as caught:
        ask(cards, **options)
    return caught.value


def problem(error: ServingError) -> str:
    problems = error.facts["problems"]
    assert isinstance(problems, list)
    return str(problems[0]["problem"])


def test_eight_cards_and_a_holder(cards: SimulatedCards) -> None:
    worker = cards.hold("Worker_TP3")
    cards.look()
    result = ask(cards, expected_count=8)
    assert (result["driver"], result["cuda"], len(result["gpus"])) == ("580.95.05", "13.0", 8)
    card = result["gpus"][3]
    assert card["compute_capability"] == "12.0" and card["mig"] is False and card["power_w"] == 85.6
    total, reserved = 97887 * MIB, 638 * MIB
    assert card["memory"] == {
        "total_bytes": total,
        "reserved_bytes": reserved,
        "used_bytes": 93783 * MIB,
        "free_bytes": total - reserved - 93783 * MIB,
        "torch_total_bytes": total - reserved,
    }
    (process,) = card["processes"]
    assert (process["pid"], process["kind"], process["used_bytes"]) == (worker.pid, "C", 93774 * MIB)
    assert process["start_time"] == ProcessTable().start_time(worker.pid)
    assert process["command"] == f"{cards.prefix}Worker_TP3 120" and process["executable"].endswith("sleep")
    assert result["unattributed"] == [] and result["problems"] == [] and result["notes"] == []
    assert len(result["topology"]["links"]) == 28 and result["topology"]["p2p"] is True
    assert {entry["node"] for entry in result["topology"]["numa"]} == {0, 1}


def test_torch_total_of_a_real_card() -> None:
    def run(arguments: Sequence[str], _seconds: float) -> tuple[int, str, str]:
        if "-q" in arguments:
            return 0, (DATA / "two_cards_q.xml").read_text(), ""
        if "topo" in arguments:
            name = "two_cards_topo_p2p.txt" if "-p2p" in arguments else "two_cards_topo.txt"
            return 0, (DATA / name).read_text(), ""
        lines = (DATA / "two_cards_query.csv").read_text().splitlines()
        names = [name.partition(" [")[0] for name in lines[0].split(", ")]
        rows = [dict(zip(names, line.split(", "), strict=True)) for line in lines[1:]]
        return 0, "".join(", ".join(row[field] for field in FIELDS) + "\n" for row in rows), ""

    result = report(NvidiaSmi(run, 5), ProcessTable(), None, 2)
    told = 150109880320  # torch's total_memory of this card, see nvml_torch.txt
    assert str(told) in (DATA / "nvml_torch.txt").read_text()
    assert 0 <= told - result["gpus"][0]["memory"]["torch_total_bytes"] < MIB
    assert result["gpus"][0]["processes"][0]["name"] == "./hold"
    assert result["topology"]["nvlink"] is True


def test_some_cards_by_index(cards: SimulatedCards) -> None:
    cards.look()
    result = ask(cards, gpus=[6, 1])
    assert [card["index"] for card in result["gpus"]] == [1, 6]
    assert result["topology"]["links"] == [{"gpus": [1, 6], "link": "SYS", "p2p": "OK"}]
    error = fail(cards, gpus=[0, 9])
    assert "no GPU 9" in str(error) and problem(error) == "gpu_missing"


def test_the_owner_of_a_holder(cards: SimulatedCards, tmp_path: Path) -> None:
    worker = cards.hold("Worker_TP0")
    lost = cards.hold("Worker_TP1")
    cards.look()
    proc = FakeProc(tmp_path / "proc")
    proc.mirror(worker.pid, cgroup=unit_line("vllm-glm5.service"))
    gpus = ask(cards, proc=tmp_path / "proc")["gpus"]
    assert gpus[0]["processes"][0]["unit"] == "vllm-glm5.service"
    (other,) = gpus[1]["processes"]
    assert other["pid"] == lost.pid and other["start_time"] is None and "namespace" in other["unknown"]["process"]


def test_driver_and_library_differ(cards: SimulatedCards, tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    version = proc.root / "driver" / "nvidia" / "version"
    version.parent.mkdir(parents=True)
    version.write_text((DATA / "driver_version.txt").read_text())
    cards.configure(faults={"driver_mismatch": "580.178"})
    error = fail(cards, proc=tmp_path / "proc")
    assert problem(error) == "driver_mismatch"
    assert (error.facts["loaded_version"], error.facts["library_version"]) == ("580.159.04", "580.178")
    assert "Reboot" in str(error)


@pytest.mark.parametrize(
    ("faults", "found", "code"),
    [
        ({"lost_card": 6}, 7, 0),
        ({"lost_card": 6, "lost_exit": 255}, 0, 255),
        ({"no_devices": True}, 0, 6),
    ],
)
def test_a_card_that_fell_off_the_bus(cards: SimulatedCards, faults: dict[str, Any], found: int, code: int) -> None:
    cards.look()
    cards.configure(faults=faults)
    error = fail(cards, expected_count=8)
    assert problem(error) == "gpu_missing"
    assert (error.facts["found"], error.facts["exit_code"]) == (found, code)
    if "lost_card" in faults:
        assert error.facts["lost_bus_ids"] == ["0000:BA:00.0"] and LOST in str(error)
        assert problem(fail(cards)) == "gpu_missing", "an error line counts without expected_count too"


def test_another_number_of_cards(cards: SimulatedCards) -> None:
    cards.look()
    error = fail(cards, expected_count=9)
    assert problem(error) == "gpu_missing" and "8 cards answer, 9 expected" in str(error)


def test_mig_on_a_chosen_card(cards: SimulatedCards) -> None:
    cards.look()
    cards.configure(faults={"mig": [1], "cells": {"2": {"mig.mode.current": "[N/A]"}}})
    error = fail(cards)
    assert error.facts["mig_enabled"] == [1] and "mig_enabled: [1]" in str(error)
    gpus = error.facts["gpus"]
    assert isinstance(gpus, list) and gpus[1]["unknown"]["memory.total"] == "permission"
    assert ask(cards, gpus=[0, 2])["gpus"][1]["mig"] is None


def test_a_number_that_is_not_told(cards: SimulatedCards) -> None:
    cards.look()
    cards.configure(faults={"cells": {"2": {"memory.used": "[N/A]", "power.draw": "[Unknown Error]"}}})
    result = ask(cards)
    assert result["gpus"][2]["memory"]["used_bytes"] is None and result["gpus"][2]["power_w"] is None
    assert result["gpus"][2]["unknown"] == {"memory.used": "n/a", "power.draw": "error"}
    assert [(found["gpu"], found["problem"]) for found in result["problems"]] == [(2, "memory_unknown")]


def test_utilization_is_no_sign_of_use(cards: SimulatedCards) -> None:
    cards.hold("Worker_TP2")
    cards.look()
    busy = {"utilization.gpu": "100", "power.draw": "101.00"}
    cards.configure(
        faults={
            "cells": {
                "0": {**busy, "memory.used": "0"},
                "1": {**busy, "memory.used": "624", "power.draw": "121.00"},
                "2": {**busy, "power.draw": "140.00"},
            }
        }
    )
    result = ask(cards)
    assert [(found["gpu"], found["problem"]) for found in result["problems"]] == [(1, "possible_wedge")]
    assert [note.split()[2] for note in result["notes"]] == ["0", "1"] and "util_latched" in result["notes"][0]
    assert result["unattributed"] == [{"gpu": 1, "bytes": 624 * MIB}]


def test_a_hung_tool_is_no_empty_host(cards: SimulatedCards) -> None:
    cards.configure(faults={"hang_s": 60})
    error = fail(cards, timeout=0.3)
    assert problem(error) == "timed_out" and "timed out after 0.3 s" in str(error)


def test_no_driver_and_no_tool(cards: SimulatedCards) -> None:
    assert problem(fail(cards)) == "nvidia_smi_failed", "the daemon has not run: the tool cannot reach a driver"
    with pytest.raises(ServingError, match="not installed") as caught:
        NvidiaSmi(lambda *_: (127, "", "timeout: failed to run command 'nvidia-smi'"), 5).log()
    assert problem(caught.value) == "no_nvidia_smi"


def test_an_unknown_topology_is_a_problem_only() -> None:
    def run(arguments: Sequence[str], _seconds: float) -> tuple[int, str, str]:
        if "topo" in arguments:
            return 255, "", "Topology is not supported"
        if "-q" in arguments:
            return 0, (DATA / "two_cards_q.xml").read_text(), ""
        return 0, f"0, {CARD}, 0:0, H200, 9.0, 580, 143771, 616, 4, 139630, Disabled, 0, 75\n", ""

    result = report(NvidiaSmi(run, 5), ProcessTable(), None, None)
    assert result["topology"] is None and result["problems"][0]["problem"] == "topology_unknown"


def test_a_bounded_command_ends_in_time() -> None:
    release = threading.Event()

    def run_command(_command: list[str], **_options: Any) -> tuple[int, str, str]:
        release.wait(30)
        return 0, "", ""

    started = time.monotonic()
    assert bounded(run_command)([sys.executable], -3.8)[0] == 124, "the thread is given up, whatever the command does"
    assert time.monotonic() - started < 5
    release.set()
    assert bounded(lambda *_, **__: (137, "", ""))(["x"], 1)[0] == 124


def test_an_error_of_the_runner_is_not_taken_for_a_command_that_hangs() -> None:
    def run_command(_command: list[str], **_options: Any) -> tuple[int, str, str]:
        raise ValueError("embedded null byte")

    with pytest.raises(ValueError, match="null byte"):
        bounded(run_command)(["x\0"], 5)
