# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Quantization settings with which a vLLM release does not start, whatever --kv-cache-dtype says.

Read in the quantization methods and the attention layer of vLLM 0.15 to 0.33; what differs between releases is in
ResolverRules.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .quantization import Block, effective_block, weights_block
from .resolver_rules import ResolverRules

SCHEME_STRATEGIES = ("tensor", "attn_head")


@dataclass(frozen=True)
class Refusal:
    """Where vLLM stumbles, and why.

    by_patch: the value concerned is a KV-cache setting, and with null in its place vLLM goes on
    chooses_backend: vLLM starts, but only on an attention backend with scales per head
    """

    where: str
    why: str
    by_patch: bool
    chooses_backend: bool = False


def refusals(blocks: list[Block], rules: ResolverRules, *, use_mla: bool) -> list[Refusal]:
    """Everything in these blocks that one vLLM release refuses."""
    found: list[Refusal] = []
    block = effective_block(blocks)
    if block is not None:
        found += _unreadable(block)
        found += _modelopt(block, rules)
    block = weights_block(blocks)
    method = block.method(rules) if block is not None else ""
    if block is not None and method == "compressed-tensors" and not use_mla:
        found += _compressed_tensors(block, rules)
    elif block is not None and method == "quark":
        found += _quark(block, use_mla=use_mla)
    return found


def _unreadable(block: Block) -> Iterator[Refusal]:
    """A key that may be absent, but not null."""
    for key in ("quant_method", "producer", "quantization"):
        if key in block.value and block.value[key] is None:
            yield Refusal(f"{block.where}/{key}", "it is null, where vLLM expects a value or no such key", False)


def _modelopt(block: Block, rules: ResolverRules) -> Iterator[Refusal]:
    if not block.method(rules).startswith("modelopt"):
        algo = block.refused_algo(rules)
        if algo is not None:
            why = f"it is {algo}, for which this vLLM knows no method in this form"
            yield Refusal(f"{block.file}#{block.inner[0]}/quant_algo", why, False)
        return
    pointer, inner = block.inner
    if not inner.get("quant_algo"):
        yield Refusal(f"{block.file}#{pointer}/quant_algo", "vLLM loads no ModelOpt weights without it", False)
    missing = block.missing_fields()
    if missing:
        why = f"it lacks {', '.join(missing)}: vLLM does not load {block.algo} weights without (null is enough)"
        yield Refusal(f"{block.file}#{pointer}", why, False)
    wrapped = pointer != block.pointer
    algo_name = inner.get("kv_cache_quant_algo")
    if (wrapped or rules.flat_algo_is_string) and algo_name is not None and not isinstance(algo_name, str):
        yield Refusal(f"{block.file}#{pointer}/kv_cache_quant_algo", "vLLM expects a string or null there", True)


def _compressed_tensors(block: Block, rules: ResolverRules) -> Iterator[Refusal]:
    scheme = block.value.get("kv_cache_scheme")
    where = f"{block.where}/kv_cache_scheme"
    if scheme is None:
        return
    if not isinstance(scheme, Mapping):
        yield Refusal(where, "vLLM expects an object or null there", True)
        return
    other_type, other_width = scheme.get("type") != "float", scheme.get("num_bits") != 8
    if (other_type or other_width) if rules.scheme_is_8_bit_float else (other_type and other_width):
        yield Refusal(where, "vLLM takes no scheme but 8-bit float there", True)
    elif scheme.get("strategy") not in SCHEME_STRATEGIES:
        yield Refusal(f"{where}/strategy", f"vLLM takes no strategy but {' or '.join(SCHEME_STRATEGIES)}", True)
    elif not scheme.get("symmetric"):
        yield Refusal(f"{where}/symmetric", "vLLM takes no scale but a symmetric one", True)
    elif scheme["strategy"] == "attn_head" and rules.per_head_scales_choose_backend:
        why = "scales per head: vLLM then takes no attention backend without them, whatever dtype the flag names"
        yield Refusal(f"{where}/strategy", why, True, chooses_backend=True)


def _quark(block: Block, *, use_mla: bool) -> Iterator[Refusal]:
    export = block.value.get("export")
    if not isinstance(export, Mapping):
        yield Refusal(f"{block.where}/export", "vLLM does not read a Quark block without this object", False)
        return
    group = export.get("kv_cache_group")
    where = f"{block.where}/export/kv_cache_group"
    if not isinstance(group, list):
        yield Refusal(where, "vLLM expects a list there, empty where the KV cache is not quantized", False)
        return
    if not group:
        return
    settings = [_output_tensors(value) for name, value in _layers(block) if any(_matches(name, item) for item in group)]
    if not settings or settings[0] is None or any(item != settings[0] for item in settings):
        yield Refusal(where, "the layers it names have no settings in layer_quant_config, or not the same ones", False)
    elif not use_mla and (settings[0].get("dtype"), settings[0].get("qscheme")) != ("fp8_e4m3", "per_tensor"):
        yield Refusal(where, "vLLM takes no KV-cache settings from Quark but fp8_e4m3 per tensor", False)


def _layers(block: Block) -> list[tuple[str, Any]]:
    layers = block.value.get("layer_quant_config")
    return list(layers.items()) if isinstance(layers, Mapping) else []


def _matches(name: str, pattern: object) -> bool:
    return isinstance(pattern, str) and fnmatch.fnmatchcase(name, pattern)


def _output_tensors(settings: object) -> Mapping[str, Any] | None:
    tensors = settings.get("output_tensors") if isinstance(settings, Mapping) else None
    return tensors if isinstance(tensors, Mapping) else None
