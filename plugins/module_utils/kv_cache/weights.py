# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Bytes of weights per card, from the size of the checkpoint."""

from __future__ import annotations

from ..errors import ServingError
from .layer_specs import Parallel, layers_of_stages
from .shape import ModelShape
from .units import ceil_div, gib

# The replicated parts (attention down-projections, router) are kept in 16 bits by the quantized checkpoints too.
_REPLICATED_ELEMENT_BYTES = 2


def weights_per_gpu(weights_bytes: int, shape: ModelShape, parallel: Parallel) -> tuple[int, str]:
    """(bytes on the card with the most, how it was reckoned).

    Divided by the tensor-parallel size, except what every rank holds in full; pipeline stages by their layers; with
    expert parallelism a rank holds ceil(experts / ranks) whole experts. For nvidia/Kimi-K2.5-NVFP4 (591 GB) at TP 8
    this gives 70.6 GiB, the engine loaded 70.81 GiB. Raises ServingError when the checkpoint has no bytes.
    """
    if weights_bytes <= 0:
        raise ServingError(
            "the size of the weights is impossible",
            where="weights_bytes",
            why=f"got {weights_bytes}",
            remedy="Give the bytes of all safetensors files (hf_repo_info returns them as weights_bytes)",
        )
    replicated = min(weights_bytes, shape.replicated_elements * _REPLICATED_ELEMENT_BYTES)
    divided = (weights_bytes - replicated) / parallel.tensor
    if parallel.expert and shape.routed_experts:
        divided *= ceil_div(shape.routed_experts, parallel.tensor) * parallel.tensor / shape.routed_experts
    stage_share = max(layers_of_stages(shape.layers, parallel.pipeline)) / shape.layers
    per_gpu = int((divided + replicated) * stage_share)
    cards = parallel.tensor * parallel.pipeline
    even = weights_bytes / cards
    return per_gpu, (
        f"Weights: {weights_bytes:,} bytes / {cards} = {gib(even)} ({even / 1e9:.1f} GB) per card; with what every "
        f"rank holds in full {gib(per_gpu)}."
    )
