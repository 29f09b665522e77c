# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.blackwell.serving.plugins.plugin_utils.quantities import (
    duration,
    percent,
    printable,
    share,
    size,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_234_567_890, "1.2 GB"),
        (9_960_000_000, "10 GB"),
        (999_600_000, "1.0 GB"),
        (591_030_000_000, "591 GB"),
        (5e15, "5000 TB"),
    ],
)
def test_sizes_are_decimal(count: float, text: str) -> None:
    assert size(count) == text


def test_a_share_is_in_the_unit_of_the_whole() -> None:
    assert share(221e9, 540e9) == "221/540 GB"
    assert share(200e6, 3.6e9) == "0.2/3.6 GB"
    assert share(5, 12) == "5/12 B"


def test_a_hundred_percent_means_all() -> None:
    assert percent(539.99e9, 540e9) == 99
    assert percent(540e9, 540e9) == 100
    assert percent(1, 0) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (59.7, "1 min"), (240, "4 min"), (3599, "1 h"), (7500, "2 h 5 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.text())
def test_no_text_of_a_host_steers_the_terminal(text: str) -> None:
    assert all(character.isprintable() for character in printable("\x1b[2J" + text))


@given(st.integers(0, 10**16), st.integers(0, 10**16))
def test_any_numbers_can_be_shown(done: int, total: int) -> None:
    assert 0 <= percent(done, total) <= 100
    assert share(done, total) and size(done) and duration(done)
