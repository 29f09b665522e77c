# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The checks of the battery, one per file, in the order in which they run."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...errors import ServingError
from ..check import Check, Context
from . import (
    channels,
    concurrency,
    count,
    degeneration,
    exact_set,
    latency,
    length_sweep,
    logprobs,
    multi_turn,
    needle,
    prefix_cache,
    tool_calls,
    vision,
)


class Section(Protocol):
    """What a check asks, as data. DEFAULT: for instruction-tuned models; read: raises ServingError, naming `where`."""

    @property
    def DEFAULT(self) -> Any: ...

    def read(self, section: Any, where: str) -> Any: ...


# `ready` is not here: the battery runs it first, always, because the others build on what it finds out.
CHECKS: dict[str, Callable[[Context], Check]] = {
    "logprobs": logprobs.run,
    "exact_set": exact_set.run,
    "count": count.run,
    "latency": latency.run,
    "length_sweep": length_sweep.run,
    "degeneration": degeneration.run,
    "multi_turn": multi_turn.run,
    "prefix_cache": prefix_cache.run,
    "concurrency": concurrency.run,
    "needle": needle.run,
    "logprobs_after": logprobs.run_after,
    "channels": channels.run,
    "tool_calls": tool_calls.run,
    "vision": vision.run,
}
# Together less than 20 s at 60 tokens per second; a passed full battery of the same start is on record before.
QUICK = ("ready", "logprobs", "exact_set", "count", "latency", "length_sweep", "channels")
SECTIONS: dict[str, Section] = {
    "exact_set": exact_set,
    "count": count,
    "latency": latency,
    "logprobs": logprobs,
    "length_sweep": length_sweep,
    "degeneration": degeneration,
    "multi_turn": multi_turn,
    "prefix_cache": prefix_cache,
    "concurrency": concurrency,
    "needle": needle,
    "tool_calls": tool_calls,
    "vision": vision,
}


def read_sections(given: Mapping[str, Any]) -> dict[str, Any]:
    """What each check works with, by the check's name: the given section, with the default's members for missing ones.

    A section that is given as null is None here: the check does not apply. Raises ServingError for what is not usable.
    """
    for name in given:
        if name not in SECTIONS:
            near = difflib.get_close_matches(str(name), SECTIONS, 1)
            raise ServingError(
                f"questions has no section {name!r}" + (f"; did you mean {near[0]}?" if near else ""),
                remedy=f"Its sections are {', '.join(SECTIONS)}",
            )
    return {name: _read(name, section, given) for name, section in SECTIONS.items()}


def section_of(name: str) -> str:
    """The section of the questions that the check works with."""
    return name.removesuffix("_after")


def _read(name: str, section: Section, given: Mapping[str, Any]) -> Any:
    value = given.get(name, section.DEFAULT)
    if value is None:
        return None
    if isinstance(value, dict) and isinstance(section.DEFAULT, dict):
        value = {**section.DEFAULT, **value}
    return section.read(value, f"questions.{name}")
