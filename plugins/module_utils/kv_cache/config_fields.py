# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Reading config.json: the text model inside a multimodal one, and fields with more than one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ServingError

# Where a composed model keeps its language model, in the order in which they are looked for.
_LANGUAGE_MODEL = ("text_config", "llm_config", "language_config", "thinker_config")
# These names are used for other things too: they count if they describe layers.
_PERHAPS = ("decoder_config", "decoder", "llm")


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that describes the language model: `text_config`, `thinker_config.text_config`, ..., or the whole."""
    for name in (*_LANGUAGE_MODEL, *_PERHAPS):
        nested = config.get(name)
        if isinstance(nested, Mapping) and (name in _LANGUAGE_MODEL or any(each in nested for each in _LAYER_COUNTS)):
            return text_config(nested)
    return config


_LAYER_COUNTS = (
    "num_hidden_layers",
    "num_layers",
    "n_layers",
    "n_layer",
    "layers_block_type",
    "hybrid_override_pattern",
    "block_configs",
    "decoder_layers",
)


def architecture_of(config: Mapping[str, Any]) -> str:
    """The first of `architectures`: what vLLM chooses the model class by."""
    names = config.get("architectures")
    if isinstance(names, (list, tuple)) and names and isinstance(names[0], str):
        return names[0]
    raise ServingError(
        "config.json names no architecture",
        where="config.json#/architectures",
        why=f"got {names!r}",
        remedy="Give the config.json of a Hugging Face checkpoint",
    )


def positive_int(config: Mapping[str, Any], *names: str) -> int:
    """The first of these fields that is there. Raises ServingError when none is, or when it is no positive integer."""
    value = optional_int(config, *names)
    if value is None:
        raise ServingError(
            f"config.json has no {names[0]}",
            where=f"config.json#/{names[0]}",
            remedy="Without it the KV cache cannot be computed: give the complete config.json of the checkpoint",
        )
    return value


def optional_int(config: Mapping[str, Any], *names: str) -> int | None:
    """As positive_int, but None when none of the fields is there (or is null)."""
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise ServingError(
                f"config.json's {name} is no positive number",
                where=f"config.json#/{name}",
                why=f"got {value!r}",
                remedy="Give the config.json of the checkpoint as it was published",
            )
        return value
    return None


def largest_int(config: Mapping[str, Any], *names: str) -> int:
    """The first of these fields that holds a positive number, or a list of them (its largest); 0 where none does.

    For fields that an estimate is made of, and no KV cache.
    """
    for name in names:
        value = config.get(name)
        entries = value if isinstance(value, (list, tuple)) else [value]
        whole = [entry for entry in entries if isinstance(entry, int) and not isinstance(entry, bool)]
        if whole and max(whole) > 0:
            return max(whole)
    return 0


def flag(config: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """A boolean field; `default` when it is missing or null."""
    value = config.get(name)
    return default if value is None else value is True or value == 1


def numbers(config: Mapping[str, Any], name: str) -> list[int] | None:
    """A list of whole numbers, or None when the field is missing or null."""
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, int) for each in value):
        raise ServingError(
            f"config.json's {name} is no list of numbers",
            where=f"config.json#/{name}",
            why=f"got {str(value)[:80]}",
            remedy="Give the config.json of the checkpoint as it was published, with no list cut short",
        )
    return [int(each) for each in value]


def names(config: Mapping[str, Any], name: str) -> list[str] | None:
    """A list of words, or None when the field is missing or null."""
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise ServingError(
            f"config.json's {name} is no list of words",
            where=f"config.json#/{name}",
            why=f"got {str(value)[:80]}",
            remedy="Give the config.json of the checkpoint as it was published",
        )
    return list(value)


def one_per_layer(field: str, entries: int, layers: int) -> None:
    """Refuse a list that has less than one entry per layer. Raises ServingError."""
    if entries < layers:
        raise ServingError(
            f"config.json's {field} is too short",
            where=f"config.json#/{field}",
            why=f"{entries} entries for {layers} layers",
            remedy="Give the config.json of the checkpoint as it was published, with no list cut short",
        )
