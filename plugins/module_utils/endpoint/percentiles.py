# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Percentiles as numpy (and so vLLM's benchmark) computes them: linear between the two nearest samples."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(samples: Sequence[float], percent: float) -> float:
    """percent from 0 to 100; samples in any order, at least one."""
    ordered = sorted(samples)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def mean(samples: Sequence[float]) -> float:
    return sum(samples) / len(samples)
