# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings with which vLLM does not start, and settings that it passes over: named, and left alone or taken away."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import Contents, interpret
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.edits import model_dtype_edits
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch_notes import notes_on
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for

STATIC_FP8 = {"dynamic": False, "num_bits": 8, "type": "float"}
TENSOR = {**STATIC_FP8, "strategy": "tensor", "symmetric": True}
GQA = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1}
MLA = {**GQA, "model_type": "deepseek_v3", "kv_lora_rank": 512}
BLOCK = "config.json#/quantization_config"
FP8_LAYER = {"output_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}
INT8_LAYER = {"output_tensors": {"dtype": "int8", "qscheme": "per_tensor"}}


def config(block: Any, base: Mapping[str, Any] = MappingProxyType(GQA)) -> Contents:
    return {"config.json": {**base, "quantization_config": block}}


def compressed(scheme: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "kv_cache_scheme": scheme}


def quark(group: Any, layers: dict[str, Any]) -> dict[str, Any]:
    return {"quant_method": "quark", "export": {"kv_cache_group": group}, "layer_quant_config": layers}


def refused(contents: Contents, vllm: str = "0.33.0") -> list[tuple[str, bool]]:
    return [(item.where, item.by_patch) for item in interpret(contents, rules_for(vllm)).refusals]


@pytest.mark.parametrize(
    ("contents", "vllm", "expected"),
    [
        (config({"quant_method": None}), "0.33.0", [(f"{BLOCK}/quant_method", False)]),
        (config({"quant_method": "fp8", "producer": None}), "0.33.0", [(f"{BLOCK}/producer", False)]),
        (config({"quant_method": "modelopt"}), "0.33.0", [(f"{BLOCK}/quant_algo", False)]),
        (config(compressed(TENSOR)), "0.33.0", []),
        (config(compressed(None)), "0.33.0", []),
        (config(compressed({**TENSOR, "strategy": "token"})), "0.33.0", [(f"{BLOCK}/kv_cache_scheme/strategy", True)]),
        (config(compressed({**TENSOR, "symmetric": False})), "0.33.0", [(f"{BLOCK}/kv_cache_scheme/symmetric", True)]),
        (config(compressed({**TENSOR, "num_bits": 4})), "0.24.0", [(f"{BLOCK}/kv_cache_scheme", True)]),
        (config(compressed({**TENSOR, "num_bits": 4})), "0.23.0", []),
        (config(compressed({**TENSOR, "num_bits": 4, "type": "int"})), "0.23.0", [(f"{BLOCK}/kv_cache_scheme", True)]),
        (config(compressed({**TENSOR, "strategy": "attn_head"})), "0.16.0", []),
        (
            config(compressed({**TENSOR, "strategy": "attn_head"})),
            "0.17.0",
            [(f"{BLOCK}/kv_cache_scheme/strategy", True)],
        ),
        (config(compressed({**TENSOR, "strategy": "token"}), MLA), "0.33.0", []),
        (config(quark([], {})), "0.33.0", []),
        (config(quark(["*k_proj", "*v_proj"], {"*k_proj": FP8_LAYER, "*v_proj": FP8_LAYER})), "0.33.0", []),
        (config(quark(["*k_proj"], {"*k_proj": INT8_LAYER})), "0.33.0", [(f"{BLOCK}/export/kv_cache_group", False)]),
        (config(quark(["*k_proj"], {"*k_proj": INT8_LAYER}), MLA), "0.33.0", []),
        (
            config(quark(["*k"], {"*k": FP8_LAYER, "x.k": INT8_LAYER})),
            "0.33.0",
            [(f"{BLOCK}/export/kv_cache_group", False)],
        ),
        (config(quark(["*k_proj"], {})), "0.33.0", [(f"{BLOCK}/export/kv_cache_group", False)]),
        (config(quark(None, {})), "0.33.0", [(f"{BLOCK}/export/kv_cache_group", False)]),
        (config({"quant_method": "quark"}), "0.33.0", [(f"{BLOCK}/export", False)]),
    ],
)
def test_what_vllm_refuses(contents: Contents, vllm: str, expected: list[tuple[str, bool]]) -> None:
    assert refused(contents, vllm) == expected
    rules = rules_for(vllm)
    notes = notes_on(interpret(contents, rules), rules, None)
    assert all(any(note.startswith(f"{where}: ") for note in notes) for where, _by_patch in expected)
    after = {"config.json": _edited(contents, vllm)}
    assert refused(after, vllm) == [item for item in expected if not item[1]]


def _edited(contents: Contents, vllm: str) -> dict[str, Any]:
    """config.json after the edits, all of which are keys of the top-level block here."""
    edits = model_dtype_edits(contents, rules_for(vllm)).get("config.json", [])
    block = {**contents["config.json"]["quantization_config"]}
    block |= {edit.pointer.removeprefix("/quantization_config/"): edit.after for edit in edits}
    return {**contents["config.json"], "quantization_config": block}


def test_settings_for_single_layers_are_named_and_left_alone() -> None:
    layers = {f"model.layers.{number}": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"} for number in range(3)}
    block = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    contents = config({**block, "config_groups": {"g/0": {"kv_cache_scheme": STATIC_FP8}}, "kv_cache_scheme": None})
    rules = rules_for("0.33.0")
    quantization = interpret(contents, rules)
    assert [item.where for item in quantization.declarations if item.kind == "unknown"] == [
        f"{BLOCK}/config_groups/g~10/kv_cache_scheme",
        *(f"{BLOCK}/quantized_layers/model.layers.{number}/kv_cache_quant_algo" for number in range(3)),
    ]
    assert quantization.resolution.dtype == "auto"
    (note,) = notes_on(quantization, rules, None)
    assert "and 3 more such keys" in note
    assert model_dtype_edits(contents, rules) == {}


def test_quarks_own_key_is_named() -> None:
    contents = config({**quark([], {}), "kv_cache_quant_config": {"*k_proj": FP8_LAYER}})
    (declaration,) = interpret(contents, rules_for(None)).declarations
    assert declaration.where == f"{BLOCK}/kv_cache_quant_config"


def test_nvfp4_with_mla_is_named_where_vllm_refuses_it() -> None:
    contents = config({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": "NVFP4"}, MLA)
    for vllm, named in (("0.33.0", True), ("0.22.0", True), ("0.20.0", False)):
        rules = rules_for(vllm)
        notes = notes_on(interpret(contents, rules), rules, None)
        assert any("nvfp4 KV cache and MLA" in note for note in notes) is named
