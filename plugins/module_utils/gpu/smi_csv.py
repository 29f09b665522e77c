# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Rows of nvidia-smi's CSV output, whose cells are numbers only when all is well."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 1 << 20

NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:MiB|W|%|C|MHz|x)?", re.ASCII)
REASONS = {
    "n/a": "n/a",
    "not supported": "not_supported",
    "insufficient permissions": "permission",
    "unknown error": "error",
    "gpu is lost": "error",
    "gpu requires reset": "error",
    "not found": "not_found",
}


@dataclass(frozen=True)
class Cell:
    """text as printed; number without its unit, or None and the reason why there is none."""

    text: str
    number: float | None
    reason: str | None

    @property
    def bytes(self) -> int | None:
        """A number of MiB in bytes."""
        return None if self.number is None else int(self.number * MIB)


@dataclass(frozen=True)
class Table:
    """rows by field name; words: the lines between them that are no rows (a lost card is told in words)."""

    rows: list[dict[str, Cell]]
    words: list[str]


def read_cell(text: str) -> Cell:
    """A number only if the cell says one: 0 comes from "0" and from nothing else.

    Reasons: n/a, not_supported, permission, error, not_found, empty, not_a_number.
    """
    text = text.strip()
    if match := NUMBER.fullmatch(text):
        return Cell(text, float(match[1]), None)
    words = text.strip("[]").lower()
    return Cell(text, None, REASONS.get(words, "not_a_number" if words else "empty"))


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True, strict=True), [])]
    except csv.Error:
        return [cell.strip() for cell in line.split(",")]


def read_table(text: str, fields: Sequence[str]) -> Table:
    """The rows of a query for `fields`, with or without header, units and CRLF.

    A name with commas that was printed without quotes is put together again. A line that is neither the header nor a
    row for these fields (where `index` is asked for, it has to be a number) is kept in `words`.
    """
    rows: list[dict[str, Cell]] = []
    words: list[str] = []
    for line in re.split(r"\r?\n|\r", text):
        if not line.strip():
            continue
        cells = _cells(line)
        surplus = len(cells) - len(fields)
        if surplus > 0 and "name" in fields:
            start = list(fields).index("name")
            cells[start : start + surplus + 1] = [", ".join(cells[start : start + surplus + 1])]
        if [cell.partition(" [")[0] for cell in cells] == list(fields):
            continue
        row = dict(zip(fields, (read_cell(cell) for cell in cells), strict=False))
        whole = len(cells) == len(fields) and ("index" not in fields or cells[list(fields).index("index")].isdecimal())
        if whole:
            rows.append(row)
        else:
            words.append(line.strip())
    return Table(rows, words)
