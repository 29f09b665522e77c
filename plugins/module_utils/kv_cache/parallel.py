# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which sizes a model cannot be divided over, as the engine refuses them."""

from __future__ import annotations

from ..errors import ServingError
from .families.caches import AttentionCache, StateCache, WindowedLatentCache
from .layer_specs import Parallel
from .release import EngineRelease
from .shape import ModelShape


def check_parallel(shape: ModelShape, parallel: Parallel, element_bytes: int, release: EngineRelease) -> None:
    """Refuse what the engine refuses: sizes that do not divide. Raises ServingError in the engine's terms."""
    tp, dcp = parallel.tensor, parallel.decode_context
    if shape.num_attention_heads % tp:
        _refuse("tensor_parallel_size", f"{shape.num_attention_heads} attention heads are not divisible by {tp}")
    for kv_heads in sorted({cache.kv_heads for cache in shape.caches if isinstance(cache, AttentionCache)}):
        if kv_heads % tp and tp % kv_heads:
            _refuse("tensor_parallel_size", f"{kv_heads} key-value heads and {tp} ranks do not divide one another")
    for cache in set(shape.caches):
        if not isinstance(cache, StateCache):
            continue
        if cache.heads % tp or cache.conv_width % tp:
            _refuse("tensor_parallel_size", f"the {cache.heads} heads of its states are not divisible by {tp}")
        if cache.groups > 1 and cache.groups % tp:
            _refuse("tensor_parallel_size", f"the {cache.groups} groups of its states are not divisible by {tp}")
    if parallel.pipeline > shape.layers:
        _refuse("pipeline_parallel_size", f"{shape.layers} layers cannot fill {parallel.pipeline} stages")
    if parallel.partition and (len(parallel.partition), sum(parallel.partition)) != (parallel.pipeline, shape.layers):
        _refuse(
            "VLLM_PP_LAYER_PARTITION",
            f"{','.join(map(str, parallel.partition))} does not spread {shape.layers} layers over {parallel.pipeline} "
            "pipeline stages",
        )
    if tp % dcp:
        _refuse("decode_context_parallel_size", f"tensor_parallel_size {tp} is not divisible by {dcp}")
    if dcp > 1:
        _check_decode_context(shape, parallel, element_bytes, release)


def _check_decode_context(shape: ModelShape, parallel: Parallel, element_bytes: int, release: EngineRelease) -> None:
    tp, dcp = parallel.tensor, parallel.decode_context
    heads, kv_heads = shape.num_attention_heads, shape.num_key_value_heads
    option = "decode_context_parallel_size"
    windows = any(isinstance(cache, AttentionCache) and (cache.window or cache.chunk) for cache in shape.caches)
    if windows or shape.has(WindowedLatentCache):
        _refuse(option, "the engine does not support DCP with sliding windows or chunks")
    if shape.has(StateCache) and not shape.uses_mla:
        _refuse(option, "the engine does not support DCP for layers that keep a state")
    if not shape.uses_mla and kv_heads and (tp <= kv_heads or dcp > tp // kv_heads or heads // kv_heads % dcp):
        _refuse(
            option,
            f"with {kv_heads} key-value heads at tensor_parallel_size {tp} the engine allows at most "
            f"{max(1, tp // kv_heads)}, and it must divide the {heads // kv_heads} query heads per key-value head",
        )
    if shape.family == "mla" and element_bytes == 1 and not release.serves_fp8_mla_with_dcp:
        _refuse(option, f"vLLM {release} has no FP8 KV cache with DCP for MLA (from 0.25)")


def _refuse(option: str, why: str) -> None:
    raise ServingError(f"{option} is impossible for this model", where=option, why=why, remedy=f"Change {option}")
