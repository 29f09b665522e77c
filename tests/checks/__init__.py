# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiers of `make test`, by name and in the order in which they run: what fails fastest comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .code import integration, static, unit
from .documents import docs
from .hosts import molecule
from .packaged import build, lint, sanity
from .running import Result, Tier

TIERS: dict[str, Callable[[Tier], Iterator[Result]]] = {
    "static": static,
    "unit": unit,
    "docs": docs,
    "build": build,
    "lint": lint,
    "integration": integration,
    "sanity": sanity,
    "molecule": molecule,
}
