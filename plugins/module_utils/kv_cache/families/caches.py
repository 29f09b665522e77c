# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a layer of a model keeps, before it is divided over cards: elements and heads, no bytes of a card.

One layer keeps nothing (a feed-forward layer, a layer that reads another one's cache), one thing, or several (a
latent vector and an indexer key; keys and values and a state; those of a decoder and of an encoder).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class AttentionCache:
    """Keys and values of `kv_heads` heads for every token, or for the last `window` (or within a `chunk`) only."""

    kv_heads: int
    head_size: int
    value_size: int
    window: int | None = None
    chunk: int | None = None


@dataclass(frozen=True)
class LatentCache:
    """MLA: one vector of kv_lora_rank + qk_rope_head_dim elements per token, the same on every rank."""

    elements: int
    sparse: bool = False


@dataclass(frozen=True)
class IndexerCache:
    """A sparse indexer's key of every token: bytes whatever the KV dtype, the same on every rank."""

    bytes_per_token: int


@dataclass(frozen=True)
class CompressedCache:
    """A latent vector, or an indexer's key, of every `tokens_per_state` tokens: bytes whatever the KV dtype."""

    tokens_per_state: int
    state_bytes: int
    indexer: bool = False


@dataclass(frozen=True)
class WindowedLatentCache:
    """A latent vector of each of the last `window` tokens, in blocks of its own size, the same on every rank."""

    window: int
    block_size: int
    bytes_per_token: int


@dataclass(frozen=True)
class CrossCache:
    """Keys and values of `kv_heads` heads for the encoder's `tokens`."""

    kv_heads: int
    head_size: int
    tokens: int


@dataclass(frozen=True)
class StateCache:
    """A state of fixed size per request: the last inputs of a convolution, and a recurrent state.

    conv_width, conv_length: elements per token that the convolution keeps (divided by TP), and of how many tokens.
    groups, group_width: Mamba-2's groups, which are repeated until every rank has whole ones; elements per group.
    heads, head_elements: the recurrent state, divided by TP by its heads.
    state_bytes: of one element of it; None = as the convolution's, which is the model's dtype.
    keeps_drafts: with speculative decoding the convolution keeps so many tokens more.
    key_size, has_bounded_gate: of linear attention, by which its prefill kernel is chosen.
    """

    kind: str
    conv_width: int
    conv_length: int
    heads: int = 0
    head_elements: int = 0
    groups: int = 0
    group_width: int = 0
    state_bytes: int | None = None
    keeps_drafts: bool = True
    key_size: int = 0
    has_bounded_gate: bool = False

    def bytes(self, tensor_parallel: int, element_bytes: int, drafts: int, recurrent_bytes: int | None = None) -> int:
        """Bytes of one request's state on one rank (MambaStateShapeCalculator).

        recurrent_bytes: of an element of the recurrent state, whatever the model says (--mamba-ssm-cache-dtype).
        """
        groups = self.groups if self.groups % tensor_parallel == 0 else tensor_parallel
        width = (self.conv_width + groups * self.group_width) // tensor_parallel
        length = self.conv_length + (drafts if self.keeps_drafts else 0)
        state = self.heads // tensor_parallel * self.head_elements
        asked = None if self.kind == "linear" else recurrent_bytes
        return width * length * element_bytes + state * (asked or self.state_bytes or element_bytes)


Cache: TypeAlias = (
    "AttentionCache | LatentCache | IndexerCache | CompressedCache | WindowedLatentCache | CrossCache | StateCache"
)
Layers = tuple[tuple[Cache, ...], ...]
