# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published config.json files with the hf_quant_config.json that stands beside them: what wins, by release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import interpret
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.edits import model_dtype_edits
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for

CONFIGS = Path(__file__).parents[3] / "data" / "checkpoints" / "configs"
CONFIG = "config.json#/quantization_config"
SCHEME = f"{CONFIG}/kv_cache_scheme"
ALGO = "hf_quant_config.json#/quantization/kv_cache_quant_algo"
OTHER = "hf_quant_config.json#"
MODELOPT = {"producer": {"name": "modelopt", "version": "0.40.0"}}


def other_file(algo: str, kv_cache: str | None, **keys: Any) -> dict[str, Any]:
    """hf_quant_config.json in the form in which ModelOpt writes it; the lists are shortened."""
    inner = {"quant_algo": algo, "kv_cache_quant_algo": kv_cache, "group_size": 16, "exclude_modules": ["lm_head"]}
    return {**MODELOPT, "quantization": {**inner, **keys}}


NVFP4 = other_file("NVFP4", "FP8")
FP8 = other_file("FP8", "FP8")
MIXED = {"quantized_layers": {"model.layers.0.mlp.gate": {"quant_algo": "FP8"}}}


@pytest.mark.parametrize(
    ("name", "hf_quant", "dtypes", "decided_by"),
    [
        # dtypes of auto in 0.16.0, 0.32.0 and 0.33.0
        ("nvidia__Kimi-K2.5-NVFP4", None, ("fp8_e4m3",) * 3, SCHEME),
        ("nvidia__Kimi-K2.5-NVFP4", NVFP4, ("fp8_e4m3",) * 3, SCHEME),
        ("nvidia__Kimi-K2.6-NVFP4", NVFP4, ("fp8_e4m3",) * 3, SCHEME),
        # the copy without a block at the top: the stale one in text_config decides nothing
        ("moonshotai__Kimi-K2.5", NVFP4, ("fp8_e4m3",) * 3, ALGO),
        ("moonshotai__Kimi-K2.5", None, ("auto",) * 3, "config.json#/text_config/quantization_config"),
        ("nvidia__DeepSeek-V3.1-NVFP4", NVFP4, ("fp8_e4m3",) * 3, ALGO),
        ("nvidia__DeepSeek-V3.2-NVFP4", NVFP4, ("fp8_e4m3",) * 3, ALGO),
        ("nvidia__DeepSeek-V4-Flash-NVFP4", other_file("MIXED_PRECISION", None, **MIXED), ("auto",) * 3, CONFIG),
        ("nvidia__Llama-3.1-70B-Instruct-FP8", FP8, ("fp8_e4m3",) * 3, ALGO),
        ("nvidia__Llama-3.1-70B-Instruct-FP8", None, ("auto",) * 3, None),
        ("nvidia__Qwen3-235B-A22B-NVFP4", NVFP4, ("fp8_e4m3",) * 3, ALGO),
        ("nvidia__GLM-5.1-NVFP4", NVFP4, ("fp8_e4m3",) * 3, SCHEME),
        ("nvidia__MiniMax-M2.5-NVFP4", NVFP4, ("fp8_e4m3",) * 3, SCHEME),
        ("nvidia__MiniMax-M3-NVFP4", other_file("MIXED_PRECISION", None, **MIXED), ("auto",) * 3, CONFIG),
        # without `producer` vLLM does not take the file for ModelOpt's
        (
            "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
            {"quantization": NVFP4["quantization"]},
            ("auto",) * 3,
            OTHER,
        ),
        ("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8", {"quantization": FP8["quantization"]}, ("auto",) * 3, OTHER),
        (
            "nvidia__Qwen3-235B-A22B-NVFP4",
            {"quantization": {**NVFP4["quantization"], "modelopt_quant_config": {}}},
            ("auto", "fp8_e4m3", "fp8_e4m3"),
            ALGO,
        ),
        # the two files disagree: config.json counts, and says nothing
        ("nvidia__Qwen3.6-35B-A3B-NVFP4", other_file("MIXED_PRECISION", "FP8", **MIXED), ("auto",) * 3, CONFIG),
        ("nvidia__Qwen3.6-27B-NVFP4", other_file("MIXED_PRECISION", "FP8", **MIXED), ("fp8_e4m3",) * 3, SCHEME),
        # a string, and no quant_method
        ("Qwen__Qwen3-32B-FP8-Static-PerTensor", FP8, ("auto",) * 3, CONFIG),
        # the other file's MIXED_PRECISION is an error before 0.33
        (
            "nvidia__Qwen3-235B-A22B-NVFP4",
            other_file("MIXED_PRECISION", "FP8", **MIXED),
            ("auto", "auto", "fp8_e4m3"),
            ALGO,
        ),
        ("MiniMaxAI__MiniMax-M2.5", None, ("auto",) * 3, CONFIG),
        ("nvidia__Gemma-4-31B-IT-NVFP4", NVFP4, ("fp8_e4m3",) * 3, SCHEME),
    ],
)
def test_a_published_pair(
    name: str, hf_quant: dict[str, Any] | None, dtypes: tuple[str, str, str], decided_by: str | None
) -> None:
    contents = {"config.json": json.loads((CONFIGS / f"{name}.json").read_text())}
    if hf_quant is not None:
        contents["hf_quant_config.json"] = hf_quant
    found = [interpret(contents, rules_for(vllm)) for vllm in ("0.16.0", "0.32.0", "0.33.0")]
    assert tuple(item.resolution.dtype for item in found) == dtypes
    assert found[-1].resolution.decided_by == decided_by
    # Both files are cleaned, whichever counts today.
    edits = model_dtype_edits(contents, rules_for("0.33.0"))
    declared = {item.where for item in found[-1].declarations if item.kind in ("fp8", "nvfp4")}
    assert {f"{file}#{edit.pointer}" for file, changes in edits.items() for edit in changes} == declared


def test_mixed_precision_in_the_other_file_is_refused_before_0_33() -> None:
    config = json.loads((CONFIGS / "nvidia__Qwen3-235B-A22B-NVFP4.json").read_text())
    contents = {"config.json": config, "hf_quant_config.json": other_file("MIXED_PRECISION", "FP8", **MIXED)}
    assert not interpret(contents, rules_for("0.33.0")).refusals
    (refusal,) = interpret(contents, rules_for("0.32.0")).refusals
    assert (refusal.where, refusal.by_patch) == ("hf_quant_config.json#/quantization/quant_algo", False)
