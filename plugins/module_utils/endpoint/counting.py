# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The counting request: its one right answer proves that the measured tokens mean something."""

from __future__ import annotations

import re

LAST = 50
PROMPT = f"Count from 1 to {LAST}."
MAX_TOKENS = 512


def is_right(text: str, *, last: int = LAST, cut: bool = False) -> bool:
    """Whether the text counts from 1 to `last` without a gap.

    Numbers before or after the row may only repeat its ends ("Here is 1 to 50: ..."). With `cut` (the token limit
    ended the answer) the row may stop anywhere, and its last number may be half written.
    """
    numbers = re.findall(r"\d+", text)
    row = [str(number) for number in range(1, last + 1)]
    if any(number not in row for number in numbers):
        return False
    starts = _starts(numbers)
    if len(starts) != 1:
        return False
    before, rest = numbers[: starts[0]], numbers[starts[0] :]
    if any(number not in ("1", str(last)) for number in before):
        return False
    if rest[:last] == row:
        return all(number in ("1", str(last)) for number in rest[last:])
    if not cut or len(rest) > last:
        return False
    *whole, end = rest
    return whole == row[: len(whole)] and row[len(whole)].startswith(end)


def first_slip(text: str, *, last: int = LAST) -> str | None:
    """Where the row leaves its order ("after 37 comes 39"), or None where it does not or there is no row."""
    numbers = re.findall(r"\d+", text)
    for start in _starts(numbers)[:1]:
        for expected, number in enumerate(numbers[start : start + last], start=1):
            if number != str(expected):
                return f"after {expected - 1} comes {number}"
        if (length := len(numbers) - start) < last:
            return f"it ends at {length}"
    return None


def _starts(numbers: list[str]) -> list[int]:
    """An introduction may hold "1" and "50"; the row begins where 1 is followed by 2."""
    return [index for index in range(len(numbers)) if numbers[index : index + 2] == ["1", "2"]]
