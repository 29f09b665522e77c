# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Members of a check's section, read with an error that names the one that is wrong."""

from __future__ import annotations

import re
from typing import Any

from ..errors import ServingError


def pattern(value: str, where: str) -> re.Pattern[str]:
    """A regular expression that has to match something: an empty one would call every answer right."""
    try:
        compiled = re.compile(value)
    except re.error as error:
        raise ServingError(f"{where} is not usable", why=f"it is no regular expression ({error})") from error
    if compiled.search("") is not None:
        raise ServingError(f"{where} is not usable", why="it matches an empty answer, so it could not fail")
    return compiled


def positive(value: int, where: str) -> int:
    if value < 1:
        raise ServingError(f"{where} is not usable", why=f"{value} is not positive")
    return value


def integers(value: list[Any], where: str) -> tuple[int, ...]:
    """At least one, all positive."""
    if not value or not all(isinstance(one, int) and not isinstance(one, bool) and one > 0 for one in value):
        raise ServingError(f"{where} is not usable", why="it must be a list of positive integers")
    return tuple(value)


def texts(value: list[Any], where: str, *, least: int = 1) -> tuple[str, ...]:
    """At least so many different ones, none of them empty."""
    if not all(isinstance(one, str) and one.strip() for one in value) or len(set(value)) < least:
        number = "one text" if least == 1 else f"{least} different texts"
        raise ServingError(f"{where} is not usable", why=f"it must be a list of at least {number}, none of them empty")
    return tuple(value)
