# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""From what fits to the length to serve: head-room, round numbers, and the limits of model and operator."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import ServingError

_POWER_OF_TWO_WITHIN = 0.05


@dataclass(frozen=True)
class Wishes:
    """limit: the model's longest context; cap and floor: the operator's; all in tokens."""

    limit: int
    cap: int | None
    floor: int | None
    headroom: float
    round_to: int
    block_size: int

    @property
    def ceiling(self) -> int:
        return self.limit if self.cap is None else min(self.limit, self.cap)


def check_wishes(wishes: Wishes) -> None:
    """Raises ServingError when floor and ceiling leave no multiple of the block size between them."""
    if wishes.floor is not None and _up(wishes.floor, wishes.block_size) > wishes.ceiling:
        raise ServingError(
            "min_model_len cannot be reached",
            where="min_model_len",
            why=f"{wishes.floor:,} tokens, in whole blocks of {wishes.block_size}, are above {wishes.ceiling:,} "
            "(the model's longest context, or max_model_len_cap)",
            remedy="Lower min_model_len, or raise max_model_len_cap",
        )


def recommend(fitting: int, wishes: Wishes) -> tuple[int | None, str]:
    """(tokens, why); None when not even the floor, or one block, fits.

    fitting: the longest single request by memory alone, whatever the model says. The result is a multiple of the
    block size, at most model, cap and `fitting`, and at least the floor; model or cap themselves where they are less
    than one block.
    """
    ceiling = _down(wishes.ceiling, wishes.block_size) or wishes.ceiling
    least = _up(wishes.floor or 1, wishes.block_size)
    if fitting < least:
        return None, f"{fitting:,} tokens fit, fewer than {least:,}"
    with_headroom = int(fitting * (1 - wishes.headroom))
    if with_headroom >= ceiling:
        return ceiling, f"the most that model and cap allow; {fitting:,} tokens would fit"
    rounded = _round(with_headroom, least, wishes)
    if rounded < least:
        return least, f"min_model_len; it leaves less than the wished head-room below {fitting:,} tokens"
    return rounded, (
        f"{fitting:,} tokens fit; less {wishes.headroom:.0%} head-room {with_headroom:,}, rounded down to {rounded:,}"
    )


def _round(length: int, least: int, wishes: Wishes) -> int:
    """Down to a multiple of round_to; a power of two within 5 % below (and not below `least`) is preferred."""
    step = math.lcm(wishes.round_to, wishes.block_size)
    rounded = _down(length, step) or _down(length, wishes.block_size)
    power = 1 << max(0, rounded.bit_length() - 1)
    if power % wishes.block_size == 0 and power >= max(least, rounded * (1 - _POWER_OF_TWO_WITHIN)):
        return power
    return rounded


def _down(length: int, step: int) -> int:
    return length // step * step


def _up(length: int, step: int) -> int:
    return -(-length // step) * step
