# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What follows when a condition cannot be told: both ways are followed, and only what both yield is a fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .values import Unknown

MOST_WAYS = 64

Result = TypeVar("Result")


@dataclass(frozen=True)
class Way(Generic[Result]):
    """One way through the source, and the conditions that it takes for true or false."""

    result: Result
    assumed: dict[Unknown, bool]


class TooManyWays(Exception):
    """More conditions cannot be told than are worth following."""

    def __init__(self, unknown: Unknown) -> None:
        self.unknown = unknown
        super().__init__(str(unknown))


class Decisions:
    """The conditions met on the present way; one and the same unknown is decided once."""

    def __init__(self) -> None:
        self.made: dict[Unknown, bool] = {}
        self.consulted = 0
        self._script: list[bool] = []

    def decide(self, unknown: Unknown) -> bool:
        self.consulted += 1
        if unknown not in self.made:
            position = len(self.made)
            self.made[unknown] = self._script[position] if position < len(self._script) else False
        return self.made[unknown]

    def explore(self, run: Callable[[], Result]) -> list[Way[Result]]:
        """Run for every combination of the conditions that turn up."""
        ways: list[Way[Result]] = []
        self._script = []
        try:
            while True:
                self.made = {}
                ways.append(Way(run(), self.made))
                taken = list(self.made.values())
                while taken and taken[-1]:
                    taken.pop()
                if not taken:
                    return ways
                if len(ways) == MOST_WAYS:
                    raise TooManyWays(next(iter(self.made)))
                self._script = [*taken[:-1], True]
        finally:
            self.made = {}
            self._script = []
