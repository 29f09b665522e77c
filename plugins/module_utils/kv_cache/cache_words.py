# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a card's cache is made of, in words: one formula where all layers are alike, else a phrase per kind of layer."""

from __future__ import annotations

from collections import Counter

from .layer_specs import LayerSpec
from .planner import Planner
from .question import Question


def cache_in_words(question: Question, planner: Planner) -> str:
    """ "KV cache (MLA): 61 layers x 576 elements x 2 bytes ...": without the full stop."""
    shape, dtype = question.shape, question.dtype
    if shape is None:
        return f"KV cache: {planner.bytes_per_token:,} bytes per token and card, as given"
    per_token = f"{planner.bytes_per_token:,} bytes per token"
    if shape.family == "mla" and not question.draft.layers:
        return (
            f"KV cache (MLA): {shape.layers} layers x {shape.head_size} elements x {dtype.element_bytes} bytes "
            f"({dtype.name}): {per_token} on every card, not divided by tensor parallelism"
        )
    if shape.family == "gqa" and not question.draft.layers:
        heads = max(1, shape.num_key_value_heads // question.request.parallel.tensor)
        return (
            f"KV cache (GQA): {shape.layers} layers x 2 x {heads} of {shape.num_key_value_heads} key-value heads x "
            f"{shape.head_size} elements x {dtype.element_bytes} bytes ({dtype.name}): {per_token} and card"
        )
    layers = Counter(layer for groups in planner.stages for group in groups for layer in group.layers)
    kinds = ", ".join(f"{count} x {_layer(spec)}" for spec, count in layers.items())
    groups = len(planner.stages[0])
    shared = "one group" if groups == 1 else f"{groups} groups that share one pool of blocks"
    return f"KV cache ({shape.family}, {dtype.name}): {kinds}; in {shared}, a long request takes {per_token} and card"


def _layer(spec: LayerSpec) -> str:
    if spec.kind == "mamba":
        return f"a state of {spec.state_bytes:,} bytes per request"
    words = {
        "sliding_window": f"a window of {spec.window:,} tokens",
        "chunked_local_attention": f"a chunk of {spec.window:,} tokens",
        "mla": "a latent vector (on every card)",
        "mla_indexer": "an indexer's key (on every card)",
        "cross_attention": "the encoder's keys and values",
    }
    return f"{words.get(spec.kind, 'keys and values')} of {spec.bytes_per_token:,} bytes per token"


def block_in_words(question: Question, planner: Planner) -> str:
    """ "Blocks of 16 tokens (...) of 1,124,352 bytes." """
    size, why = question.block_size
    if planner.block_size != size:
        why = "long enough for a state"
    return f"Blocks of {planner.block_size:,} tokens ({why}) of {planner.bytes_per_block:,} bytes."
