# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small table: what was measured, its value, and the goal beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`reached` is None where there is no goal, as for a peer."""

    what: str
    value: str
    goal: str = ""
    reached: bool | None = None


def at_least(what: str, value: float, goal: float, unit: str = "x") -> Row:
    return Row(what, f"{value:.2f} {unit}", f">= {goal:g} {unit}", value >= goal)


def at_most(what: str, value: float, goal: float, unit: str) -> Row:
    return Row(what, f"{value:.3g} {unit}", f"<= {goal:g} {unit}", value <= goal)


def show(title: str, rows: Sequence[Row], limit: str) -> None:
    width = max(len(row.what) for row in rows)
    column = max(len(row.value) for row in rows)
    print(f"\n{title}")
    for row in rows:
        verdict = {None: "", True: f"goal {row.goal}", False: f"goal {row.goal}: MISSED"}[row.reached]
        print(f"  {row.what:<{width}}  {row.value:>{column}}  {verdict}".rstrip())
    print(f"  limit: {limit}", flush=True)
