# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory is free when it has been read as free, three times on end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.nvidia_smi import NvidiaSmi
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.settle import prove_free
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.smi_csv import MIB

XML = (Path(__file__).resolve().parents[3] / "data" / "gpu" / "two_cards_q.xml").read_text()
CARD = "GPU-7c1e90b4-35da-4f82-91b6-0d2a84c7e5f3"


class Curve:
    """GPU 0 uses what the curve says, one value a second; the last for ever. GPU 1 is idle."""

    def __init__(self, *values: int | str) -> None:
        self.values, self.second = values, 0

    def __call__(self, arguments: Sequence[str], _seconds: float) -> tuple[int, str, str]:
        if "-q" in arguments:
            return 0, XML, ""
        if "uuid" in arguments[1]:
            return 0, f"index, uuid\n0, {CARD}\n1, GPU-other\n", ""
        value = self.values[min(self.second, len(self.values) - 1)]
        return 0, f"index, memory.used [MiB]\n0, {value} MiB\n1, 4 MiB\n", ""

    def wait(self) -> None:
        self.second += 1

    def prove(self, timeout: float = 30) -> dict[int, int]:
        return prove_free(
            NvidiaSmi(self, 5), [0, 1], 1024 * MIB, timeout, clock=lambda: float(self.second), wait=self.wait
        )


def test_memory_that_comes_back_slowly() -> None:
    curve = Curve(91000, 91000, 60000, 20000, 900, 4, 4, 4)
    assert curve.prove() == {0: 4 * MIB, 1: 4 * MIB}
    assert curve.second == 6, "the seventh reading is the third at or under the floor"


def test_one_free_reading_proves_nothing() -> None:
    with pytest.raises(ServingError, match=r"GPU 0: 52000 MiB, held by pid 564") as caught:
        Curve(91000, 1000, 52000).prove()
    assert caught.value.facts["not_free"] == [{"gpu": 0, "used_bytes": 52000 * MIB, "pids": [564]}]


@pytest.mark.parametrize("word", ["[N/A]", "[Unknown Error]"])
def test_a_card_that_cannot_be_read_is_not_free(word: str) -> None:
    with pytest.raises(ServingError, match="GPU 0: unreadable"):
        Curve(word).prove()


def test_a_service_that_may_stay_and_was_just_starting_is_not_waited_for() -> None:
    curve = Curve(4, 4, 91000)

    def prove(staying: set[int]) -> dict[int, int]:
        smi = NvidiaSmi(curve, 5)
        return prove_free(
            smi, [0, 1], 1024 * MIB, 30, exempt=lambda: staying, clock=lambda: float(curve.second), wait=curve.wait
        )

    assert prove({0}) == {1: 4 * MIB}
    assert curve.second == 2
    with pytest.raises(ServingError, match="GPU 0: 91000 MiB"):
        prove({1})


def test_the_floor_itself_is_free() -> None:
    assert Curve(1024).prove()[0] == 1024 * MIB
    with pytest.raises(ServingError, match="1025 MiB"):
        Curve(1025).prove()


def test_no_card_needs_no_reading() -> None:
    def never(_arguments: Sequence[str], _seconds: float) -> tuple[int, str, str]:
        raise AssertionError

    assert prove_free(NvidiaSmi(never, 5), [], 0, 0) == {}
