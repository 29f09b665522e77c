# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The XML of `nvidia-smi -q -x`, as printed and as processes with odd titles make it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.smi_csv import MIB
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.smi_xml import SmiProcess, read_log
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(__file__).resolve().parents[3] / "data" / "gpu"
REAL = (DATA / "two_cards_q.xml").read_text()
CARD = "GPU-7c1e90b4-35da-4f82-91b6-0d2a84c7e5f3"


def test_the_real_output_of_two_cards() -> None:
    log = read_log(REAL)
    assert (log.driver, log.cuda) == ("580.159.04", "13.0")
    assert log.processes[CARD] == [SmiProcess(564, "C", "./hold", 3518 * MIB)]
    assert list(log.processes.values())[1] == []


def test_the_real_output_of_a_card_that_five_engines_share() -> None:
    ((_card, found),) = read_log((DATA / "five_engines_q.xml").read_text()).processes.items()
    assert {process.name for process in found} == {"VLLM::EngineCore"}
    assert [process.kind for process in found] == ["C"] * 5
    assert all(6500 * MIB < (process.used_bytes or 0) < 7000 * MIB for process in found)


@settings(deadline=None)
@given(st.text())
def test_a_title_hides_nobody(title: str) -> None:
    if "</process_name>" in title:
        return
    log = read_log(REAL.replace("./hold", title))
    assert [process.pid for process in log.processes[CARD]] == [564]


def test_several_contexts_of_a_process_are_one_entry() -> None:
    start = REAL.index("\t\t\t<process_info>")
    end = REAL.index("</process_info>") + len("</process_info>\n")
    block = REAL[start:end]
    twice = REAL.replace(block, block + block.replace("<type>C<", "<type>G<").replace("3518 MiB", "10 MiB"))
    assert read_log(twice).processes[CARD] == [SmiProcess(564, "C+G", "./hold", 3528 * MIB)]
    hidden = REAL.replace(block, block + block.replace("3518 MiB", "N/A"))
    assert read_log(hidden).processes[CARD][0].used_bytes is None


def test_words_before_the_xml_are_kept() -> None:
    log = read_log("Unable to determine the device handle for GPU0000:BA:00.0: Unknown Error\n" + REAL)
    assert log.words == ["Unable to determine the device handle for GPU0000:BA:00.0: Unknown Error"]


@pytest.mark.parametrize("text", ["", "garbage", REAL[:500]])
def test_what_is_no_xml_is_an_error(text: str) -> None:
    with pytest.raises(ServingError, match="cannot be read"):
        read_log(text)
