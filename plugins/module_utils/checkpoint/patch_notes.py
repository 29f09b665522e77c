# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a person should know about a checkpoint's KV-cache settings besides the dtype itself."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .documents import Quantization
from .quantization import buried_declarations, declarations_in, quark_declaration
from .resolver_rules import ResolverRules


def notes_on(quantization: Quantization, rules: ResolverRules, scale_tensors: int | None) -> list[str]:
    """Remarks on one state of the two files; `scale_tensors` counts the KV scales in the weights, None if unknown."""
    return [
        *rules.notes,
        *(f"{item.where}: {item.why}" for item in quantization.refusals),
        *_unknown_values(quantization),
        *_scales(quantization, scale_tensors),
        *_beyond_the_files(quantization, rules),
    ]


def _unknown_values(quantization: Quantization) -> Iterator[str]:
    decided_by = quantization.resolution.decided_by
    for block in quantization.blocks:
        for declaration in declarations_in(block):
            if declaration.kind != "unknown" or (
                quantization.resolution.dtype != "auto" and declaration.where == decided_by
            ):
                continue
            effect = "warns and keeps the model's dtype" if declaration.where == decided_by else "does not act on it"
            yield f"{declaration.where} is {json.dumps(declaration.value)}, a KV-cache setting that vLLM {effect}"
        quark = quark_declaration(block)
        if quark is not None:
            yield f"{quark.where} names quantized key and value layers; vLLM keeps the KV cache at the model's dtype"
        buried = buried_declarations(block)
        if buried:
            more = f" (and {len(buried) - 1} more such keys)" if len(buried) > 1 else ""
            yield f"{buried[0].where} is {json.dumps(buried[0].value)}{more}: vLLM reads no KV-cache setting that deep"


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


def _beyond_the_files(quantization: Quantization, rules: ResolverRules) -> Iterator[str]:
    if quantization.resolution.overrides_flag:
        yield "this vLLM lets the checkpoint's kv_cache_scheme win over --kv-cache-dtype; kv_cache=model_dtype acts"
    if quantization.resolution.dtype == "nvfp4" and quantization.use_mla and rules.nvfp4_refused_with_mla:
        yield "this vLLM does not start with an nvfp4 KV cache and MLA: pass another dtype or patch the files"
    if quantization.auto_on_sm10x is not None and quantization.resolution.dtype == "auto":
        yield (
            f"vLLM turns --kv-cache-dtype auto into {quantization.auto_on_sm10x} for this architecture on compute "
            "capability 10.x, whatever the checkpoint says: pass bfloat16 there if that is meant"
        )
