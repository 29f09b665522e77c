# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Context lengths: how they are written, and how long a context the model's own positions allow."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .config_fields import text_config
from .families.defaults import filled_in
from .release import EngineRelease

AUTO = "auto"

_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

# transformers' names of the position count, in the order in which vLLM looks (model_arch_config_convertor.py);
# the smallest counts, and model_max_length overrules them.
_POSITION_FIELDS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# What the engine serves of a model without positions when --max-model-len is not given.
_WITHOUT_POSITIONS = 2048
# vLLM multiplies by the scaling factor for every other type.
_ALREADY_SCALED = ("default", "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")


def parse_length(text: str | int, where: str) -> int:
    """Tokens, read as vLLM's own --max-model-len is: 128k = 128,000 and 128K = 131,072.

    Raises ServingError for anything else, also for 1.5K (no decimals with a binary suffix) and 131,072.
    """
    written = str(text).strip()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", written, re.ASCII)
    if match:
        number, suffix = match.groups()
        if suffix in _DECIMAL:
            length = int(float(number) * _DECIMAL[suffix])
        elif number.isdecimal():
            length = int(number) * _BINARY[suffix]
        else:
            raise _unreadable(where, written, f"Decimals are not allowed with {suffix}; {number}{suffix.lower()} is")
    elif re.fullmatch(r"\d+", written, re.ASCII):
        length = int(written)
    else:
        raise _unreadable(where, written, "Write a whole number of tokens, or 128k (128,000), or 128K (131,072)")
    if length < 1:
        raise _unreadable(where, written, "It must be at least 1 token")
    return length


def parse_max_model_len(text: str | int) -> int | None:
    """--max-model-len: a number of tokens, or None for `auto` and -1."""
    written = str(text).strip()
    if written == "-1" or written.lower() == AUTO:
        return None
    return parse_length(written, "max_model_len")


def _unreadable(where: str, written: str, remedy: str) -> ServingError:
    return ServingError(f"{where} cannot be read as a number of tokens", why=f"got {written!r}", remedy=remedy)


@dataclass(frozen=True)
class LengthLimit:
    """The longest context in tokens that the model's configuration allows, and the words for why."""

    tokens: int
    because: str
    note: str | None = None


def any_length(asked: int | None) -> LengthLimit:
    """The limit of a model that counts no positions: what is asked for, else what the engine takes by itself."""
    because = "config.json names no number of positions, and the engine then takes any max_model_len"
    if asked is not None:
        return LengthLimit(asked, f"{because}: {asked:,} is asked for")
    return LengthLimit(
        _WITHOUT_POSITIONS,
        f"{because}, and {_WITHOUT_POSITIONS:,} by itself",
        f"The model counts no positions: {_WITHOUT_POSITIONS:,} tokens are what the engine serves when it is not told "
        "otherwise. Give max_model_len or max_model_len_cap for another length.",
    )


def counts_positions(config: Mapping[str, Any]) -> bool:
    """Whether config.json has a field for the number of positions, readable or not."""
    text = filled_in(text_config(config))
    return any(text.get(name) is not None for name in _POSITION_FIELDS)


def model_length_limit(config: Mapping[str, Any], release: EngineRelease) -> LengthLimit:
    """The longest context, by config.json's positions and RoPE scaling, as that release derives it.

    Gemma-3's positions already contain its factor. YaRN: max_position_embeddings already is original x factor in most
    checkpoints; vLLM before 0.30 takes original x factor, later releases take max_position_embeddings as it stands. The
    product is never applied to a position count that already contains it. Raises ServingError when no position count is
    found.
    """
    text = filled_in(text_config(config))
    counts = {name: text[name] for name in _POSITION_FIELDS if _is_count(text.get(name))}
    if not counts:
        written = [f"{name} is {text[name]!r}" for name in _POSITION_FIELDS if text.get(name) is not None]
        raise ServingError(
            "config.json does not say how many positions the model has",
            where="config.json#/max_position_embeddings",
            why=", ".join(written) or "none of its fields counts them",
            remedy="Give the complete config.json of the checkpoint, or add "
            '--hf-overrides {"max_position_embeddings": N} to arguments, as for the engine',
        )
    name = "model_max_length" if "model_max_length" in counts else min(counts, key=lambda each: int(counts[each]))
    positions = int(counts[name])
    limit = LengthLimit(positions, f"{name} is {positions:,}")
    if "gemma3" in str(text.get("model_type")):
        return limit
    for scaling in _rope_scalings(text):
        kind = str(scaling.get("rope_type") or scaling.get("type") or "default")
        factor = scaling.get("factor")
        if not isinstance(factor, (int, float)) or isinstance(factor, bool) or not 0 < factor < math.inf:
            continue
        if kind in ("yarn", "deepseek_yarn"):
            return _yarn_limit(limit, scaling.get("original_max_position_embeddings"), float(factor), release)
        if kind not in _ALREADY_SCALED:
            scaled = int(positions * factor)
            return LengthLimit(scaled, f"{name} {positions:,} x {kind} factor {factor:g} is {scaled:,}")
    return limit


def _yarn_limit(limit: LengthLimit, original: object, factor: float, release: EngineRelease) -> LengthLimit:
    if not _is_count(original):
        return limit
    scaled = int(int(str(original)) * factor)
    because = f"YaRN: {original:,} original positions x {factor:g} is {scaled:,}"
    if scaled == limit.tokens:
        return LengthLimit(scaled, f"{limit.because}, which already is {original:,} x YaRN factor {factor:g}")
    if release.applies_yarn_factor or release.assumed:
        note = None
        if release.assumed:
            note = (
                f"{because}, but {limit.because}: vLLM from 0.30 goes by max_position_embeddings. Give vllm_version, "
                f'or set --hf-overrides {{"max_position_embeddings": {scaled}}} on such a release'
            )
        return LengthLimit(scaled, because, note)
    note = (
        f"{because}, but vLLM {release} goes by max_position_embeddings; "
        f'--hf-overrides {{"max_position_embeddings": {scaled}}} would allow it'
    )
    return LengthLimit(limit.tokens, limit.because, note)


def _rope_scalings(text: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The RoPE settings: `rope_scaling`, or transformers 5's `rope_parameters` (one, or one per layer type)."""
    found: list[Mapping[str, Any]] = []
    for name in ("rope_parameters", "rope_scaling"):
        value = text.get(name)
        if isinstance(value, Mapping):
            nested = [each for each in value.values() if isinstance(each, Mapping)]
            found.extend(nested or [value])
    return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
