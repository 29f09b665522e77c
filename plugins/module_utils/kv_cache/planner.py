# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Groups to blocks to tokens: vLLM's own plan (v1/core/kv_cache_utils.py, get_kv_cache_configs) in plain arithmetic.

A pool of blocks per card; a request takes whole blocks from every group; the pipeline stage with the fewest blocks
decides for all. The token count that the engine prints is derived from the blocks, and changed its meaning in 0.21.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .layer_specs import Group
from .release import EngineRelease


@dataclass(frozen=True)
class Planner:
    """The cache of one model on one set of cards; asked for several lengths and several amounts of memory.

    stages: the groups of one card of each pipeline stage.
    """

    stages: Sequence[Sequence[Group]]
    block_size: int
    decode_context: int
    release: EngineRelease

    @cached_property
    def bytes_per_block(self) -> int:
        """Bytes that one block takes on the card with the most layers: its widest group's pages."""
        return max(max(group.page_bytes(self.block_size) for group in groups) for groups in self.stages)

    @property
    def bytes_per_token(self) -> int:
        """Bytes per token that a card holds (with DCP a card holds 1/DCP of a request's tokens)."""
        return self.bytes_per_block // self.block_size

    @property
    def held_back_bytes(self) -> int:
        """What the fit check leaves out: the null block, from 0.29."""
        return self.bytes_per_block if self.release.holds_back_null_block else 0

    def num_blocks(self, available_bytes: int) -> int:
        return max(0, available_bytes // self.bytes_per_block)

    def blocks_per_request(self, length: int) -> int:
        return max(
            sum(group.blocks_per_request(length, self.block_size, self.decode_context) for group in groups)
            for groups in self.stages
        )

    def bytes_needed(self, length: int) -> int:
        """Bytes per card for one request of `length` tokens."""
        return self.blocks_per_request(length) * self.bytes_per_block

    def fits(self, length: int, available_bytes: int) -> bool:
        return self.bytes_needed(length) <= available_bytes - self.held_back_bytes

    def first_stage_short(self, length: int, available_bytes: int) -> Planner:
        """The plan of the stage that the engine's error speaks of: the first that is too small."""
        stages = (replace(self, stages=[stage]) for stage in self.stages)
        return next((stage for stage in stages if not stage.fits(length, available_bytes)), self)

    def largest_that_fits(self, available_bytes: int, limit: int) -> int:
        """The longest single request, at most `limit`; 0 when not even one token fits (--max-model-len auto)."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(middle, available_bytes):
                low = middle
            else:
                high = middle - 1
        return low

    def max_concurrency(self, length: int, available_bytes: int) -> float:
        """Requests of `length` tokens that the pool holds at once, unrounded (the engine prints two decimals)."""
        return self.num_blocks(available_bytes) / self.blocks_per_request(length)

    def token_capacity(self, length: int, available_bytes: int) -> int:
        """The number in the engine's line `KV cache size: N tokens` at --max-model-len `length`."""
        if self.release.token_line_is_concurrency:
            return int(self.max_concurrency(length, available_bytes) * length)
        groups = max(len(stage) for stage in self.stages)
        return self.num_blocks(available_bytes) // groups * self.block_size * self.decode_context
