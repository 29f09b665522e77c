# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.counting import is_right
from hypothesis import given
from hypothesis import strategies as st

ROW = [str(number) for number in range(1, 51)]


@pytest.mark.parametrize(
    "text",
    [
        " ".join(ROW),
        ", ".join(ROW),
        "\n".join(ROW),
        f"Here is the count from 1 to 50:\n\n{', '.join(ROW)}\n\nThat was 1 to 50.",
    ],
)
def test_right_counts(text: str) -> None:
    assert is_right(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "J4 1 1 1 1",
        "+" * 200,
        " ".join(ROW[:-1]),
        " ".join([*ROW, "51"]),
        " ".join(ROW * 2),
        "1 2 3 5 8 13",
        " ".join(reversed(ROW)),
    ],
)
def test_wrong_counts(text: str) -> None:
    assert not is_right(text)
    assert not is_right(text, cut=True) or text == " ".join(ROW[:-1])


@given(st.integers(0, 48))
def test_one_missing_number_is_seen(index: int) -> None:
    assert not is_right(" ".join(ROW[:index] + ROW[index + 1 :]))


@given(st.integers(5, 140))
def test_a_cut_row_is_right_as_far_as_it_goes(length: int) -> None:
    text = " ".join(ROW)[:length]
    assert is_right(text, cut=True)
    assert is_right(text) == (length >= len(" ".join(ROW)))
    assert not is_right(text.replace("3", "7", 1), cut=True)
