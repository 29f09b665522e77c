# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what fits to the length to serve."""

from __future__ import annotations

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.recommendation import (
    Wishes,
    check_wishes,
    recommend,
)
from hypothesis import assume, given
from hypothesis import strategies as st

FITTING = 190_000


def wishes(
    *,
    limit: int = 262144,
    cap: int | None = None,
    floor: int | None = None,
    headroom: float = 0.0,
    round_to: int = 1024,
    block_size: int = 16,
) -> Wishes:
    return Wishes(limit, cap, floor, headroom, round_to, block_size)


@pytest.mark.parametrize(
    ("fitting", "wished", "length"),
    [
        (FITTING, wishes(), 189_440),
        (4 * FITTING, wishes(), 262_144),
        (FITTING, wishes(cap=131072, floor=32768), 131_072),
        (FITTING, wishes(round_to=4096), 188_416),
        (FITTING, wishes(floor=200_000), None),
        (20_272, wishes(floor=32768), None),
        (178_768, wishes(headroom=0.25), 131_072),  # 134,076 -> 133,120 -> a power of two 1.5 % below
        (190_000, wishes(headroom=0.25), 142_336),  # the power of two is 8 % below
        (FITTING, wishes(cap=100_007), 100_000),
        (FITTING, wishes(headroom=0.25, floor=150_000), 150_000),
        (500, wishes(), 496),
        (15, wishes(), None),
        (FITTING, wishes(round_to=1000, block_size=64), 184_000),
        (5000, wishes(limit=8192, round_to=1, block_size=16), 4_992),
        (FITTING, wishes(cap=1), 1),
        (FITTING, wishes(limit=100, block_size=128), 100),
    ],
)
def test_cases(fitting: int, wished: Wishes, length: int | None) -> None:
    assert recommend(fitting, wished)[0] == length


def test_a_floor_above_the_ceiling_is_a_contradiction() -> None:
    for impossible in (wishes(cap=1000, floor=2000), wishes(limit=8192, floor=8193), wishes(cap=1000, floor=1000)):
        with pytest.raises(ServingError, match="min_model_len cannot be reached"):
            check_wishes(impossible)


@given(
    fitting=st.integers(0, 4_000_000),
    limit=st.integers(16, 2_000_000),
    cap=st.none() | st.integers(16, 2_000_000),
    floor=st.none() | st.integers(1, 500_000),
    headroom=st.floats(0, 0.9),
    round_to=st.sampled_from([1, 16, 1000, 1024, 4096]),
    block_size=st.sampled_from([16, 32, 64, 128]),
)
def test_what_always_holds(
    fitting: int, limit: int, cap: int | None, floor: int | None, headroom: float, round_to: int, block_size: int
) -> None:
    wished = Wishes(limit, cap, floor, headroom, round_to, block_size)
    least = -(-(floor or 1) // block_size) * block_size
    assume(least <= wished.ceiling)
    length, why = recommend(fitting, wished)
    assert why
    if length is None:
        assert fitting < least
        return
    assert length % block_size == 0
    assert least <= length <= min(wished.ceiling, fitting)
    more, _reason = recommend(fitting + 5 * block_size, Wishes(limit, cap, floor, 0.0, block_size, block_size))
    assert more is not None
    assert more >= length * (1 - 0.05)
