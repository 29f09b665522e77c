# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""From layers to groups: layers of one group share block tables, and all groups share one pool of blocks.

vLLM's get_kv_cache_groups: layers alike in one group; layers that take the same blocks in one group with pages of
different size; else pages made equal, and every kind of layer split into groups of one size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import ServingError
from .layer_specs import LayerSpec, Serving
from .packed_groups import are_packed, packed_groups
from .release import EngineRelease
from .units import ceil_div


@dataclass(frozen=True)
class Group:
    """Layers of one card that share block tables; none on a pipeline stage that has no layer of the group.

    spec: of one of them, which decides the blocks. page_bytes: of one block, over all its layers.
    of_all_stages: the layers are those of all stages, which old releases give to each of them.
    """

    layers: tuple[LayerSpec, ...]
    spec: LayerSpec
    of_all_stages: bool = False

    @property
    def page_bytes(self) -> int:
        return sum(layer.page_bytes for layer in self.layers)

    def blocks_per_request(self, length: int, serving: Serving) -> int:
        return max(layer.blocks_per_request(length, serving) for layer in {*self.layers, self.spec})


def groups_of_stages(
    stages: Sequence[Sequence[LayerSpec]], release: EngineRelease, *, hybrid_manager: bool = True
) -> list[list[Group]]:
    """The groups of one card of each pipeline stage: planned over the whole model, then cut to a stage's layers.

    Raises ServingError where the engine cannot make the pages equal.
    """
    layers = dict(enumerate(layer for stage in stages for layer in stage))
    if not hybrid_manager:
        layers = _without_windows(layers)
    groups = _grouped(layers, release)
    if release.gives_every_stage_the_whole_group and len(groups) == 1 and len(set(layers.values())) > 1:
        return [[Group(tuple(layers.values()), first(layers), of_all_stages=True)] for _stage in stages]
    found, start = [], 0
    for stage in stages:
        here = range(start, start + len(stage))
        start += len(stage)
        found.append([Group(tuple(specs[index] for index in specs if index in here), first(specs)) for specs in groups])
    return found


def first(specs: Mapping[int, LayerSpec]) -> LayerSpec:
    return next(iter(specs.values()))


def _without_windows(layers: dict[int, LayerSpec]) -> dict[int, LayerSpec]:
    """Windows and chunks keep every token, where other layers do."""
    if _same_type(layers) or not any(spec.kind in ("full_attention", "mla") for spec in layers.values()):
        return layers
    return {index: spec.keeping_every_token() for index, spec in layers.items()}


def _grouped(layers: dict[int, LayerSpec], release: EngineRelease) -> list[dict[int, LayerSpec]]:
    if _same_type(layers):
        return [layers]
    if are_packed(layers):
        return packed_groups(layers, release)
    return _split(_equal_pages(layers, release), release)


def _same_type(layers: Mapping[int, LayerSpec]) -> bool:
    one = first(layers)
    return all(one.same_type(spec) for spec in layers.values())


def _equal_pages(layers: dict[int, LayerSpec], release: EngineRelease) -> dict[int, LayerSpec]:
    """unify_kv_cache_spec_page_size: longer blocks where the page divides the largest, else padding."""
    largest = max(spec.page_bytes for spec in layers.values())
    found = {}
    for index, spec in layers.items():
        page = spec.page_bytes
        if page == largest:
            found[index] = spec
        elif spec.kind == "mamba" and release.pads_states:
            found[index] = replace(spec, padded_page=largest)
        elif largest % page == 0 and spec.kind != "mamba":
            found[index] = replace(spec, block_size=spec.block_size * (largest // page))
        elif release.pads_attention and spec.kind not in ("mla", "mla_indexer", "mamba"):
            found[index] = replace(spec, padded_page=largest)
        else:
            raise ServingError(
                "the engine cannot give all layers pages of one size",
                where="block_size",
                why=f"a page of {page:,} bytes ({spec.kind}) does not divide the largest one of {largest:,} bytes",
                remedy="Choose another kv_cache_dtype, block_size or release",
            )
    return found


def _split(layers: dict[int, LayerSpec], release: EngineRelease) -> list[dict[int, LayerSpec]]:
    """Groups of one number of layers: that of the rarest kind, or of the most frequent one where both are close."""
    kinds: dict[LayerSpec, list[int]] = {}
    for index, spec in layers.items():
        kinds.setdefault(spec, []).append(index)
    counts = [len(indices) for indices in kinds.values()]
    size = max(counts) if max(counts) < min(counts) * release.group_size_slack else min(counts)
    groups = []
    for indices in kinds.values():
        parts = ceil_div(len(indices), size)
        groups.extend([{index: layers[index] for index in indices[part::parts]} for part in range(parts)])
    return groups
