# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What one layer keeps on one card: its page of a block, and the blocks that a request takes; how layers are divided.

vLLM's names: FullAttentionSpec, SlidingWindowSpec, ChunkedLocalAttentionSpec, MLAAttentionSpec (an indexer's too),
MambaSpec, CrossAttentionSpec (v1/kv_cache_interface.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .units import ceil_div

Kind = Literal[
    "full_attention",
    "sliding_window",
    "sliding_window_mla",
    "chunked_local_attention",
    "mla",
    "mla_indexer",
    "mamba",
    "cross_attention",
    "given",
]
# Layers that keep every token, and so take blocks alike.
KEEP_EVERY_TOKEN: frozenset[str] = frozenset({"full_attention", "mla", "mla_indexer", "given"})

SLIDES: frozenset[str] = frozenset({"sliding_window", "sliding_window_mla"})


@dataclass(frozen=True)
class Parallel:
    """--tensor-parallel-size, --pipeline-parallel-size, --decode-context-parallel-size, --enable-expert-parallel.

    partition: layers of each pipeline stage (VLLM_PP_LAYER_PARTITION); empty = as the engine spreads them.
    """

    tensor: int = 1
    pipeline: int = 1
    decode_context: int = 1
    expert: bool = False
    partition: tuple[int, ...] = ()

    def layers_of_stages(self, layers: int) -> list[int]:
        return list(self.partition) or layers_of_stages(layers, self.pipeline)


def layers_of_stages(layers: int, stages: int) -> list[int]:
    """Layers per pipeline stage, as vLLM's get_pp_indices gives them: the rest goes to the stages before the last."""
    counts = [layers // stages] * stages
    for stage in range(2, layers % stages + 2):
        counts[-stage] += 1
    return counts


@dataclass(frozen=True)
class Serving:
    """What decides a request's blocks besides its length.

    in_flight_tokens: scheduled and not yet settled. state_blocks: of one request in a layer with states; None = one
    per block of tokens (--mamba-cache-mode all). encoder_tokens: that the engine reserves for an encoder, which is
    --max-num-batched-tokens whatever the encoder's length (max_num_encoder_input_tokens).
    """

    decode_context: int = 1
    in_flight_tokens: int = 0
    state_blocks: int | None = 1
    drafts: int = 0
    encoder_tokens: int = 0


@dataclass(frozen=True)
class LayerSpec:
    """What one layer keeps on one card.

    bytes_per_token: of a layer with attention. state_bytes: of one state. window: tokens of a sliding window or chunk.
    padded_page: bytes that a block takes instead of what it holds. layout: what layers of one spec share besides.
    """

    kind: Kind
    block_size: int
    bytes_per_token: int = 0
    state_bytes: int = 0
    window: int = 0
    padded_page: int | None = None
    layout: tuple[int, ...] = ()

    @property
    def page_bytes(self) -> int:
        """Bytes of one block of one layer."""
        if self.padded_page is not None:
            return self.padded_page
        return self.state_bytes or self.block_size * self.bytes_per_token

    def blocks_per_request(self, length: int, serving: Serving) -> int:
        """Blocks that a request of `length` tokens takes from this layer's group."""
        if self.kind in SLIDES:
            kept = min(self.window - 1 + serving.in_flight_tokens, length)
            return ceil_div(kept, self.block_size) + 1
        if self.kind == "chunked_local_attention":
            return ceil_div(min(self.window + serving.in_flight_tokens, length), self.block_size)
        if self.kind == "mamba":
            if serving.state_blocks is None:
                return ceil_div(length, self.block_size) + serving.drafts
            return serving.state_blocks + serving.drafts
        if self.kind == "cross_attention":
            return ceil_div(serving.encoder_tokens, self.block_size)
        return ceil_div(ceil_div(length, serving.decode_context), self.block_size)

    def keeping_every_token(self) -> LayerSpec:
        """As --disable-hybrid-kv-cache-manager treats a window or a chunk."""
        if self.kind in ("sliding_window", "chunked_local_attention"):
            return replace(self, kind="full_attention", window=0)
        return self

    def same_type(self, other: LayerSpec) -> bool:
        """Whether two layers take the same blocks of a request (UniformTypeKVCacheSpecs)."""
        if self.block_size != other.block_size:
            return False
        if self.kind in KEEP_EVERY_TOKEN:
            return other.kind in KEEP_EVERY_TOKEN
        return self.kind == other.kind and self.window == other.window
