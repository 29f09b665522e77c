# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Reading config.json: the text model inside a multimodal one, and fields with more than one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ServingError


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that describes the language model: `text_config`, `llm_config`, or the whole."""
    for name in ("text_config", "llm_config"):
        nested = config.get(name)
        if isinstance(nested, Mapping):
            return nested
    return config


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
