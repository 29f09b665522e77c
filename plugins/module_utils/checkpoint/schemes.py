# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How vLLM reads the two forms in which a ModelOpt checkpoint names its KV-cache quantization: a scheme, or a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .resolver_rules import ResolverRules


def scheme_kind(value: Any) -> str:
    """fp8 (static 8-bit float), nvfp4 (4-bit float), unknown, or none, as vLLM reads a scheme or an algorithm name."""
    if not value:
        return "none"
    algorithm = value.lower() if isinstance(value, str) else _algorithm_of_scheme(value)
    return algorithm if algorithm in ("fp8", "nvfp4") else "unknown"


def algorithm_of(value: Any, rules: ResolverRules) -> str | None:
    """The algorithm that one release takes a ModelOpt scheme or name for; None when it knows none."""
    if isinstance(value, str):
        return value.lower()
    algorithm = _algorithm_of_scheme(value)
    return None if algorithm == "nvfp4" and not rules.four_bit_scheme else algorithm


def _algorithm_of_scheme(value: Any) -> str | None:
    if not isinstance(value, Mapping) or value.get("type") != "float":
        return None
    if value.get("num_bits") == 8 and value.get("dynamic") is False:
        return "fp8"
    return "nvfp4" if value.get("num_bits") == 4 else None
