# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a person should know about a checkpoint's KV-cache settings besides the dtype itself."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .documents import Contents, Quantization
from .quantization import CONFIG, declarations_in, effective_block, quark_declaration
from .resolver_rules import ResolverRules


def notes_on(
    contents: Contents, quantization: Quantization, rules: ResolverRules, scale_tensors: int | None
) -> list[str]:
    """Remarks on one state of the two files; `scale_tensors` counts the KV scales in the weights, None if unknown."""
    return [
        *rules.notes,
        *_refusals(quantization, rules),
        *_unknown_values(quantization),
        *_scales(quantization, scale_tensors),
        *_beyond_the_files(contents, quantization, rules),
    ]


def _refusals(quantization: Quantization, rules: ResolverRules) -> Iterator[str]:
    block = effective_block(quantization.blocks)
    if block is None:
        return
    if block.missing_fields():
        yield (
            f"{block.file}#{block.inner[0]} lacks {', '.join(block.missing_fields())}: "
            f"vLLM does not load {block.algo} weights without (null is enough)"
        )
    algo = block.refused_algo(rules)
    if algo is not None:
        yield f"{block.file}#{block.inner[0]}/quant_algo is {algo}, which this vLLM refuses in this form"


def _unknown_values(quantization: Quantization) -> Iterator[str]:
    for block in quantization.blocks:
        for declaration in declarations_in(block):
            if declaration.kind != "unknown" or declaration.where == _by_layer(quantization):
                continue
            effect = (
                "warns and keeps the model's dtype"
                if declaration.where == quantization.resolution.decided_by
                else "does not act on it"
            )
            yield f"{declaration.where} is {json.dumps(declaration.value)}, a KV-cache setting that vLLM {effect}"
        quark = quark_declaration(block)
        if quark is not None:
            yield f"{quark.where} names quantized key and value layers; vLLM keeps the KV cache at the model's dtype"


def _by_layer(quantization: Quantization) -> str | None:
    return quantization.resolution.decided_by if quantization.resolution.by_layer else None


def _scales(quantization: Quantization, scale_tensors: int | None) -> Iterator[str]:
    dtype = quantization.resolution.dtype
    if dtype != "auto" and scale_tensors == 0:
        yield (
            f"the checkpoint asks for a {dtype} KV cache and holds no k_scale or v_scale tensors: the cache runs "
            "uncalibrated, with every scale 1.0"
        )
    if dtype == "auto" and scale_tensors:
        yield (
            f"{scale_tensors} KV scale tensors stay in the weights; vLLM's loaders skip them. A start that fails with "
            "a KeyError ending in k_scale or v_scale means a loader that does not: restore kv_cache=checkpoint"
        )


def _beyond_the_files(contents: Contents, quantization: Quantization, rules: ResolverRules) -> Iterator[str]:
    if quantization.resolution.overrides_flag:
        yield "this vLLM lets the checkpoint's kv_cache_scheme win over --kv-cache-dtype; kv_cache=model_dtype acts"
    architectures = contents[CONFIG].get("architectures")
    dsa = isinstance(architectures, list) and "GlmMoeDsaForCausalLM" in architectures
    if dsa and rules.dsa_auto_is_fp8 and quantization.resolution.dtype == "auto":
        yield (
            "vLLM turns --kv-cache-dtype auto into fp8_e4m3 for GlmMoeDsaForCausalLM on compute capability 10.x, "
            "whatever the checkpoint says: pass bfloat16 there if that is meant"
        )
