# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flag or patch: what is decided for a checkpoint, a vLLM release and what its backends serve on a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.kv_cache_decision import (
    Decision,
    decide,
    served_dtype,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError

CONFIGS = Path(__file__).parents[3] / "data" / "checkpoints" / "configs"
KIMI = json.loads((CONFIGS / "nvidia__Kimi-K2.5-NVFP4.json").read_text())
STATIC_FP8 = {"dynamic": False, "num_bits": 8, "type": "float"}
TENSOR = {**STATIC_FP8, "strategy": "tensor", "symmetric": True}
GQA = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1, "dtype": "bfloat16"}
MLA = {**GQA, "model_type": "deepseek_v3", "kv_lora_rank": 512}
SCHEME = "config.json#/quantization_config/kv_cache_scheme"
# What some backend of the release serves on compute capability 12.0 (MLA): see the reference of vLLM.
SM120_0_16 = ["auto", "bfloat16"]
SM120_0_33 = ["auto", "float16", "bfloat16", "fp8", "fp8_e4m3"]


def modelopt(base: Mapping[str, Any] = MappingProxyType(MLA), **keys: Any) -> dict[str, Any]:
    return {**base, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", **keys}}


def compressed(scheme: Any, base: Mapping[str, Any] = MappingProxyType(GQA)) -> dict[str, Any]:
    return {**base, "quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": scheme}}


def of(config: dict[str, Any], vllm: str = "0.33.0", hf_quant: dict[str, Any] | None = None, **asked: Any) -> Decision:
    contents = {"config.json": config} | ({"hf_quant_config.json": hf_quant} if hf_quant is not None else {})
    return decide(contents, rules_for(vllm), **asked)


def short(decision: Decision) -> tuple[str, bool, str | None]:
    return decision.kv_cache_dtype, decision.must_patch, decision.stored_as


@pytest.mark.parametrize(
    ("vllm", "recommended", "supported"),
    [("0.16.0", "bfloat16", SM120_0_16), ("0.16.0", "auto", SM120_0_16), ("0.33.0", "bfloat16", SM120_0_33)],
)
def test_the_flag_suffices_for_the_first_target_on_sm120(vllm: str, recommended: str, supported: list[str]) -> None:
    decision = of(KIMI, vllm, recommended=recommended, supported=supported, compute_capability="12.0")
    assert short(decision) == ("bfloat16", False, "bfloat16")
    assert decision.decided_by == SCHEME
    assert decision.why == (
        "the checkpoint asks for fp8_e4m3; --kv-cache-dtype bfloat16 wins over it and leaves the files as they are"
    )


def test_fp8_where_the_engine_serves_it() -> None:
    decision = of(KIMI, "0.19.0", recommended="fp8", supported=["auto", "bfloat16", "fp8", "fp8_e4m3"])
    assert short(decision) == ("fp8", False, "fp8")
    assert "serves it on this card" in decision.why


def test_the_blocker_of_old_is_found_before_a_launch() -> None:
    with pytest.raises(ServingError, match="serves a fp8_e4m3 KV cache") as caught:
        of(KIMI, "0.16.0", wanted="checkpoint", supported=SM120_0_16)
    assert caught.value.where == SCHEME


def test_as_published() -> None:
    assert short(of(KIMI, wanted="checkpoint", supported=SM120_0_33)) == ("auto", False, "fp8_e4m3")
    assert short(of(MLA, wanted="checkpoint", supported=SM120_0_16)) == ("auto", False, "bfloat16")


def test_files_that_are_right_by_themselves() -> None:
    decision = of(KIMI, wanted="model_dtype", recommended="fp8")
    assert short(decision) == ("auto", True, "bfloat16")
    assert short(of(MLA, wanted="model_dtype")) == ("auto", False, "bfloat16")
    # A setting that does not count today is taken out as well.
    shadowed = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    assert of(modelopt(), hf_quant=shadowed, wanted="model_dtype").must_patch


def test_a_scheme_wins_over_the_flag_before_0_22_unless_the_model_has_mla() -> None:
    for vllm, must_patch in (("0.15.0", True), ("0.20.2", True), ("0.22.0", False), ("0.33.0", False)):
        decision = of(compressed(TENSOR), vllm, recommended="bfloat16")
        assert short(decision) == ("bfloat16", must_patch, "bfloat16")
        assert decision.decided_by == SCHEME
        assert ("win over --kv-cache-dtype" in decision.why) is must_patch
    assert short(of(compressed(TENSOR, MLA), "0.16.0", recommended="bfloat16")) == ("auto", False, "bfloat16")
    assert not of(compressed(TENSOR), "0.16.0", recommended="fp8").must_patch
    assert of(compressed(TENSOR), "0.20.0", recommended="nvfp4").must_patch


@pytest.mark.parametrize(
    ("scheme", "vllm", "where"),
    [
        ({**TENSOR, "strategy": "channel"}, "0.33.0", f"{SCHEME}/strategy"),
        ({**TENSOR, "symmetric": False}, "0.33.0", f"{SCHEME}/symmetric"),
        ({**TENSOR, "num_bits": 4}, "0.33.0", SCHEME),
        ("FP8", "0.33.0", SCHEME),
        ({**TENSOR, "strategy": "attn_head"}, "0.33.0", f"{SCHEME}/strategy"),
    ],
)
def test_a_scheme_that_vllm_does_not_take_needs_a_patch_whatever_the_flag(scheme: Any, vllm: str, where: str) -> None:
    decision = of(compressed(scheme), vllm, recommended="bfloat16")
    assert (decision.must_patch, decision.decided_by) == (True, where)
    assert decision.why.startswith("--kv-cache-dtype does not suffice: ")


def test_fp8_does_without_a_patch_what_a_backend_with_scales_per_head_serves() -> None:
    assert not of(compressed({**TENSOR, "strategy": "attn_head"}), recommended="fp8").must_patch
    assert of(compressed({**TENSOR, "strategy": "channel"}), recommended="fp8").must_patch
    with pytest.raises(ServingError, match="as it was published"):
        of(compressed({**TENSOR, "strategy": "channel"}), wanted="checkpoint")


def test_an_algorithm_that_is_no_string_keeps_vllm_from_starting() -> None:
    wrapped = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": STATIC_FP8},
    }
    decision = of(MLA, hf_quant=wrapped, recommended="bfloat16")
    assert (decision.must_patch, decision.decided_by) == (
        True,
        "hf_quant_config.json#/quantization/kv_cache_quant_algo",
    )
    flat = modelopt(kv_cache_quant_algo=STATIC_FP8)
    assert of(flat, "0.16.0", recommended="bfloat16").must_patch
    assert not of(flat, "0.17.0", recommended="bfloat16").must_patch


def test_a_dtype_that_no_flag_names_needs_a_patch() -> None:
    half = modelopt({**MLA, "dtype": "float16"}, kv_cache_scheme=STATIC_FP8)
    assert short(of(half, "0.17.0", recommended="auto")) == ("auto", True, "float16")
    assert short(of(half, "0.18.0", recommended="bfloat16")) == ("float16", False, "float16")
    unstated = {key: value for key, value in modelopt(kv_cache_scheme=STATIC_FP8).items() if key != "dtype"}
    decision = of(unstated, recommended="bfloat16")
    assert short(decision) == ("auto", True, None)
    assert "not stated" in decision.why
    # ... and so does one that only auto stands for among what the backends serve.
    only_auto = of(modelopt(kv_cache_scheme=STATIC_FP8), recommended="auto", supported=["auto", "fp8"])
    assert short(only_auto) == ("auto", True, "bfloat16")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bfloat16", "bfloat16"),
        ("torch.float16", "float16"),
        ("float32", "bfloat16"),
        ("half", "float16"),
        (None, None),
    ],
)
def test_the_dtype_in_which_a_model_is_served(dtype: str | None, expected: str | None) -> None:
    assert served_dtype({"config.json": {"torch_dtype": dtype}}) == expected


def test_where_the_architecture_decides_the_flag_is_needed_and_a_patch_no_help() -> None:
    glm = {**MLA, "model_type": "glm_moe_dsa", "architectures": ["GlmMoeDsaForCausalLM"], "index_topk": 2048}
    for vllm, capability, flag in (
        ("0.33.0", "10.0", "bfloat16"),
        ("0.33.0", None, "bfloat16"),
        ("0.33.0", "12.0", "auto"),
        ("0.31.0", "10.0", "auto"),
    ):
        for wanted in ("auto", "model_dtype"):
            decision = of(glm, vllm, recommended="bfloat16", wanted=wanted, compute_capability=capability)
            assert short(decision) == (flag, False, "bfloat16")
    assert "turns auto into fp8_e4m3" in of(glm, recommended="bfloat16").why
    both = of(modelopt(glm, kv_cache_scheme=STATIC_FP8), wanted="model_dtype", compute_capability="10.3")
    assert short(both) == ("bfloat16", True, "bfloat16")


def test_a_checkpoint_that_asks_for_nothing_gets_auto() -> None:
    decision = of(MLA, recommended="bfloat16", supported=SM120_0_16, compute_capability="12.0")
    assert short(decision) == ("auto", False, "bfloat16")
    assert decision.decided_by is None
    wanted = of(MLA, recommended="fp8")
    assert short(wanted) == ("fp8", False, "fp8")
    assert "no quantized KV cache" in wanted.why


@pytest.mark.parametrize(
    ("config", "hf_quant", "vllm", "asked", "message"),
    [
        (modelopt(kv_cache_scheme="NVFP4"), None, "0.33.0", {"wanted": "checkpoint"}, "nvfp4 KV cache and MLA"),
        (MLA, None, "0.33.0", {"recommended": "nvfp4"}, "nvfp4 KV cache and MLA"),
        (MLA, None, "0.33.0", {"recommended": "fp8", "supported": ["auto"]}, "serves a fp8 KV cache"),
        (MLA, None, "0.33.0", {"recommended": "bfloat16", "supported": ["fp8"]}, "in the model's dtype"),
        (modelopt(), None, "0.33.0", {"recommended": "fp8_e5m2"}, "no fp8_e5m2 KV cache"),
        (
            MLA,
            {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION"}},
            "0.32.0",
            {"recommended": "bfloat16"},
            "does not start with the checkpoint",
        ),
        (
            MLA,
            {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}},
            "0.33.0",
            {"recommended": "bfloat16"},
            "group_size, kv_cache_quant_algo, exclude_modules",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_reason(
    config: dict[str, Any], hf_quant: dict[str, Any] | None, vllm: str, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(ServingError, match=message):
        of(config, vllm, hf_quant, **asked)


def test_nvfp4_of_an_older_release_and_without_mla() -> None:
    gqa = modelopt(GQA, kv_cache_scheme="NVFP4")
    assert short(of(gqa, recommended="nvfp4")) == ("nvfp4", False, "nvfp4")
    assert short(of(gqa, recommended="bfloat16")) == ("bfloat16", False, "bfloat16")
    assert short(of(gqa, "0.19.0", recommended="bfloat16")) == ("auto", False, "bfloat16")
