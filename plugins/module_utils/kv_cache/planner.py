# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Groups to blocks to tokens: vLLM's own plan (v1/core/kv_cache_utils.py, get_kv_cache_configs) in plain arithmetic.

A pool of blocks per card; a request takes whole blocks from every group; the pipeline stage with the fewest blocks
decides for all. The token count that the engine prints is derived from the blocks, and changed its meaning in 0.20.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .grouping import Group
from .layer_specs import KEEP_EVERY_TOKEN, Serving
from .packed_groups import packed_blocks_per_request, packed_bytes_needed, packed_bytes_per_block
from .release import EngineRelease


@dataclass(frozen=True)
class Planner:
    """The cache of one model on one set of cards; asked for several lengths and several amounts of memory.

    stages: the groups of one card of each pipeline stage. block_size: of the layers that keep every token.
    """

    stages: Sequence[Sequence[Group]]
    block_size: int
    serving: Serving
    release: EngineRelease

    @cached_property
    def _is_packed(self) -> bool:
        """Whether pages of several sizes lie side by side in a block."""
        return any(
            group.spec.kind == "sliding_window_mla" for groups in self.stages if len(groups) > 1 for group in groups
        )

    @cached_property
    def bytes_per_block(self) -> int:
        """Bytes that one block takes on the card with the most layers: its widest group's pages."""
        if self._is_packed:
            return max(packed_bytes_per_block(groups, self.release) for groups in self.stages)
        return max(max(group.page_bytes for group in groups) for groups in self.stages)

    @cached_property
    def bytes_per_token(self) -> int:
        """Bytes that one more token of a long request takes on a card (with DCP a card holds 1/DCP of the tokens).

        Where no layer keeps every token: of the tokens that a window holds.
        """
        groups = self.stages[0]
        growing = [group for group in groups if group.spec.kind in KEEP_EVERY_TOKEN]
        return sum(self.bytes_per_block // group.spec.block_size for group in growing or groups[:1])

    @property
    def held_back_bytes(self) -> int:
        """What the fit check leaves out: the null block, from 0.29."""
        return self.bytes_per_block if self.release.holds_back_null_block else 0

    def num_blocks(self, available_bytes: int) -> int:
        return max(0, available_bytes // self.bytes_per_block)

    def blocks_per_request(self, length: int) -> int:
        if self._is_packed:
            return max(packed_blocks_per_request(groups, length, self.serving, self.release) for groups in self.stages)
        return max(sum(group.blocks_per_request(length, self.serving) for group in groups) for groups in self.stages)

    def bytes_needed(self, length: int) -> int:
        """Bytes per card for one request of `length` tokens, as the engine checks it at start."""
        if self._is_packed:
            return max(packed_bytes_needed(groups, length, self.serving, self.release) for groups in self.stages)
        if self.release.checks_whole_model:
            return self._first_group_blocks(length) * self._bytes_per_block_of_whole_model
        if self.release.checks_first_group:
            return self._first_group_blocks(length) * self.bytes_per_block
        return self.blocks_per_request(length) * self.bytes_per_block

    def _first_group_blocks(self, length: int) -> int:
        return self.stages[0][0].blocks_per_request(length, self.serving)

    @cached_property
    def _bytes_per_block_of_whole_model(self) -> int:
        if self.stages[0][0].of_all_stages:
            return self.bytes_per_block
        return max(sum(stage[index].page_bytes for stage in self.stages) for index in range(len(self.stages[0])))

    def fits(self, length: int, available_bytes: int) -> bool:
        return self.bytes_needed(length) <= available_bytes - self.held_back_bytes

    def first_stage_short(self, length: int, available_bytes: int) -> Planner:
        """The plan of the stage that the engine's error speaks of: the first that is too small."""
        if self.release.checks_whole_model:
            return self
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
        groups = self.stages[0]
        block = min(group.spec.block_size for group in groups)
        return self.num_blocks(available_bytes) // len(groups) * block * self.serving.decode_context
