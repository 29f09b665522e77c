# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""From what a model's layers keep to what they keep on one card: heads divided, dtypes applied, pages made alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .families.caches import (
    AttentionCache,
    Cache,
    CompressedCache,
    CrossCache,
    IndexerCache,
    LatentCache,
    StateCache,
    WindowedLatentCache,
)
from .kv_dtype import KVDtype
from .layer_specs import LayerSpec, Parallel
from .release import EngineRelease
from .shape import ModelShape
from .units import ceil_div

_SMALLEST_KERNEL_BLOCK = 16
_MLA_ALIGNMENT_OF_HYBRIDS = 128
_MAMBA2_CHUNK = 256
_PACKED_PAGE_ALIGNMENT = 576  # of pages in DeepSeek-V4's fp8_ds_mla layout


@dataclass(frozen=True)
class CardLayout:
    """How one card's layers are laid out.

    block_size: tokens per block of the layers that keep every token. padded_state: bytes that a state takes.
    state_element_bytes: of a convolution's state; recurrent_bytes: of a recurrent one, None = as the model has it.
    """

    dtype: KVDtype
    state_element_bytes: int
    block_size: int
    padded_state: int | None
    drafts: int
    tensor: int
    release: EngineRelease
    recurrent_bytes: int | None = None

    def spec(self, cache: Cache) -> LayerSpec:
        """One layer's spec on one card. Raises ServingError for a dtype that the layer cannot have."""
        if isinstance(cache, AttentionCache):
            return self._attention(cache)
        if isinstance(cache, LatentCache):
            return LayerSpec("mla", self.block_size, self.dtype.bytes_per_latent(cache.elements))
        if isinstance(cache, IndexerCache):
            return LayerSpec("mla_indexer", self.block_size, cache.bytes_per_token)
        if isinstance(cache, CompressedCache):
            page = _aligned(self.block_size // cache.tokens_per_state * cache.state_bytes)
            return LayerSpec(
                "mla_indexer" if cache.indexer else "mla",
                self.block_size,
                ceil_div(page, self.block_size),
                padded_page=page,
            )
        if isinstance(cache, WindowedLatentCache):
            page = _aligned(cache.block_size * cache.bytes_per_token)
            return LayerSpec(
                "sliding_window_mla", cache.block_size, cache.bytes_per_token, window=cache.window, padded_page=page
            )
        if isinstance(cache, CrossCache):
            per_token = self._heads(cache.kv_heads) * self.dtype.bytes_per_head(cache.head_size, cache.head_size)
            return LayerSpec("cross_attention", self.block_size, per_token)
        state = cache.bytes(self.tensor, self.state_element_bytes, self.drafts, self.recurrent_bytes)
        return LayerSpec("mamba", self.block_size, state_bytes=state, padded_page=self.padded_state)

    def _attention(self, cache: AttentionCache) -> LayerSpec:
        heads = self._heads(cache.kv_heads)
        per_token = heads * self.dtype.bytes_per_head(cache.head_size, cache.value_size)
        layout = (heads, cache.head_size, cache.value_size)
        if cache.window is not None:
            block = _SMALLEST_KERNEL_BLOCK if self.release.windows_take_smallest_block else self.block_size
            return LayerSpec("sliding_window", block, per_token, window=cache.window, layout=layout)
        if cache.chunk is not None:
            return LayerSpec("chunked_local_attention", self.block_size, per_token, window=cache.chunk, layout=layout)
        return LayerSpec("full_attention", self.block_size, per_token, layout=layout)

    def _heads(self, kv_heads: int) -> int:
        return max(1, kv_heads // self.tensor)


def _aligned(page_bytes: int) -> int:
    return _PACKED_PAGE_ALIGNMENT * ceil_div(page_bytes, _PACKED_PAGE_ALIGNMENT)


def card_layout(
    shape: ModelShape,
    parallel: Parallel,
    dtype: KVDtype,
    block_size: int,
    release: EngineRelease,
    *,
    state_element_bytes: int = 2,
    recurrent_bytes: int | None = None,
    drafts: int = 0,
    state_per_block: bool = False,
) -> CardLayout:
    """The layout of one card; for a model with attention and states the block is made long enough for a state."""
    plain = CardLayout(dtype, state_element_bytes, block_size, None, drafts, parallel.tensor, release, recurrent_bytes)
    states = [plain.spec(cache).page_bytes for cache in shape.caches if isinstance(cache, StateCache)]
    growing = [cache for cache in shape.caches if isinstance(cache, (AttentionCache, LatentCache))]
    if not states or not growing:
        return plain
    per_token = plain.spec(growing[0]).bytes_per_token
    state = max(states)
    block = hybrid_block_size(
        block_size, per_token, state, uses_mla=shape.uses_mla, release=release, state_per_block=state_per_block
    )
    page = block * per_token
    padded = None if page == state else page
    return replace(plain, block_size=block, padded_state=padded)


def hybrid_block_size(
    block_size: int,
    per_token: int,
    state_bytes: int,
    *,
    uses_mla: bool,
    release: EngineRelease,
    state_per_block: bool = False,
) -> int:
    """Tokens per block at which a layer's page is at least as large as a state (_align_hybrid_block_size)."""
    if release.aligns_hybrids_by_backend:
        alignment = max(_SMALLEST_KERNEL_BLOCK, block_size)
        if uses_mla and release.aligns_mla_hybrids_to_128:
            alignment = max(alignment, _MLA_ALIGNMENT_OF_HYBRIDS)
    else:
        alignment = (128 if block_size == 128 else 64) if uses_mla else _SMALLEST_KERNEL_BLOCK
    if state_per_block:
        chunk = math.lcm(_MAMBA2_CHUNK, alignment)
        return max(block_size, chunk * ceil_div(ceil_div(state_bytes, per_token), chunk))
    return max(block_size, alignment * ceil_div(state_bytes, alignment * per_token))


def specs_of_stages(
    shape: ModelShape,
    layout: CardLayout,
    parallel: Parallel,
    drafted: tuple[tuple[Cache, ...], ...] = (),
    others: Mapping[int, CardLayout] | None = None,
) -> list[list[LayerSpec]]:
    """The specs of each pipeline stage's layers; a draft model's layers are on the last stage.

    others: the layout of layers that have another one than the rest.
    """
    found, start = [], 0
    for count in parallel.layers_of_stages(shape.layers):
        here = range(start, start + count)
        start += count
        found.append([(others or {}).get(index, layout).spec(cache) for index in here for cache in shape.kept[index]])
    found[-1].extend(layout.spec(cache) for layer in drafted for cache in layer)
    return found
