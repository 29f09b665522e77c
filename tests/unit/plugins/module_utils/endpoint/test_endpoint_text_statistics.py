# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import random

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import special_tokens
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import text_statistics as statistics
from hypothesis import example, given, settings
from hypothesis import strategies as st

PROSE = (
    "A refrigerator moves heat from a cold place to a warm one, which heat would never do by itself. A compressor "
    "squeezes a gas until it is hot and dense, and a long coil at the back gives that heat to the room. The gas "
    "becomes a liquid there, passes a narrow valve, and boils in the coil inside, where the pressure is low. Boiling "
    "takes heat from the food around it, so the box grows cold while the kitchen becomes a little warmer. A "
    "thermostat stops the motor when the chosen temperature is reached and starts it again when warm air has found "
    "its way in. Good insulation keeps the pauses long, and a clean coil keeps the motor's work short. Nothing in this "
    "circle is used up; the same few spoonfuls of gas go round for many years, hidden behind a wall of metal."
)
TABLE = "| card | state | ECC |\n|------|----------------------|-----|\n" + "".join(
    f"| {number} | ok and idle | enabled |\n" for number in range(24)
)
CODE = "for row in rows:\n                    print(row)\n" + "}\n" * 40
NUMBERS = [str(number) for number in range(1, 51)]
LETTERS = st.sampled_from("abcdefghijklmnopqrstuvwxyz")
WORDS = st.text(LETTERS, min_size=2, max_size=9)


def problems(text: str, scripts: tuple[str, ...] = ("LATIN",)) -> list[str]:
    """What any window of the text shows."""
    found = [statistics.measure(window, scripts).problems for window in statistics.windows(text)]
    return list(itertools.chain(*found))


@pytest.mark.parametrize(
    "text",
    [
        *(PROSE, f"{PROSE}\n\n{TABLE}\n{PROSE}", TABLE, CODE),
        *(" ".join(NUMBERS), ", ".join(NUMBERS), "\n".join(NUMBERS)),
        *("Wow!!! Great.", "", "Paris", "Title\n" + "=" * 40 + "\n" + PROSE, "-" * 80 + "\n" + PROSE),
    ],
)
def test_nothing_is_found_in_prose_tables_code_and_numbers(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("!" * 512, "character run: 512"),
        ("!" * 512, "zlib ratio 36.6"),
        ("+" * 200, "character run: 200"),
        ("-" * 400, "character run: 400"),
        ("duct" * 128, "zlib ratio 30.1"),
        ("duct" * 128, "512 characters repeat"),
        ("the " * 120, "share of one word 1.00"),
        ("the " * 120, "distinct 4-grams 0.01"),
        (f"{PROSE} " + "and so on to the end of it " * 30, "characters repeat"),
        (f"{PROSE} " * 6, "zlib ratio"),
        (f"{PROSE} \ufffd", "broken bytes: 1"),
        (f"{PROSE} 但是冰箱里的食物都是冷的", "foreign letters"),
        (f"{PROSE} холодильник", "foreign letters"),
    ],
)
def test_degenerate_texts_are_found(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(text))


def test_nonsense_with_the_statistics_of_prose_is_not_found() -> None:
    words = statistics.words(PROSE) * 2
    random.Random(7).shuffle(words)
    assert problems(" ".join(words)) == []


@given(st.lists(WORDS, min_size=1, max_size=40), st.integers(0, 4000))
@settings(max_examples=40, deadline=None)
def test_a_loop_is_found_however_late_it_begins(unit: list[str], begins: int) -> None:
    rng = random.Random(begins)
    before = " ".join("".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _word in range(800))[:begins]
    again = f" {' '.join(unit)}"
    assert problems(before + again * (1200 // len(again) + 1))


@given(st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_sentences_of_many_words_are_no_loop(seed: int) -> None:
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _word in range(300)]
    assert problems(" ".join(rng.choices(vocabulary, k=rng.randint(1, 700)))) == []


@given(st.integers(0, 9000))
@example(800)
@example(2000)
@example(2001)
@settings(deadline=None)
def test_windows_hold_the_whole_text_and_its_tail(length: int) -> None:
    text = "".join(chr(0x100 + number) for number in range(length))  # no character twice
    windows = statistics.windows(text)
    assert all(window in text and len(window) <= statistics.WINDOW_CHARACTERS for window in windows)
    assert set().union(*windows) == set(text)
    if length > statistics.TAIL_CHARACTERS:
        assert windows[-1] == text[-statistics.TAIL_CHARACTERS :]
    if length > statistics.WINDOW_CHARACTERS:
        # a stretch of half a window lies in one of them
        assert all(any(text[at : at + 1000] in window for window in windows) for at in range(0, length - 1000, 97))


@given(st.text(st.sampled_from("ab!+ \n"), max_size=60))
@settings(deadline=None)
def test_character_run_is_the_longest_run_of_one_visible_character(text: str) -> None:
    runs = [len(list(run)) for character, run in itertools.groupby(text) if character.strip()]
    # rows of nothing but "+" are borders of tables
    if not any(line.strip() and set(line.strip()) <= {"+", " "} for line in text.split("\n")):
        assert statistics.character_run(text) == max(runs, default=0)


@given(WORDS, st.integers(4, 30))
@settings(deadline=None)
def test_repeated_is_what_repeats(unit: str, times: int) -> None:
    found = statistics.repeated(f"{PROSE} {unit * times}")
    assert len(found) >= len(unit) * times - 1
    assert statistics.repeated(PROSE) == ""


@given(st.integers(1, 400))
@settings(deadline=None)
def test_foreign_share_counts_letters(foreign: int) -> None:
    letters = sum(character.isalpha() for character in PROSE)
    share = statistics.foreign_share(PROSE + "段" * foreign, ["LATIN"])
    assert share == pytest.approx(foreign / (letters + foreign))
    assert statistics.foreign_share(PROSE + "段" * foreign, ["LATIN", "CJK"]) == 0


def test_letters_that_stand_for_others_and_short_texts() -> None:
    assert statistics.foreign_share(PROSE + "ℝ𝑥ＡＢª", ["LATIN"]) == 0
    assert statistics.foreign_share(PROSE + "µΩ" * 9, ["LATIN", "GREEK"]) == 0
    assert statistics.foreign_share("段", ["LATIN"]) is None
    short = statistics.measure("one two three", ())
    assert (short.zlib_ratio, short.distinct_4grams, short.top_word_share, short.foreign_share) == (None,) * 4


@pytest.mark.parametrize(
    ("text", "markup", "think"),
    [
        ("It is 4.</think>4", "</think>", True),
        ("<think>hm", "<think>", True),
        ("ok<|tool_calls_section_begin|>", "<|", False),
        ("ok<|im_end|>", "<|", False),
        ("<\uff5ctool\u2581calls\u2581begin\uff5c>", "<\uff5c", False),
        ('<tool_call>{"name": "f"}', "<tool_call>", False),
        ("[TOOL_CALLS][", "[TOOL_CALLS]", False),
        ("</s>", "</s>", False),
    ],
)
def test_markup_is_told(text: str, markup: str, think: bool) -> None:
    assert special_tokens.leaked(text) == markup
    assert special_tokens.is_think_tag(markup) == think


@pytest.mark.parametrize(
    "text", ["", "The list tool_calls holds them", "I think, therefore", "a < b | c > d", "[x] done", "<span>a</span>"]
)
def test_ordinary_text_holds_no_markup(text: str) -> None:
    assert special_tokens.leaked(text) is None
