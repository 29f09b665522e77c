# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which declaration of a KV-cache dtype counts, by release, as vLLM's own sources decide it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import interpret
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.edits import model_dtype_edits
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.quantization import Resolution
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError

CONFIGS = Path(__file__).parents[3] / "data" / "checkpoints" / "configs"
STATIC_FP8 = {"dynamic": False, "num_bits": 8, "type": "float"}
FOUR_BIT = {"dynamic": False, "num_bits": 4, "type": "float"}
GQA = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1}
MLA = {**GQA, "model_type": "deepseek_v3", "kv_lora_rank": 512}
SCHEME = "config.json#/quantization_config/kv_cache_scheme"
LEGACY_KEY = "hf_quant_config.json#/quantization/kv_cache_quant_algo"


def modelopt(**keys: Any) -> dict[str, Any]:
    return {**MLA, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", **keys}}


def legacy(kv_cache: Any = "FP8", producer: Any = "modelopt", **keys: Any) -> dict[str, Any]:
    inner = {"quant_algo": "NVFP4", "kv_cache_quant_algo": kv_cache, "group_size": 16, "exclude_modules": ["lm_head"]}
    return {"producer": {"name": producer}, "quantization": {**inner, **keys}}


def resolution(config: dict[str, Any], hf_quant: dict[str, Any] | None = None, vllm: str = "0.33.0") -> Resolution:
    contents = {"config.json": config} | ({"hf_quant_config.json": hf_quant} if hf_quant is not None else {})
    return interpret(contents, rules_for(vllm)).resolution


@pytest.mark.parametrize(
    ("value", "dtype", "warns"),
    [
        (STATIC_FP8, "fp8_e4m3", False),
        ({**STATIC_FP8, "dynamic": True}, "auto", True),
        ({"num_bits": 8, "type": "float"}, "auto", True),
        (FOUR_BIT, "nvfp4", False),
        ({**STATIC_FP8, "type": "int"}, "auto", True),
        ("FP8", "fp8_e4m3", False),
        ("fp8", "fp8_e4m3", False),
        ("NVFP4", "nvfp4", False),
        ("auto", "auto", True),
        ("None", "auto", True),
        ("INT8", "auto", True),
        (None, "auto", False),
        ({}, "auto", False),
    ],
)
def test_a_scheme_is_read_as_the_engine_reads_it(value: Any, dtype: str, warns: bool) -> None:
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        found = resolution(modelopt(**{key: value}))
        assert (found.dtype, found.warns) == (dtype, warns)


def test_four_bits_are_unknown_before_0_20() -> None:
    for value in (FOUR_BIT, "NVFP4"):
        assert resolution(modelopt(kv_cache_scheme=value), vllm="0.20.0").dtype == "nvfp4"
        older = resolution(modelopt(kv_cache_scheme=value), vllm="0.19.1")
        assert (older.dtype, older.warns) == ("auto", True)


@pytest.mark.parametrize(
    ("config", "hf_quant", "expected"),
    [
        # config.json's own block counts, whatever the other file says (case C029 and its reverse)
        (modelopt(kv_cache_scheme=STATIC_FP8), legacy(None), ("fp8_e4m3", SCHEME)),
        (modelopt(), legacy("FP8"), ("auto", "config.json#/quantization_config")),
        # the other file counts only where config.json has no block, or null
        (MLA, legacy("FP8"), ("fp8_e4m3", LEGACY_KEY)),
        ({**MLA, "quantization_config": None}, legacy("FP8"), ("fp8_e4m3", LEGACY_KEY)),
        (MLA, legacy(None), ("auto", "hf_quant_config.json#")),
        (MLA, None, ("auto", None)),
        # ... and only if its producer is ModelOpt
        (MLA, legacy("FP8", producer="someone"), ("auto", "hf_quant_config.json#")),
        # a scheme is looked at before an algorithm
        (modelopt(kv_cache_scheme=STATIC_FP8, kv_cache_quant_algo="NVFP4"), None, ("fp8_e4m3", SCHEME)),
        (
            modelopt(kv_cache_scheme=None, kv_cache_quant_algo="FP8"),
            None,
            ("fp8_e4m3", "config.json#/quantization_config/kv_cache_quant_algo"),
        ),
        # no quant_method, or another one: the key has no effect
        (
            {**MLA, "quantization_config": {"quant_algo": "FP8", "kv_cache_scheme": "FP8"}},
            None,
            ("auto", "config.json#/quantization_config"),
        ),
        (
            {**MLA, "quantization_config": {"quant_method": "fp8", "kv_cache_quant_algo": "FP8"}},
            None,
            ("auto", "config.json#/quantization_config"),
        ),
        # a block in the text config never decides for ModelOpt
        (
            {**GQA, "text_config": {**MLA, "quantization_config": {"quant_method": "modelopt"}}},
            None,
            ("auto", "config.json#/text_config/quantization_config"),
        ),
    ],
)
def test_which_place_decides(
    config: dict[str, Any], hf_quant: dict[str, Any] | None, expected: tuple[str, str | None]
) -> None:
    found = resolution(config, hf_quant)
    assert (found.dtype, found.decided_by) == expected


def test_compressed_tensors_acts_in_the_attention_layer_and_not_with_mla() -> None:
    block = {"quant_method": "compressed_tensors", "kv_cache_scheme": STATIC_FP8}
    where = "config.json#/quantization_config/kv_cache_scheme"
    assert resolution({**GQA, "quantization_config": block}) == Resolution("fp8", where, by_layer=True)
    assert resolution({**GQA, "quantization_config": block}, vllm="0.20.1").overrides_flag
    assert resolution({**MLA, "quantization_config": block}).dtype == "auto"
    nested = {"text_config": {**GQA, "quantization_config": block}}
    assert resolution(nested).decided_by == "config.json#/text_config/quantization_config/kv_cache_scheme"
    assert resolution({**GQA, "compression_config": block}).dtype == "fp8"
    assert resolution({**GQA, "quantization_config": {**block, "kv_cache_scheme": None}}).dtype == "auto"


def test_modelopt_without_producer_counts_from_0_26() -> None:
    block = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "modelopt_quant_config": {}}}
    assert resolution(MLA, block, vllm="0.26.0").dtype == "fp8_e4m3"
    assert resolution(MLA, block, vllm="0.25.0").dtype == "auto"


def test_mixed_precision_in_the_wrapped_form_starts_with_0_33() -> None:
    mixed = legacy("FP8", quant_algo="MIXED_PRECISION")
    contents = {"config.json": MLA, "hf_quant_config.json": mixed}
    (block,) = interpret(contents, rules_for("0.32.0")).blocks
    assert block.refused_algo(rules_for("0.32.0")) == "MIXED_PRECISION"
    assert block.refused_algo(rules_for("0.33.0")) is None
    assert resolution(MLA, mixed, vllm="0.33.0").dtype == "fp8_e4m3"


@pytest.mark.parametrize(
    ("version", "nvfp4", "noted"),
    [
        ("0.16.0rc2.dev313", False, False),
        ("0.23.1rc1.dev901+g2f3f441f8", True, False),
        ("v0.20", True, False),
        (None, True, False),
        ("0.34.0", True, True),
        ("0.14.9", False, True),
        ("1.0.0", True, True),
    ],
)
def test_releases(version: str | None, nvfp4: bool, noted: bool) -> None:
    rules = rules_for(version)
    assert ("nvfp4" in rules.dtypes) is nvfp4
    assert bool(rules.notes) is noted


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(ServingError, match="vLLM version"):
        rules_for("nightly")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_published_configurations_and_what_the_edits_make_of_them(path: Path) -> None:
    config = json.loads(path.read_text())
    block = config.get("quantization_config") or {}
    asks = block.get("quant_method") == "modelopt" and block.get("kv_cache_scheme") is not None
    assert resolution(config).dtype == ("fp8_e4m3" if asks else "auto")
    edits = model_dtype_edits({"config.json": config}, rules_for(None))
    wanted = ["/quantization_config/kv_cache_scheme"] if block.get("kv_cache_scheme") else []
    assert [edit.pointer for edit in edits.get("config.json", [])] == wanted


@pytest.mark.parametrize(
    ("config", "hf_quant", "expected"),
    [
        # both files, whichever counts
        (
            modelopt(kv_cache_scheme=STATIC_FP8),
            legacy("FP8"),
            {"/quantization_config/kv_cache_scheme", "/quantization/kv_cache_quant_algo"},
        ),
        (MLA, legacy("NVFP4"), {"/quantization/kv_cache_quant_algo"}),
        # in place in the text config (case C031)
        (
            {"text_config": {**MLA, "quantization_config": {"quant_method": "x", "kv_cache_scheme": STATIC_FP8}}},
            None,
            {"/text_config/quantization_config/kv_cache_scheme"},
        ),
        # unknown values stay (case C033) ...
        (modelopt(kv_cache_scheme={**STATIC_FP8, "dynamic": True}), legacy("None"), set()),
        # ... unless they have an effect
        (
            {**GQA, "quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}},
            None,
            {"/quantization_config/kv_cache_scheme"},
        ),
        # Quark's list is no null
        ({**GQA, "quantization_config": {"quant_method": "quark", "export": {"kv_cache_group": ["*k"]}}}, None, set()),
    ],
)
def test_edits(config: dict[str, Any], hf_quant: dict[str, Any] | None, expected: set[str]) -> None:
    contents = {"config.json": config} | ({"hf_quant_config.json": hf_quant} if hf_quant else {})
    edits = [edit for edits in model_dtype_edits(contents, rules_for(None)).values() for edit in edits]
    assert {edit.pointer for edit in edits} == expected
    assert all(edit.after is None and edit.before for edit in edits)


def test_a_deleted_required_key_is_refused() -> None:
    broken = legacy("FP8")
    del broken["quantization"]["kv_cache_quant_algo"]
    with pytest.raises(ServingError, match="kv_cache_quant_algo not there") as caught:
        model_dtype_edits({"config.json": MLA, "hf_quant_config.json": broken}, rules_for(None))
    assert caught.value.where == "hf_quant_config.json#/quantization"
    # It does no harm where config.json's block counts.
    model_dtype_edits({"config.json": modelopt(), "hf_quant_config.json": broken}, rules_for(None))


@pytest.mark.parametrize(
    ("config", "hf_quant", "where"),
    [
        (MLA, {"quantization": 5}, "hf_quant_config.json#/quantization"),
        ({**MLA, "quantization_config": [1]}, None, "config.json#/quantization_config"),
        ({**MLA, "quantization_config": {"producer": "modelopt"}}, None, "config.json#/quantization_config/producer"),
        ({**MLA, "quantization_config": {"quant_method": 8}}, None, "config.json#/quantization_config/quant_method"),
    ],
)
def test_a_block_of_another_shape_is_refused(config: dict[str, Any], hf_quant: Any, where: str) -> None:
    with pytest.raises(ServingError, match="is expected") as caught:
        resolution(config, hf_quant)
    assert caught.value.where == where
