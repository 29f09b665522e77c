# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_display import (
    Line,
    ProgressDisplay,
)

UP = "\x1b[1A\x1b[2K\r"


class Screen:
    """What Ansible's Display would have written where."""

    columns = 79

    def __init__(self) -> None:
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self.log: list[str] = []

    def display(
        self,
        msg: str,
        *,
        stderr: bool = False,
        screen_only: bool = False,
        log_only: bool = False,
        newline: bool = True,
    ) -> None:
        if not log_only:
            (self.stderr if stderr else self.stdout).append(msg)
        if not screen_only:
            self.log.append(msg)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(display: ProgressDisplay, clock: Clock, seconds: float, percents: list[float]) -> None:
    for percent in percents:
        display.update(Line("downloading", f"downloading {percent:g} %", percent))
        clock.now += seconds


def test_a_log_gets_the_first_line_and_every_tenth_percent(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=False, alone=True, clock=clock)
    run(display, clock, 1, list(range(31)))
    assert screen.stderr == [f"gpu1: downloading {percent} %" for percent in (0, 10, 20, 30)]
    assert screen.stdout == []
    assert screen.log == screen.stderr


def test_a_log_gets_a_line_every_half_minute_when_little_moves(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=False, alone=True, clock=clock)
    run(display, clock, 4, [40 + step / 100 for step in range(20)])
    assert len(screen.stderr) == 3  # at 0, 32 and 64 s


def test_another_state_is_said_at_once(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=False, alone=True, clock=clock)
    for state in ("resolving", "hashing", "hashing", "downloading"):
        display.update(Line(state, state, None))
    assert screen.stderr == ["gpu1: resolving", "gpu1: hashing", "gpu1: downloading"]


def test_a_percentage_that_falls_or_appears_is_said(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=False, alone=True, clock=clock)
    for percent in (None, None, 5, 3):
        display.update(Line("waiting", str(percent), percent))
    assert screen.stderr == ["gpu1: None", "gpu1: 5", "gpu1: 3"]


def test_a_terminal_with_one_host_rewrites_the_line(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=True, alone=True, clock=clock)
    run(display, clock, 1, [1, 1, 2])
    display.finish("done")
    assert screen.stdout == ["gpu1: downloading 1 %", f"{UP}gpu1: downloading 2 %", f"{UP}gpu1: done"]
    assert screen.log == ["gpu1: downloading 1 %", "gpu1: done"]
    assert screen.stderr == []


def test_without_a_summary_the_moving_line_is_taken_away(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=True, alone=True, clock=clock)
    run(display, clock, 1, [1])
    display.finish(None)
    assert screen.stdout[-1] == UP


def test_a_long_line_is_cut_so_that_it_can_be_taken_back(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=True, alone=True, clock=clock)
    display.update(Line("waiting", "x" * 200, None))
    assert len(screen.stdout[0]) == 79


def test_a_terminal_with_several_hosts_gets_lines(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=True, alone=False, clock=clock)
    run(display, clock, 1, [1, 1.2, 2.5])
    display.finish("done")
    assert screen.stdout == ["gpu1: downloading 1 %", "gpu1: downloading 2.5 %", "gpu1: done"]
    assert screen.log == ["gpu1: downloading 1 %", "gpu1: done"]


def test_a_short_task_shows_nothing_at_all(screen: Screen, clock: Clock) -> None:
    ProgressDisplay("gpu1", screen, terminal=False, alone=True, clock=clock).finish("done")
    assert screen.stdout == screen.stderr == screen.log == []


def test_a_line_that_stays_is_not_rewritten(screen: Screen, clock: Clock) -> None:
    display = ProgressDisplay("gpu1", screen, terminal=True, alone=True, clock=clock)
    run(display, clock, 1, [1])
    display.say("connection lost")
    run(display, clock, 1, [2])
    assert screen.stdout == ["gpu1: downloading 1 %", "gpu1: connection lost", "gpu1: downloading 2 %"]
