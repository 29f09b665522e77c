# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints in every form that decides the KV-cache dtype: what published ones use, and what none should."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import Contents
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.edits import model_dtype_edits
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.json_document import parse_object
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import ResolverRules

BASES: tuple[dict[str, Any], ...] = (
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "hidden_size": 64,
    },
    {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "hidden_size": 64,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    },
)
STATIC_FP8 = {"dynamic": False, "num_bits": 8, "type": "float"}
SCHEMES: tuple[Any, ...] = (
    STATIC_FP8,
    {**STATIC_FP8, "dynamic": True},
    {"num_bits": 8, "type": "float"},
    {**STATIC_FP8, "num_bits": 4},
    {**STATIC_FP8, "type": "int"},
    *("FP8", "fp8", "NVFP4", "auto", "None", "INT8", "fp8_e4m3", "", None, {}),
)
METHODS = ("modelopt", "modelopt_fp4", "ModelOpt", "compressed-tensors", "compressed_tensors", "fp8", "quark", None)
KEYS = ("kv_cache_scheme", "kv_cache_quant_algo")


def modelopt_shapes() -> Iterator[Contents]:
    """Quantization blocks in every form and place that published checkpoints use, and some that none should."""
    for base, scheme, key in itertools.product(BASES, SCHEMES, KEYS):
        for method in METHODS:
            block = {"quant_algo": "NVFP4", key: scheme, "ignore": []} | ({"quant_method": method} if method else {})
            yield {"config.json": {**base, "quantization_config": block}}
        for producer, algo in itertools.product(("modelopt", "other", None), ("NVFP4", "FP8", "MIXED_PRECISION", None)):
            inner: dict[str, Any] = {
                "quant_algo": algo,
                "kv_cache_quant_algo": None,
                "group_size": 16,
                "exclude_modules": [],
            }
            legacy: dict[str, Any] = {"quantization": {**inner, key: scheme}}
            legacy |= {"producer": {"name": producer}} if producer else {}
            yield {"config.json": base, "hf_quant_config.json": legacy}
            yield {"config.json": {**base, "quantization_config": None}, "hf_quant_config.json": legacy}
        own = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
        yield {"config.json": {**base, "quantization_config": own}, "hf_quant_config.json": legacy}
        marked = {"quantization": {"quant_algo": "FP8", "modelopt_quant_config": {}, key: scheme}}
        yield {"config.json": base, "hf_quant_config.json": marked}
        outer = {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}, key: scheme}
        yield {"config.json": base, "hf_quant_config.json": outer}


TENSOR = {**STATIC_FP8, "strategy": "tensor", "symmetric": True}


def compressed_tensors_shapes() -> Iterator[Contents]:
    """KV-cache schemes of llm-compressor, those that vLLM takes and others, at the top and in a text config."""
    schemes: tuple[Any, ...] = (
        TENSOR,
        {**TENSOR, "strategy": "attn_head"},
        *({**TENSOR, "strategy": strategy} for strategy in ("channel", "token", None)),
        {**TENSOR, "symmetric": False},
        {**TENSOR, "num_bits": 4},
        {**TENSOR, "type": "int"},
        {**TENSOR, "type": "int", "num_bits": 4},
        {**TENSOR, "dynamic": True},
        None,
    )
    for base, scheme in itertools.product(BASES, schemes):
        block = {"quant_method": "compressed-tensors", "kv_cache_scheme": scheme}
        yield {"config.json": {**base, "quantization_config": block}}
        yield {"config.json": {**base, "text_config": {**base, "quantization_config": block}}}
        yield {"config.json": {**base, "compression_config": block}}


def quark_shapes() -> Iterator[Contents]:
    """Quark's way to name the layers whose output is the cache."""
    fp8 = {"output_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}
    int8 = {"output_tensors": {"dtype": "int8", "qscheme": "per_tensor"}}
    layers = ("*k_proj", "*v_proj")
    for base in BASES:
        for export, settings in (
            ({"kv_cache_group": []}, {}),
            ({"kv_cache_group": list(layers)}, dict.fromkeys(layers, fp8)),
            ({"kv_cache_group": list(layers)}, dict.fromkeys(layers, int8)),
            ({"kv_cache_group": list(layers)}, {"*k_proj": fp8, "*v_proj": int8}),
            ({"kv_cache_group": list(layers)}, {}),
            ({}, {}),
            (None, {}),
        ):
            block: dict[str, Any] = {"quant_method": "quark", "export": export, "layer_quant_config": settings}
            yield {"config.json": {**base, "quantization_config": block}}


def architecture_shapes() -> Iterator[Contents]:
    """Architectures and dtypes about which some releases have rules of their own."""
    for base, quantized in itertools.product(BASES, (False, True)):
        block = {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "kv_cache_scheme": STATIC_FP8 if quantized else None,
        }
        config = {**base, "quantization_config": block}
        for dtype in ("bfloat16", "float16"):
            yield {"config.json": {**config, "dtype": dtype}}
        for name in ("GlmMoeDsaForCausalLM", "Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"):
            yield {"config.json": {**config, "architectures": [name], "index_topk": 2048}}
        yield {"config.json": {**config, "architectures": ["Glm5NextForCausalLM"]}}


def odd_shapes() -> Iterator[Contents]:
    """Values of another type than vLLM expects, and keys that were deleted."""
    modelopt: dict[str, Any] = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    fields = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": []}
    for base in BASES:
        for key in ("quant_method", "producer", "quantization"):
            yield {"config.json": {**base, "quantization_config": {**modelopt, key: None}}}
        yield {"config.json": {**base, "quantization_config": {"quant_method": "modelopt"}}}
        yield {"config.json": {**base, "quantization_config": {}}}
        yield {"config.json": {**base, "quantization_config": {**modelopt, "kv_cache_quant_algo": STATIC_FP8}}}
        for missing in fields:
            inner = {key: value for key, value in fields.items() if key != missing}
            yield {
                "config.json": base,
                "hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": inner},
            }
        wrapped = {"producer": {"name": "modelopt"}, "quantization": {**fields, "kv_cache_quant_algo": STATIC_FP8}}
        yield {"config.json": base, "hf_quant_config.json": wrapped}


def write(folder: Path, contents: Contents) -> Path:
    folder.mkdir(parents=True)
    for name, value in contents.items():
        (folder / name).write_text(json.dumps(value))
    return folder


def edited(contents: Contents, rules: ResolverRules) -> dict[str, Mapping[str, Any]]:
    """The two files as the patch for the model's dtype leaves them."""
    edits = model_dtype_edits(contents, rules)
    result: dict[str, Mapping[str, Any]] = {}
    for name, value in contents.items():
        document = parse_object(json.dumps(value).encode(), name)
        for edit in edits.get(name, []):
            document = document.replaced(edit.pointer, edit.after)
        result[name] = document.value
    return result
