# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The checks of the battery, one per file, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from ..check import Check, Context
from . import channels, count, exact_set

# `ready` is not here: the battery runs it first, always, because the others build on what it finds out.
CHECKS: dict[str, Callable[[Context], Check]] = {
    "exact_set": exact_set.run,
    "count": count.run,
    "channels": channels.run,
}


def section_of(name: str) -> str:
    """The section of the questions that the check works with."""
    return name.removesuffix("_after")
