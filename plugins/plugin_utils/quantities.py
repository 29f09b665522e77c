# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Numbers as a person reads them: decimal units (1 GB = 10^9 bytes), as disks and networks are sold."""

from __future__ import annotations

UNITS = ("B", "kB", "MB", "GB", "TB")


def _unit(count: float) -> tuple[str, float]:
    scale = 1.0
    for unit in UNITS:
        if count < 999.5 * scale or unit == UNITS[-1]:
            return unit, scale
        scale *= 1000
    raise AssertionError("unreachable")


def _digits(value: float, scale: float) -> str:
    scaled = value / scale
    return f"{scaled:.1f}" if scale > 1 and scaled < 9.95 else f"{scaled:.0f}"


def size(count: float) -> str:
    """1234567890 -> "1.2 GB"."""
    unit, scale = _unit(count)
    return f"{_digits(count, scale)} {unit}"


def share(done: float, total: float) -> str:
    """(221e9, 540e9) -> "221/540 GB": both in the unit of the whole."""
    unit, scale = _unit(total)
    return f"{_digits(done, scale)}/{_digits(total, scale)} {unit}"


def percent(done: float, total: float) -> int:
    """Whole percent, rounded down, so that 100 means all."""
    return max(0, min(100, int(done * 100 / total))) if total > 0 else 0


def duration(seconds: float) -> str:
    """42 -> "42 s", 240 -> "4 min", 7500 -> "2 h 5 min"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def printable(text: object, limit: int = 200) -> str:
    """Text that came from a host, without what would steer a terminal."""
    return "".join(character for character in str(text)[:limit] if character.isprintable())
