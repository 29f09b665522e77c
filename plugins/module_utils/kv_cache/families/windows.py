# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which layers attend to a window only: by a list, by a pattern's length, or by what the model class does."""

from __future__ import annotations

from ...errors import ServingError
from ..config_fields import names, numbers, one_per_layer, optional_int
from .heads import Fields, layer_count
from .refusal import refuse

_FULL = ("full_attention", "attention", "global_attention", "full")
_SLIDING = ("sliding_attention", "sliding_window", "local_attention", "sliding")
# Without layer_types: every n-th layer sees everything (transformers' configuration classes).
_EVERY_NTH_IS_FULL = {
    "cohere2": 4,
    "cohere2_moe": 4,
    "exaone4": 4,
    "exaone_moe": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gemma3n": 5,
    "gemma3n_text": 5,
    "gemma4": 6,
    "gemma4_text": 6,
    "gpt_oss": 2,
    "olmo3": 4,
}
# Cohere's model class adds the token itself to the window.
_WINDOW_WITHOUT_ITSELF = ("cohere2", "cohere2_moe")
# Gemma-4's configuration class makes the last layer see everything, whatever the pattern.
_LAST_IS_FULL = ("gemma4", "gemma4_text")


def windows(text: Fields, model_type: str) -> list[int | None]:
    """One entry per layer: the window in tokens, None = every token. Raises ServingError for kinds that are unknown."""
    layers, window = layer_count(text), _window(text, model_type)
    kinds = names(text, "layer_types")
    if kinds is not None:
        one_per_layer("layer_types", len(kinds), layers)
        return [_by_kind(kind, window, text) for kind in kinds[:layers]]
    if window is None:
        return [None] * layers
    every = optional_int(text, "sliding_window_pattern") if _is_number(text, "sliding_window_pattern") else None
    every = every or _EVERY_NTH_IS_FULL.get(model_type)
    pattern = text.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:  # "LLLG"
        return [window if pattern[layer % len(pattern)] == "L" else None for layer in range(layers)]
    if every is None:
        return _without_pattern(text, model_type, window, layers)
    found = [None if (layer + 1) % every == 0 else window for layer in range(layers)]
    if model_type in _LAST_IS_FULL:
        found[-1] = None
    return found


def _without_pattern(text: Fields, model_type: str, window: int, layers: int) -> list[int | None]:
    """All layers, or (Qwen) those from max_window_layers on."""
    first = optional_int(text, "max_window_layers") if text.get("max_window_layers") else 0
    if not model_type.startswith(("qwen", "mimo")) or first is None:
        return [window] * layers
    return [None if layer < first else window for layer in range(layers)]


def _window(text: Fields, model_type: str) -> int | None:
    """sliding_window unless use_sliding_window is false; 0 and null mean none.

    Qwen2 and Qwen3 configs without use_sliding_window have no window (transformers' default for them is false).
    """
    default = not model_type.startswith(("qwen2", "qwen3", "mimo"))
    use = text.get("use_sliding_window")
    if (default if use is None else use) is False:
        return None
    if not text.get("sliding_window"):
        return None
    window = optional_int(text, "sliding_window")
    return window + 1 if window is not None and model_type in _WINDOW_WITHOUT_ITSELF else window


def _by_kind(kind: str, window: int | None, text: Fields) -> int | None:
    if kind in _FULL:
        return None
    if kind not in _SLIDING:
        refuse("a layer", f"layer_types in config.json has {kind}, which is not known for this architecture")
    if window is None:
        raise ServingError(
            "config.json says that layers slide, but not over what",
            where="config.json#/sliding_window",
            why=f"layer_types has {kind}, sliding_window is {text.get('sliding_window')!r}",
            remedy="Give the config.json of the checkpoint as it was published",
        )
    return window


def by_numbers(text: Fields, field: str) -> list[bool]:
    """A list of 0 and 1, one per layer, as booleans (hybrid_layer_pattern, no_rope_layers)."""
    entries = numbers(text, field) or []
    one_per_layer(field, len(entries), layer_count(text))
    return [entry == 1 for entry in entries[: layer_count(text)]]


def _is_number(text: Fields, field: str) -> bool:
    value = text.get(field)
    return isinstance(value, int) and not isinstance(value, bool)
