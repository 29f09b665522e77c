# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""DeepSeek-V4: a window of latent vectors on every layer, and on most a compressed history of all tokens besides.

compress_ratios: 0 and 1 keep the window only; 4 keeps one latent vector and one indexer key per 4 tokens, and of both
the last inputs that are still to be compressed; 128 keeps one latent vector per 128 tokens (models/deepseek_v4).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import ServingError
from ..config_fields import names, numbers, one_per_layer, positive_int
from .caches import Cache, CompressedCache, Layers, WindowedLatentCache
from .heads import Fields, layer_count
from .refusal import refuse

_HEAD_SIZE, _ROPE, _INDEX_HEAD_SIZE = 512, 64, 128
_LATENT_BYTES = 584  # fp8_ds_mla: 448 bytes without position, 128 with it, 8 of scales
_INDEX_KEY_BYTES = 132  # 128 of 8 bits, one float32 scale
_WINDOW_BLOCK = 64
_INPUT_BLOCKS = {4: 4, 128: 8}  # tokens per block of the inputs that are still to be compressed (CompressorStateCache)


def deepseek_v4(text: Fields) -> Layers:
    """Refuses other sizes than those that the engine's packed layout has."""
    for field, size in (("head_dim", _HEAD_SIZE), ("qk_rope_head_dim", _ROPE), ("index_head_dim", _INDEX_HEAD_SIZE)):
        if positive_int(text, field) != size:
            refuse("a DeepSeek-V4 model", f"its {field} is {text.get(field)}; vLLM packs latent vectors of {size}")
    window = _window(text)
    return tuple((window, *_compressed(ratio)) for ratio in _ratios(text))


def window_only(text: Fields) -> tuple[Cache, ...]:
    """An MTP layer."""
    return (_window(text),)


def _window(text: Fields) -> WindowedLatentCache:
    return WindowedLatentCache(positive_int(text, "sliding_window"), _WINDOW_BLOCK, _LATENT_BYTES)


def _compressed(ratio: int) -> tuple[Cache, ...]:
    if ratio <= 1:
        return ()
    latent = CompressedCache(ratio, _LATENT_BYTES), _inputs(ratio, _HEAD_SIZE)
    if ratio != 4:
        return latent
    return (*latent, CompressedCache(ratio, _INDEX_KEY_BYTES, indexer=True), _inputs(ratio, _INDEX_HEAD_SIZE))


def _inputs(ratio: int, head_size: int) -> WindowedLatentCache:
    """Key and score in float32 of the tokens that the next state is made of; with a ratio of 4 windows overlap."""
    overlap = 2 if ratio == 4 else 1
    return WindowedLatentCache(overlap * ratio, _INPUT_BLOCKS[ratio], 2 * overlap * head_size * 4)


def _ratios(text: Fields) -> list[int]:
    """One per layer: compress_ratios, or transformers 5's layer_types with compress_rates per type."""
    layers = layer_count(text)
    found = numbers(text, "compress_ratios")
    rates = text.get("compress_rates")
    if found is None and isinstance(rates, Mapping):
        found = [_rate(rates, kind) for kind in names(text, "layer_types") or ()]
    if found is None:
        refuse("a DeepSeek-V4 model", "config.json has neither compress_ratios nor compress_rates")
    one_per_layer("compress_ratios", len(found), layers)
    unknown = sorted(set(found[:layers]) - {0, 1, *_INPUT_BLOCKS})
    if unknown:
        refuse("a DeepSeek-V4 model", f"its compress_ratios have {unknown[0]}; vLLM knows 0, 1, 4 and 128")
    return found[:layers]


def _rate(rates: Mapping[str, object], kind: str) -> int:
    rate = rates.get(kind, 0)
    if not isinstance(rate, int) or isinstance(rate, bool):
        raise ServingError(
            "config.json's compress_rates is no map of numbers",
            where=f"config.json#/compress_rates/{kind}",
            why=f"got {rate!r}",
            remedy="Give the config.json of the checkpoint as it was published",
        )
    return rate
