# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""From a model's shape to what each layer keeps on one card, and to the groups that vLLM allocates together."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ServingError
from .release import EngineRelease
from .shape import ModelShape
from .units import ceil_div


@dataclass(frozen=True)
class Parallel:
    """--tensor-parallel-size, --pipeline-parallel-size, --decode-context-parallel-size, --enable-expert-parallel."""

    tensor: int = 1
    pipeline: int = 1
    decode_context: int = 1
    expert: bool = False


@dataclass(frozen=True)
class LayerSpec:
    """What one layer keeps of one token on one card (vLLM: FullAttentionSpec, MLAAttentionSpec)."""

    kind: str
    bytes_per_token: int

    def page_bytes(self, block_size: int) -> int:
        """Bytes of one block of one layer."""
        return block_size * self.bytes_per_token

    def blocks_per_request(self, length: int, block_size: int, decode_context: int) -> int:
        """Blocks that a request of `length` tokens takes: every token is kept, 1/DCP of them on each card."""
        return ceil_div(ceil_div(length, decode_context), block_size)


@dataclass(frozen=True)
class Group:
    """Layers of one card that share block tables. GQA and MLA models have one group."""

    layers: tuple[LayerSpec, ...]

    def page_bytes(self, block_size: int) -> int:
        return sum(layer.page_bytes(block_size) for layer in self.layers)

    def blocks_per_request(self, length: int, block_size: int, decode_context: int) -> int:
        return max(layer.blocks_per_request(length, block_size, decode_context) for layer in set(self.layers))


def layer_spec(shape: ModelShape, tensor_parallel_size: int, element_bytes: int) -> LayerSpec:
    """GQA: a key and a value for max(1, kv_heads // TP) heads. MLA: one vector, whole on every rank."""
    if shape.family == "mla":
        return LayerSpec("mla", shape.head_size * element_bytes)
    kv_heads = max(1, shape.num_key_value_heads // tensor_parallel_size)
    return LayerSpec("full_attention", kv_heads * 2 * shape.head_size * element_bytes)


def layers_of_stages(layers: int, stages: int) -> list[int]:
    """Layers per pipeline stage, as vLLM's get_pp_indices gives them: the rest goes to the stages before the last."""
    counts = [layers // stages] * stages
    for stage in range(2, layers % stages + 2):
        counts[-stage] += 1
    return counts


def groups_of_stages(shape: ModelShape, parallel: Parallel, element_bytes: int) -> list[list[Group]]:
    """The groups of one card of each pipeline stage."""
    spec = layer_spec(shape, parallel.tensor, element_bytes)
    return [[Group((spec,) * count)] for count in layers_of_stages(shape.layers, parallel.pipeline)]


def check_parallel(shape: ModelShape, parallel: Parallel, element_bytes: int, release: EngineRelease) -> None:
    """Refuse what the engine refuses: sizes that do not divide. Raises ServingError in the engine's terms."""
    tp, dcp, heads, kv_heads = (
        parallel.tensor,
        parallel.decode_context,
        shape.num_attention_heads,
        shape.num_key_value_heads,
    )
    if heads % tp:
        _refuse("tensor_parallel_size", f"{heads} attention heads are not divisible by {tp}")
    if shape.family == "gqa" and kv_heads % tp and tp % kv_heads:
        _refuse("tensor_parallel_size", f"{kv_heads} key-value heads and {tp} ranks do not divide one another")
    if parallel.pipeline > shape.layers:
        _refuse("pipeline_parallel_size", f"{shape.layers} layers cannot fill {parallel.pipeline} stages")
    if tp % dcp:
        _refuse("decode_context_parallel_size", f"tensor_parallel_size {tp} is not divisible by {dcp}")
    if dcp == 1:
        return
    if shape.family == "gqa" and (tp <= kv_heads or dcp > tp // kv_heads or heads // kv_heads % dcp):
        _refuse(
            "decode_context_parallel_size",
            f"with {kv_heads} key-value heads at tensor_parallel_size {tp} the engine allows at most "
            f"{max(1, tp // kv_heads)}, and it must divide the {heads // kv_heads} query heads per key-value head",
        )
    if shape.family == "mla" and element_bytes == 1 and not release.serves_fp8_mla_with_dcp:
        _refuse("decode_context_parallel_size", f"vLLM {release} has no FP8 KV cache with DCP for MLA (from 0.25)")


def _refuse(option: str, why: str) -> None:
    raise ServingError(f"{option} is impossible for this model", where=option, why=why, remedy=f"Change {option}")
