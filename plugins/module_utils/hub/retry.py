# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Another try: how long to wait before it, and when there is none any more."""

from __future__ import annotations

import email.utils
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ..errors import ServingError
from .answers import HubUnavailable, Subject, explain, is_transient
from .transport import ConnectionTrouble, HubAnswer

ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 330.0  # the Hub counts requests in windows of 300 s

Value = TypeVar("Value")


class Stopped(Exception):
    """Another part of the run failed, or the run was interrupted: work in hand ends here."""


@dataclass
class Retry:
    """Shared by all requests of one run, in any thread.

    deadline: time.monotonic() at which the whole run ends, None = never
    stop:     set when the run is over; every pause and every transfer ends then
    """

    attempts: int = ATTEMPTS
    deadline: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    rate_limited: int = 0

    def check(self) -> None:
        """Between two pieces of work: raise when the run is over or out of time."""
        if self.stop.is_set():
            raise Stopped
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise HubUnavailable(
                "the time limit is over",
                remedy="Raise timeout or run again: finished files and parts are kept and continued",
            )

    def pause(self, failures: int, error: HubAnswer | ConnectionTrouble, subject: Subject) -> None:
        """Wait before the next try, or raise the error when it would be in vain."""
        if isinstance(error, HubAnswer) and error.status == 429:
            self.rate_limited += 1
        if not is_transient(error) or failures >= self.attempts:
            raise explain(error, subject) from error
        seconds = asked_pause(error)
        if seconds is None:
            seconds = FIRST_PAUSE_S * 2 ** (failures - 1) * random.uniform(0.5, 1.0)  # noqa: S311 (jitter)
        if seconds > LONGEST_PAUSE_S or (self.deadline is not None and time.monotonic() + seconds > self.deadline):
            raise explain(error, subject) from error
        self.stop.wait(seconds)
        self.check()

    def run(self, request: Callable[[], Value], subject: Subject) -> Value:
        """The value of the request, tried again while that may help."""
        failures = 0
        while True:
            self.check()
            try:
                return request()
            except (HubAnswer, ConnectionTrouble) as error:
                failures += 1
                self.pause(failures, error, subject)


def asked_pause(error: HubAnswer | ConnectionTrouble) -> float | None:
    """Seconds that the Hub asks to wait: Retry-After in seconds or as a date, or RateLimit's `t`."""
    if not isinstance(error, HubAnswer):
        return None
    if error.retry_after:
        text = error.retry_after.strip()
        if text.isdigit():
            return float(text)
        try:
            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            return None
    if error.rate_limit and (match := re.search(r"\bt=(\d+)", error.rate_limit)):
        return float(match[1]) + 1.0
    return None


def timed(seconds: float) -> Retry:
    """A retry whose run ends after that many seconds; 0 = no limit."""
    if not seconds >= 0:  # nor "not a number"
        raise ServingError("a time limit cannot be negative", where=f"timeout={seconds}", remedy="Use 0 for no limit")
    return Retry(deadline=time.monotonic() + seconds if seconds else None)
