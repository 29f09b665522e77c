# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Statistics that tell degenerate text (loops, one character for ever, foreign letters) from prose.

They do not see fluent nonsense: word salad has the statistics of prose. The limits and how they were found: the
collection's docs/calibration.md.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

WINDOW_CHARACTERS = 2000
TAIL_CHARACTERS = 800
_STEP = WINDOW_CHARACTERS // 2

MAX_ZLIB_RATIO = 4.0
MIN_DISTINCT_4GRAMS = 0.5
MAX_TOP_WORD_SHARE = 0.25
MAX_CHARACTER_RUN = 15
MAX_REPEATED_CHARACTERS = 200
MAX_FOREIGN_SHARE = 0.005

# Ratios and shares of a few words say nothing.
_MIN_ZLIB_BYTES = 500
_MIN_WORDS = 40
_MIN_LETTERS = 200

_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_RUN = re.compile(r"(\S)\1*")
# a unit of up to 100 characters that follows itself three times or more
_REPEATED = re.compile(r"(?s)(.{1,100}?)\1{3,}")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
# a rule of Markdown, a table's border: at most a screen's width of nothing but such characters
_RULE = re.compile(r"(?m)^[ \t]*(?=\S)[-=_*~─═|+: \t]{1,120}$")
_TABLE_ROW = re.compile(r"(?m)^[ \t]*\|.*$")


@dataclass(frozen=True)
class Statistics:
    """Of one window. None: the window is too short for it.

    zlib_ratio: UTF-8 bytes by compressed bytes; distinct_4grams: different sequences of four words by all of them;
    top_word_share: of the most frequent word; character_run: the longest run of one character; repeated: characters in
    the longest stretch in which one unit follows itself; foreign_share: of letters in no expected script; replaced:
    characters U+FFFD
    """

    zlib_ratio: float | None
    distinct_4grams: float | None
    top_word_share: float | None
    character_run: int
    repeated: int
    foreign_share: float | None
    replaced: int

    @property
    def problems(self) -> list[str]:
        """What no prose has, each with its number and limit."""
        found = []
        if self.zlib_ratio is not None and self.zlib_ratio > MAX_ZLIB_RATIO:
            found.append(f"loop: zlib ratio {self.zlib_ratio:.1f} > {MAX_ZLIB_RATIO}")
        if self.distinct_4grams is not None and self.distinct_4grams < MIN_DISTINCT_4GRAMS:
            found.append(f"loop: distinct 4-grams {self.distinct_4grams:.2f} < {MIN_DISTINCT_4GRAMS}")
        if self.top_word_share is not None and self.top_word_share > MAX_TOP_WORD_SHARE:
            found.append(f"loop: share of one word {self.top_word_share:.2f} > {MAX_TOP_WORD_SHARE}")
        if self.repeated > MAX_REPEATED_CHARACTERS:
            found.append(f"loop: {self.repeated} characters repeat one piece of text > {MAX_REPEATED_CHARACTERS}")
        if self.character_run > MAX_CHARACTER_RUN:
            found.append(f"character run: {self.character_run} times the same > {MAX_CHARACTER_RUN}")
        if self.foreign_share is not None and self.foreign_share > MAX_FOREIGN_SHARE:
            found.append(f"foreign letters: {self.foreign_share:.1%} in no expected script > {MAX_FOREIGN_SHARE:.1%}")
        if self.replaced:
            found.append(f"broken bytes: {self.replaced} times U+FFFD")
        return found


def windows(text: str) -> list[str]:
    """Overlapping pieces of WINDOW_CHARACTERS (a shorter text is one), the last one at the text's end, and the tail.

    A loop that began is not left again: at the end there is nothing else, however late it began.
    """
    last = max(0, len(text) - WINDOW_CHARACTERS)
    found = [text[start : start + WINDOW_CHARACTERS] for start in [*range(0, last, _STEP), last]]
    return found + ([text[-TAIL_CHARACTERS:]] if len(text) > TAIL_CHARACTERS else [])


def measure(window: str, scripts: Collection[str] = ()) -> Statistics:
    """The statistics of one window; scripts: as in `foreign_share`, none = any letter will do.

    Ratios and shares are those of the running text: a table repeats its cells.
    """
    prose = _TABLE_ROW.sub("", window)
    row = words(prose)
    return Statistics(
        zlib_ratio(prose),
        distinct_4grams(row),
        top_word_share(row),
        character_run(window),
        len(repeated(window)),
        foreign_share(window, scripts) if scripts else None,
        window.count("\ufffd"),
    )


def words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def zlib_ratio(text: str) -> float | None:
    data = text.encode(errors="replace")
    return len(data) / len(zlib.compress(data)) if len(data) >= _MIN_ZLIB_BYTES else None


def distinct_4grams(row: list[str]) -> float | None:
    grams = list(zip(row, row[1:], row[2:], row[3:], strict=False))
    return len(set(grams)) / len(grams) if len(row) >= _MIN_WORDS else None


def top_word_share(row: list[str]) -> float | None:
    return Counter(row).most_common(1)[0][1] / len(row) if len(row) >= _MIN_WORDS else None


def character_run(text: str) -> int:
    """White space and rules (rows of dashes and the like) are layout, no run."""
    return max((len(run[0]) for run in _RUN.finditer(_RULE.sub("", text))), default=0)


def repeated(text: str) -> str:
    """The longest stretch in which one unit with a letter or a digit follows itself; empty when there is none."""
    found = (match[0] for match in _REPEATED.finditer(text) if _LETTER_OR_DIGIT.search(match[1]))
    return max(found, key=len, default="")


def foreign_share(text: str, scripts: Collection[str]) -> float | None:
    """The share of letters in none of the scripts, which are first words of Unicode names (LATIN, GREEK, CJK, ...).

    Letter-like signs (micro, double-struck, mathematical, full-width) count as the letters that they stand for.
    """
    letters = [character for character in unicodedata.normalize("NFKC", text) if character.isalpha()]
    if len(letters) < _MIN_LETTERS:
        return None
    foreign = sum(unicodedata.name(letter, "UNNAMED").split()[0] not in scripts for letter in letters)
    return foreign / len(letters)
