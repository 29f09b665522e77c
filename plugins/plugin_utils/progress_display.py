# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Showing how far a task is: in a terminal as it moves, in a log now and then.

Ansible's workers have no terminal of their own and its main process flushes no pipe, so that what is written to a
piped standard output appears only when the task has ended. Without a terminal the lines go to standard error, which
appears at once, and which leaves what a callback plugin writes to standard output as it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

# Strategies import the action, and this file with it, in the main process, which has the terminal.
IS_TERMINAL = sys.stdout is not None and sys.stdout.isatty()

UP_AND_CLEAR = "\x1b[1A\x1b[2K\r"


@dataclass(frozen=True)
class Line:
    """state: what is being done; a change of it is always shown. percent: how much of that, None where unknown."""

    state: str
    text: str
    percent: float | None


class Output(Protocol):
    """The part of ansible.utils.display.Display that is needed."""

    columns: int

    def display(
        self, msg: str, *, stderr: bool = ..., screen_only: bool = ..., log_only: bool = ..., newline: bool = ...
    ) -> None: ...


class Cadence:
    """When a line is due: the first one, another state, `step` percent more, or `seconds` later."""

    def __init__(self, step: float, seconds: float, clock: Callable[[], float]) -> None:
        self._step, self._seconds, self._clock = step, seconds, clock
        self._last: Line | None = None
        self._at = 0.0

    def due(self, line: Line) -> bool:
        now, last = self._clock(), self._last
        if last is not None and now - self._at < self._seconds and not self._moved(last, line):
            return False
        self._last, self._at = line, now
        return True

    def _moved(self, last: Line, line: Line) -> bool:
        if last.state != line.state:
            return True
        if last.percent is None or line.percent is None:
            return last.percent is not line.percent
        return not 0 <= line.percent - last.percent < self._step


class ProgressDisplay:
    """Lines of one host.

    alone: no other host's output comes between, so that a terminal's line may be rewritten in place
    """

    def __init__(
        self,
        host: str,
        output: Output,
        *,
        terminal: bool,
        alone: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._output, self._terminal, self._alone = host, output, terminal, alone
        self._log = Cadence(10, 30, clock)
        self._screen = Cadence(1, 5, clock)
        self._in_place: str | None = None
        self.shown = False

    def update(self, line: Line) -> None:
        text = f"{self._host}: {line.text}"
        if self._log.due(line):
            self.shown = True
            self._output.display(text, stderr=not self._terminal, log_only=self._terminal)
        if self._terminal and self._alone:
            self._rewrite(text)
        elif self._terminal and self._screen.due(line):
            self._output.display(text, screen_only=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        self._in_place = None
        self.shown = True
        self._output.display(f"{self._host}: {text}", stderr=not self._terminal)

    def finish(self, summary: str | None) -> None:
        """The task has ended; its summary takes the place of the moving line."""
        if self._in_place is not None:
            text = f"{self._host}: {summary}" if summary else ""
            self._output.display(UP_AND_CLEAR + text, screen_only=True, newline=bool(text))
            self._in_place = None
            if text:
                self._output.display(text, log_only=True)
        elif self.shown and summary:
            self.say(summary)

    def _rewrite(self, text: str) -> None:
        text = text[: self._output.columns]  # a line that wraps could not be taken back
        if text != self._in_place:
            self._output.display((UP_AND_CLEAR if self._in_place is not None else "") + text, screen_only=True)
            self._in_place = text
