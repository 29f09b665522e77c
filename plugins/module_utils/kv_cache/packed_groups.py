# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Groups of layers with pages of several sizes that lie side by side in one block (DeepSeek-V4).

From 0.29 _get_packed_kv_cache_groups; before, group_and_unify_kv_cache_specs, _get_kv_cache_groups_uniform_groups and
what the releases made of their sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .layer_specs import SLIDES, LayerSpec, Serving
from .release import EngineRelease
from .units import ceil_div

if TYPE_CHECKING:
    from .grouping import Group

Layers = dict[int, LayerSpec]


def are_packed(layers: Mapping[int, LayerSpec]) -> bool:
    """Whether the engine packs these layers' pages instead of making them equal."""
    slides = any(spec.kind == "sliding_window_mla" for spec in layers.values())
    return slides and len({spec.page_bytes for spec in layers.values()}) > 1


def packed_groups(layers: Layers, release: EngineRelease) -> list[Layers]:
    """The groups of one model's layers, in the order of the engine."""
    if release.packs_by_layout:
        return _by_repeats([_Bucket(each) for each in _alike(layers)], release)
    return _by_tuples([_Bucket(each) for each in _padded(_whole_history_first(layers), release)])


@dataclass(frozen=True)
class _Bucket:
    """Layers that take the same blocks of a request."""

    layers: Layers

    @property
    def by_page(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for index, spec in self.layers.items():
            found.setdefault(spec.page_bytes, []).append(index)
        return found

    @property
    def tuples(self) -> int:
        return max(len(indices) for indices in self.by_page.values())

    @property
    def is_balanced(self) -> bool:
        return len({len(indices) for indices in self.by_page.values()}) == 1

    @property
    def slides(self) -> bool:
        return next(iter(self.layers.values())).kind in SLIDES

    def widest(self, groups: int) -> int:
        """Bytes of a block of the largest of so many groups."""
        return sum(ceil_div(len(indices), groups) * page for page, indices in self.by_page.items())

    def split(self, groups: int) -> list[Layers]:
        if groups == 1:
            return [self.layers]
        repeats = list(zip(*self.by_page.values(), strict=False))
        return [
            {index: self.layers[index] for repeat in repeats[part::groups] for index in repeat}
            for part in range(groups)
        ]


def _alike(layers: Layers) -> list[Layers]:
    buckets: list[Layers] = []
    for index, spec in layers.items():
        fitting = (bucket for bucket in buckets if all(each.same_type(spec) for each in bucket.values()))
        bucket = next(fitting, None)
        if bucket is None:
            buckets.append({index: spec})
        else:
            bucket[index] = spec
    return buckets


def _by_repeats(buckets: Sequence[_Bucket], release: EngineRelease) -> list[Layers]:
    """Balanced buckets of several page sizes stay whole; the others are split to about as many layers."""
    least = max((each.tuples for each in buckets if each.is_balanced and len(each.by_page) > 1), default=0)
    repeats = _least_padding([each.tuples for each in buckets if each.is_balanced], least) if least else None

    def parts(bucket: _Bucket) -> int:
        return ceil_div(bucket.tuples, repeats) if bucket.is_balanced and repeats else 1

    def shrinks(bucket: _Bucket) -> bool:
        return release.fits_windows_into_blocks and repeats is None and bucket.slides

    block = max(each.widest(len(each.layers) if shrinks(each) else parts(each)) for each in buckets)
    groups: list[Layers] = []
    for bucket in buckets:
        count = parts(bucket)
        if shrinks(bucket):
            page = next(iter(bucket.layers.values())).page_bytes
            count = max(count, ceil_div(len(bucket.layers), max(block // page, 1)))
        groups.extend(bucket.split(count))
    return groups


def _whole_history_first(layers: Layers) -> list[Layers]:
    whole = {index: spec for index, spec in layers.items() if spec.kind not in SLIDES}
    windows: dict[tuple[int, int], Layers] = {}
    for index, spec in layers.items():
        if spec.kind in SLIDES:
            windows.setdefault((spec.block_size, spec.window), {})[index] = spec
    return [whole, *windows.values()]


def _padded(buckets: list[Layers], release: EngineRelease) -> list[Layers]:
    """Before 0.27 every window's page is padded to one of the pages of the layers that keep every token."""
    if not release.pads_windows_to_whole_pages:
        return buckets
    pages = sorted({spec.page_bytes for spec in buckets[0].values()})
    padded = [
        {
            index: replace(spec, padded_page=next((page for page in pages if page >= spec.page_bytes), spec.page_bytes))
            for index, spec in bucket.items()
        }
        for bucket in buckets[1:]
    ]
    return [buckets[0], *padded]


def _by_tuples(buckets: Sequence[_Bucket]) -> list[Layers]:
    counts = [bucket.tuples for bucket in buckets]
    size = _least_padding(counts, counts[0])
    groups = [buckets[0].layers]
    for bucket in buckets[1:]:
        groups.extend(bucket.split(ceil_div(bucket.tuples, size)))
    return groups


def _least_padding(counts: Sequence[int], least: int) -> int:
    """The size, from `least` on, to whose multiples the counts are rounded up with the least padding; else larger."""
    least, most = max(1, least), max(counts)
    if least > most:
        return least
    return min(range(least, most + 1), key=lambda size: (sum(-count % size for count in counts), -size))


def packed_bytes_per_block(groups: Sequence[Group], release: EngineRelease) -> int:
    """Bytes that one block takes on a card."""
    counted = [Counter(layer.page_bytes for layer in group.layers) for group in groups]
    if release.packs_by_tuples:
        return sum(counted[0]) * max(max(pages.values(), default=0) for pages in counted)
    if release.packs_by_page_sizes:
        pages = {page for each in counted for page in each}
        return sum(page * max(each[page] for each in counted) for page in pages)
    return max(group.page_bytes for group in groups)


def packed_blocks_per_request(groups: Sequence[Group], length: int, serving: Serving, release: EngineRelease) -> int:
    """Blocks that one request takes, as the concurrency is reckoned: before 0.27 in pages of the first group."""
    blocks = [group.blocks_per_request(length, serving) for group in groups]
    if release.counts_blocks_of_every_group:
        return sum(blocks)
    taken = sum(count * group.page_bytes for count, group in zip(blocks, groups, strict=True))
    return ceil_div(taken, groups[0].page_bytes)


def packed_bytes_needed(groups: Sequence[Group], length: int, serving: Serving, release: EngineRelease) -> int:
    """Bytes of one request, as the engine checks them at start."""
    blocks = sum(group.blocks_per_request(length, serving) for group in groups)
    if release.packs_by_layout:
        return blocks * max(group.page_bytes for group in groups)
    counted = [Counter(layer.page_bytes for layer in group.layers) for group in groups]
    return blocks * sum(counted[0]) * max(max(pages.values(), default=0) for pages in counted)
