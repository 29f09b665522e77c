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
_NUMBER = re.compile(r"\d+")


def is_right(text: str, *, last: int = LAST, cut: bool = False) -> bool:
    """Whether the text counts from 1 to `last` without a gap.

    Words before or after the row may name its ends ("Here is 1 to 50: ..."). With `cut` (the token limit ended the
    answer) the row may stop anywhere, and its last number may be half written.
    """
    found = list(_NUMBER.finditer(text))
    numbers = [match[0] for match in found]
    row = [str(number) for number in range(1, last + 1)]
    starts = _starts(numbers)
    if len(starts) != 1:
        return False
    begin = starts[0]
    end = begin + last
    if any(number not in ("1", str(last)) for number in numbers[:begin] + numbers[end:]):
        return False
    if begin and _is_doubled(text, found[begin - 1], found[begin]):
        return False
    if numbers[begin:end] == row:
        return len(numbers) == end or not _is_doubled(text, found[end - 1], found[end])
    *whole, half = numbers[begin:]
    return cut and len(whole) < last and whole == row[: len(whole)] and row[len(whole)].startswith(half)


def numbers(text: str) -> int:
    """How many numbers the text holds, each of which is a token at least."""
    return len(_NUMBER.findall(text))


def first_slip(text: str, *, last: int = LAST) -> str | None:
    """Where the row leaves its order ("after 37 comes 39"), or None where it does not or there is no row."""
    numbers = _NUMBER.findall(text)
    for start in _starts(numbers)[:1]:
        for expected, number in enumerate(numbers[start : start + last], start=1):
            if number != str(expected):
                return f"after {expected - 1} comes {number}"
        if (length := len(numbers) - start) < last:
            return f"it ends at {length}"
        if length > last:
            return f"after {last} comes {numbers[start + last]}"
    return None


def _is_doubled(text: str, one: re.Match[str], other: re.Match[str]) -> bool:
    """One number said twice in a row ("49 50 50"), rather than once more in a remark about the row."""
    between = text[one.end() : other.start()]
    return one[0] == other[0] and not any(character.isalpha() or character == ":" for character in between)


def _starts(numbers: list[str]) -> list[int]:
    """An introduction may hold "1" and "50"; the row begins where 1 is followed by 2."""
    return [index for index in range(len(numbers)) if numbers[index : index + 2] == ["1", "2"]]
