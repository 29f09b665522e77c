# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated cards have the forms of the real tool and follow the live processes of the host."""

from __future__ import annotations

import importlib.machinery
import json
import shutil
import types
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulation.cards.beside import HERE, SimulatedCards
from simulation.cards.proc import FakeProc

pytestmark = pytest.mark.slow

REAL = Path(__file__).resolve().parents[1] / "data" / "gpu"
CSV = "--format=csv,noheader,nounits"


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[SimulatedCards]:
    simulated = SimulatedCards(tmp_path)
    yield simulated
    simulated.stop()


def used(cards: SimulatedCards) -> list[int]:
    return [int(line) for line in cards.smi("--query-gpu=memory.used", CSV)[1].split()]


def test_eight_idle_cards(cards: SimulatedCards) -> None:
    cards.look()
    code, out = cards.smi("--query-gpu=index,name,compute_cap,memory.total,memory.free,memory.reserved", "--format=csv")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 9
    assert lines[0] == "index, name, compute_cap, memory.total [MiB], memory.free [MiB], memory.reserved [MiB]"
    assert lines[1] == "0, NVIDIA RTX PRO 6000 Blackwell Server Edition, 12.0, 97887 MiB, 97245 MiB, 638 MiB"
    assert cards.smi("--query-compute-apps=pid", "--format=csv") == (0, "pid\n")
    assert cards.smi("-L")[1].count("NVIDIA RTX PRO 6000 Blackwell Server Edition (UUID: GPU-") == 8
    assert "No running processes found" in cards.smi()[1]


def test_a_worker_holds_the_card_of_its_rank(cards: SimulatedCards) -> None:
    worker = cards.hold("Worker_TP3")
    moved = cards.hold("Worker_PP0_TP1", CUDA_VISIBLE_DEVICES="6,7")
    cards.look()
    assert used(cards) == [4, 4, 4, 93783, 4, 4, 4, 93783]
    title = cards.prefix + "Worker_TP3"
    rows = cards.smi("--query-compute-apps=pid,process_name,used_memory", CSV)[1].splitlines()
    assert rows == [f"{worker.pid}, {title}, 93774", f"{moved.pid}, {cards.prefix}Worker_PP0_TP1, 93774"]
    assert f"{title[:35]:<35}" in cards.smi()[1]


def test_an_engine_core_holds_its_visible_cards(cards: SimulatedCards) -> None:
    cards.hold("EngineCore_DP0", CUDA_VISIBLE_DEVICES="5,6")
    cards.hold("EngineCore", CUDA_VISIBLE_DEVICES="")
    cards.look()
    share = int(0.90 * (97887 - 638))
    assert used(cards) == [share, 4, 4, 4, 4, share, share, 4]


def test_memory_of_an_ended_process_comes_back_late_and_in_steps(tmp_path: Path) -> None:
    loader = importlib.machinery.SourceFileLoader("cards_daemon", str(HERE / "cards-daemon"))
    daemon = types.ModuleType(loader.name)
    loader.exec_module(daemon)
    daemon.PROC = tmp_path  # type: ignore[attr-defined]
    FakeProc(tmp_path).add(10, "VLLM::Worker_TP0")
    config = json.loads((HERE / "cards.json").read_text())
    cards = daemon.Cards()

    def look(second: float) -> tuple[int, int]:
        card = cards.look(config, second)["cards"][0]
        return card["used_mib"], len(card["processes"])

    assert look(0) == (93783, 1)
    shutil.rmtree(tmp_path / "10")
    curve = [look(second) for second in (1, 3.9, 4.4, 4.5, 5.0, 5.5, 60)]
    assert curve == [(used, 0) for used in (93774, 93774, 93774, 62516, 31258, 4, 4)]


def test_xml_nests_as_the_real_one(cards: SimulatedCards) -> None:
    cards.hold("Worker_TP0")
    cards.look()

    def paths(text: str) -> set[str]:
        found = set()

        def walk(element: ET.Element, path: str) -> None:
            found.add(path)
            for child in element:
                walk(child, f"{path}/{child.tag}")

        walk(ET.fromstring(text), "")  # noqa: S314
        return found

    code, out = cards.smi("-q", "-x")
    real = (REAL / "two_cards_q.xml").read_text()
    assert code == 0
    assert paths(out) <= paths(real)
    assert out.splitlines()[:3] == real.splitlines()[:3]


@pytest.mark.parametrize(
    ("arguments", "real", "count"),
    [(("topo", "-m"), "two_cards_topo.txt", 8), (("topo", "-p2p", "r"), "two_cards_topo_p2p.txt", 8)],
)
def test_topology_has_the_real_form(cards: SimulatedCards, arguments: tuple[str, ...], real: str, count: int) -> None:
    cards.look()
    ours, theirs = cards.smi(*arguments)[1], (REAL / real).read_text()
    assert ours.partition("Legend")[2] == theirs.partition("Legend")[2]
    header = "\t".join(f"GPU{index}" for index in range(count))
    assert ours.splitlines()[0] == theirs.splitlines()[0].replace("GPU0\tGPU1", header)
    assert ours.splitlines()[1].count("\t") == theirs.splitlines()[1].count("\t") + count - 2


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--query-gpu=index,foo", "--format=csv"), 2, 'Field "foo" is not a valid field to query.\n\n'),
        (("--query-compute-apps=foo", "--format=csv"), 2, 'Field "foo" is not a valid field to query.\n\n'),
        (("--query-gpu=index", "--format=xml"), 2, "Format modifier is not recognized.\n"),
        (("-i", "9", "--query-gpu=index", "--format=csv"), 6, "No devices were found\n"),
        (("--frob",), 255, "ERROR: Option --frob is not recognized. Please run 'nvidia-smi -h'.\n\n"),
    ],
)
def test_refusals_are_the_real_ones(cards: SimulatedCards, arguments: tuple[str, ...], code: int, text: str) -> None:
    cards.look()
    assert cards.smi(*arguments) == (code, text)


def test_without_the_daemon_there_is_no_driver(cards: SimulatedCards) -> None:
    code, out = cards.smi("-L")
    assert code == 9 and "couldn't communicate with the NVIDIA driver" in out


def test_faults(cards: SimulatedCards) -> None:
    cards.look()
    query = ("--query-gpu=index,memory.used,mig.mode.current", CSV)
    cards.configure(faults={"driver_mismatch": "580.178"})
    assert cards.smi("-L") == (
        18,
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178\n",
    )
    cards.configure(faults={"no_devices": True})
    assert cards.smi("-L") == (6, "No devices were found\n")
    cards.configure(faults={"mig": [1], "cells": {"2": {"memory.used": "[Unknown Error]"}}})
    lines = cards.smi(*query)[1].splitlines()
    assert lines[:3] == ["0, 4, Disabled", "1, [Insufficient Permissions], Enabled", "2, [Unknown Error], Disabled"]
    lost = "Unable to determine the device handle for GPU0000:BA:00.0: Unknown Error"
    cards.configure(faults={"lost_card": 6})
    code, out = cards.smi(*query)
    assert code == 0 and out.splitlines()[6] == lost and len(out.splitlines()) == 8
    cards.configure(faults={"lost_card": 6, "lost_exit": 255})
    assert cards.smi(*query) == (255, lost + "\n")
    cards.configure(faults={"hang_s": 60})
    assert cards.run(["nvidia-smi", "-L"], 0.3)[0] == 124
