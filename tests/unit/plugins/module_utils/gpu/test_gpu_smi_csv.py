# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells are numbers only when they say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.smi_csv import MIB, read_cell, read_table
from hypothesis import given, settings
from hypothesis import strategies as st

REAL = Path(__file__).resolve().parents[3] / "data" / "gpu"
FIELDS = ("index", "name", "memory.used", "memory.total", "compute_cap")
ODD = """index, name, memory.used [MiB], memory.total [MiB], compute_cap
0, NVIDIA RTX PRO 6000 Blackwell Server Edition, 3 MiB, 97887 MiB, 12.0
1, NVIDIA RTX PRO 6000 Blackwell Server Edition, [N/A], 97887 MiB, 12.0
2, NVIDIA RTX PRO 6000 Blackwell Server Edition, [Insufficient Permissions], [Insufficient Permissions], [Not Supported]
3, NVIDIA RTX PRO 6000 Blackwell Server Edition, [Unknown Error], 97887 MiB, 12.0
4, "Card, with comma", 5, 97887, 12.0
5, Card, without quotes, 6, 97887, 12.0
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_odd_cells(newline: str) -> None:
    table = read_table(ODD.replace("\n", newline), FIELDS)
    used = [row["memory.used"] for row in table.rows]
    assert [cell.number for cell in used] == [3, None, None, None, 5, 6]
    assert [cell.reason for cell in used] == [None, "n/a", "permission", "error", None, None]
    assert [row["name"].text for row in table.rows[4:]] == ["Card, with comma", "Card, without quotes"]
    assert table.rows[2]["compute_cap"].reason == "not_supported"
    assert table.words == []


def test_rows_without_a_header_and_units() -> None:
    table = read_table("".join(ODD.splitlines(keepends=True)[1:]).replace(" MiB", ""), FIELDS)
    assert len(table.rows) == 6 and table.rows[0]["memory.used"].bytes == 3 * MIB


def test_an_error_line_is_no_row() -> None:
    lost = "Unable to determine the device handle for GPU0000:BA:00.0: Unknown Error"
    table = read_table(f"0, GPU-a, 3\n{lost}\nodd, GPU-b, 3\n7, GPU-h, 3\n", ("index", "uuid", "memory.used"))
    assert [row["index"].text for row in table.rows] == ["0", "7"]
    assert len(table.words) == 2 and "0000:BA:00.0" in table.words[0]


def test_the_real_output_of_two_cards() -> None:
    text = (REAL / "two_cards_query.csv").read_text()
    fields = [name.partition(" [")[0] for name in text.splitlines()[0].split(", ")]
    table = read_table(text, fields)
    assert table.words == []
    assert [row["memory.used"].bytes for row in table.rows] == [3527 * MIB, 4 * MIB]
    assert [row["power.draw"].number for row in table.rows] == [118.69, 75.93]
    assert table.rows[0]["fan.speed"].reason == "n/a"


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_number_or_has_a_reason(text: str) -> None:
    cell = read_cell(text)
    assert (cell.number is None) == (cell.reason is not None)
    if cell.number == 0:
        assert "0" in text


@settings(deadline=None)
@given(st.integers(0, 2**40), st.sampled_from(["", " MiB", " %", " W"]), st.sampled_from(["", " ", "  "]))
def test_numbers_with_any_unit(number: int, unit: str, space: str) -> None:
    assert read_cell(f"{space}{number}{unit}{space}").number == number


@settings(deadline=None)
@given(st.text(), st.lists(st.sampled_from(FIELDS), min_size=1, unique=True))
def test_any_output_is_read_without_a_traceback(text: str, fields: list[str]) -> None:
    table = read_table(text, fields)
    assert all(set(row) == set(fields) for row in table.rows)
