# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Bytes and tokens as people read them: the unit stands beside every printed number."""

from __future__ import annotations

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def gib(count: float) -> str:
    """Bytes as vLLM prints them: GiB (1024^3) with two decimals, "11.70 GiB"."""
    return f"{count / GIB:.2f} GiB"


def with_bytes(count: int) -> str:
    """ "11.70 GiB (12,562,779,340 bytes)": for numbers that somebody may want to copy."""
    return f"{gib(count)} ({count:,} bytes)"


def tokens(count: int) -> str:
    return f"{count:,} tokens"


def ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
