# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Bytes of weights per card, from the tensors of the checkpoint or, before the download, from its size.

Three kinds of tensors: what tensor parallelism divides; what every rank holds in full (norms, routers, MLA's
down-projections, the indexer of sparse attention; keys and values where there are fewer heads than ranks); and the
experts, which tensor parallelism divides too, or of which with expert parallelism a rank holds ceil(experts / ranks).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ServingError
from .activation_shape import ActivationShape
from .config_fields import text_config
from .layer_specs import Parallel
from .units import ceil_div, gib

# The replicated parts (attention down-projections, router) are kept in 16 bits by the quantized checkpoints too.
_REPLICATED_ELEMENT_BYTES = 2
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_EXPERT = re.compile(r"\.experts\.")
_REPLICATED = re.compile(
    r"norm|\.(?:gate|router|shared_expert_gate)\.|e_score_correction|\.(?:q_a_proj|kv_a_proj_with_mqa|kv_a_proj)\."
    r"|\.indexer\.|projector"
)
_KEY_VALUE = re.compile(r"\.(?:k_proj|v_proj)\.")
_ENCODER = re.compile(r"vision|visual|projector|audio_tower|image_newline")
_DRAFT = re.compile(r"(?:^|\.)(?:mtp|nextn)")


@dataclass
class Share:
    """Bytes of one layer by how they are spread over the ranks."""

    divided: int = 0
    replicated: int = 0
    experts: int = 0
    key_value: int = 0


@dataclass(frozen=True)
class WeightParts:
    """Bytes of a checkpoint: `layers` by number, `outside` the embeddings, the head and the encoder.

    skipped: bytes of tensors that the engine does not load (the draft layers, the encoder with --language-model-only).
    """

    layers: Mapping[int, Share]
    outside: Share
    skipped: int = field(default=0)

    @property
    def total(self) -> int:
        shares = [*self.layers.values(), self.outside]
        return sum(one.divided + one.replicated + one.experts + one.key_value for one in shares)


def weight_parts(
    sizes: Iterable[tuple[str, int]], config: Mapping[str, Any], *, drafts: bool = False, encoder: bool = True
) -> WeightParts:
    """Sort tensors (name, bytes) by how they are spread. drafts, encoder: whether these are loaded."""
    count = text_config(config).get("num_hidden_layers")
    last = count if isinstance(count, int) else 1 << 30
    layers: dict[int, Share] = {}
    outside = Share()
    skipped = 0
    for name, size in sizes:
        of_encoder = _ENCODER.search(name) is not None
        match = None if of_encoder else _LAYER.search(name)
        number = int(match[1]) if match else None
        is_draft = _DRAFT.search(name) is not None or (number is not None and number >= last)
        if (is_draft and not drafts) or (of_encoder and not encoder):
            skipped += size
            continue
        share = outside if number is None else layers.setdefault(number, Share())
        if _EXPERT.search(name):
            share.experts += size
        elif _REPLICATED.search(name):
            share.replicated += size
        elif _KEY_VALUE.search(name) and not of_encoder:
            share.key_value += size
        else:
            share.divided += size
    return WeightParts(layers, outside, skipped)


def weights_of_parts(parts: WeightParts, shape: ActivationShape, parallel: Parallel) -> tuple[int, str]:
    """(bytes on the card with the most, how it was reckoned): the real tensors, spread over stages and ranks."""
    numbers = sorted(parts.layers)
    spread = [_on_rank(parts.layers[number], shape, parallel) for number in numbers]
    outside = _on_rank(parts.outside, shape, parallel)
    stages, start = [], 0
    for layers in parallel.layers_of_stages(len(numbers)):
        stages.append(sum(spread[start : start + layers]))
        start += layers
    ends = outside if parallel.pipeline == 1 else outside / 2
    stages[0] += ends
    if parallel.pipeline > 1:
        stages[-1] += ends
    per_gpu = int(max(stages))
    text = (
        f"Weights: {parts.total:,} bytes of tensors in the files, {gib(per_gpu)} ({per_gpu / 1e9:.1f} GB) on each of "
        f"{_cards(parallel)} cards, with what every rank holds in full."
    )
    if parts.skipped:
        text += f" {gib(parts.skipped)} of draft layers or encoder are not loaded."
    return per_gpu, text


def weights_of_size(weights_bytes: int, shape: ActivationShape, parallel: Parallel) -> tuple[int, str]:
    """(bytes on the card with the most, how it was reckoned), from the size of all files alone.

    For nvidia/Kimi-K2.5-NVFP4 (591 GB) at TP 8 this gives 70.6 GiB, the engine loaded 70.81 GiB. Raises ServingError
    when the checkpoint has no bytes.
    """
    if weights_bytes <= 0:
        raise ServingError(
            "the size of the weights is impossible",
            where="weights_bytes",
            why=f"got {weights_bytes}",
            remedy="Give the bytes of all safetensors files (hf_repo_info returns them as weights_bytes)",
        )
    replicated = min(weights_bytes, shape.layers * _replicated_per_layer(shape) * _REPLICATED_ELEMENT_BYTES)
    divided = (weights_bytes - replicated) / parallel.tensor
    if parallel.expert and shape.routed_experts:
        divided *= _expert_share(shape, parallel) * parallel.tensor
    stage_share = max(parallel.layers_of_stages(shape.layers)) / shape.layers
    per_gpu = int((divided + replicated) * stage_share)
    even = weights_bytes / (parallel.tensor * parallel.pipeline)
    return per_gpu, (
        f"Weights: {weights_bytes:,} bytes / {_cards(parallel)} cards = {gib(even)} ({even / 1e9:.1f} GB) per card; "
        f"with what every rank holds in full {gib(per_gpu)}."
    )


def _on_rank(share: Share, shape: ActivationShape, parallel: Parallel) -> float:
    experts = _expert_share(shape, parallel) if parallel.expert and shape.routed_experts else 1 / parallel.tensor
    return (
        share.divided / parallel.tensor
        + share.replicated
        + share.experts * experts
        + share.key_value / min(parallel.tensor, shape.num_key_value_heads)
    )


def _expert_share(shape: ActivationShape, parallel: Parallel) -> float:
    return ceil_div(shape.routed_experts, parallel.tensor) / shape.routed_experts


def _replicated_per_layer(shape: ActivationShape) -> int:
    """Elements of MLA's down-projections (q_a_proj, kv_a_proj_with_mqa) and of the router."""
    router = shape.routed_experts * shape.hidden_size
    return shape.hidden_size * (shape.q_lora_rank + shape.latent_size) + router if shape.is_mla else router


def _cards(parallel: Parallel) -> int:
    return parallel.tensor * parallel.pipeline
