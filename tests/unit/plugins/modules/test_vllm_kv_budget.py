# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: files and data, what `auto` becomes, lengths as words, check mode, failures with all facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunModule = Callable[..., dict[str, Any]]
CONFIGS = Path(__file__).parents[2] / "data" / "checkpoints" / "configs"
MIB = 1 << 20
TOTAL = (97887 - 638) * MIB

TEXT = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 262144,
    "dtype": "bfloat16",
}
PLAIN = {"architectures": ["DeepseekV3ForCausalLM"], **TEXT}
HF_QUANT = {
    "producer": {"name": "modelopt"},
    "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": []},
}
CAPACITY_190K = {"tensor_parallel_size": 8, "available_kv_cache_bytes": 13_351_680_000, "headroom": 0}


def kimi() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((CONFIGS / "nvidia__Kimi-K2.5-NVFP4.json").read_text())
    return value


def gpu(index: int, **change: Any) -> dict[str, Any]:
    memory = {"total_bytes": 97887 * MIB, "reserved_bytes": 638 * MIB, "used_bytes": 4 * MIB}
    memory |= {"free_bytes": TOTAL - 4 * MIB, "torch_total_bytes": TOTAL}
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    card = {"index": index, "name": name, "compute_capability": "12.0", "mig": False, "memory": memory, "processes": []}
    return {**card, **change}


def write(folder: Path, *, hf_quant: dict[str, Any] | None = None, config: dict[str, Any] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or PLAIN))
    if hf_quant is not None:
        (folder / "hf_quant_config.json").write_text(json.dumps(hf_quant))
    return folder


def test_the_files_as_they_are_now_decide(run_module: RunModule, tmp_path: Path) -> None:
    """FP8 declared and FP8 taken out again: 380,000 and 190,000 tokens of the same memory."""
    as_published = write(tmp_path / "a", hf_quant=HF_QUANT)
    quantization = {**HF_QUANT["quantization"], "kv_cache_quant_algo": None}  # type: ignore[dict-item]
    patched = write(tmp_path / "b", hf_quant={**HF_QUANT, "quantization": quantization})
    results = [run_module("vllm_kv_budget", {"path": str(path), **CAPACITY_190K}) for path in (as_published, patched)]
    assert [result["kv_cache"]["token_capacity"] for result in results] == [380_000, 190_000]
    assert [result["kv_cache"]["dtype"] for result in results] == ["fp8_e4m3", "bfloat16"]
    assert any("hf_quant_config.json#/quantization/kv_cache_quant_algo" in line for line in results[0]["explanation"])
    assert results[0]["changed"] is False
    explicit = run_module("vllm_kv_budget", {"path": str(as_published), "kv_cache_dtype": "bfloat16", **CAPACITY_190K})
    assert explicit["kv_cache"]["token_capacity"] == 190_000


def test_data_gives_what_the_folder_gives(run_module: RunModule, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", hf_quant=HF_QUANT)

    def budget(arguments: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
        result = run_module("vllm_kv_budget", {**arguments, **CAPACITY_190K}, check=check)
        result.pop("invocation", None)  # ansible-core 2.21 no longer returns it
        return result

    by_path = budget({"path": str(folder)})
    assert by_path["kv_cache"]["token_capacity"] == 380_000
    assert budget({"config": PLAIN, "hf_quant_config": HF_QUANT}) == by_path
    assert budget({"path": str(folder), "config": kimi()}) == by_path
    assert budget({"path": str(folder)}, check=True) == by_path


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--tensor-parallel-size", "8", "-dcp=2"], {"tensor_parallel_size": 8, "decode_context_parallel_size": 2}),
        (["--max-model-len=64K"], {"max_model_len": "64K"}),
        (["--kv-cache-dtype", "fp8"], {"kv_cache_dtype": "fp8"}),
        (["--block_size", "64"], {"block_size": 64}),
        (["--gpu-memory-utilization", "0.85"], {"gpu_memory_utilization": 0.85}),
        (["--max-num-seqs", "16", "--max-num-batched-tokens", "2K"], {
            "max_num_seqs": 16, "max_num_batched_tokens": 2048,
        }),
        (["--enforce-eager", "--seed", "1"], {"enforce_eager": True}),
        (["--kv-cache-memory-bytes", "10G"], {"available_kv_cache_bytes": 10 << 30}),
        (["--hf-overrides", '{"max_position_embeddings": 65536}'], {
            "config": {**PLAIN, "max_position_embeddings": 65536},
        }),
    ],
)  # fmt: skip
def test_arguments_of_the_engine_say_what_options_say(
    run_module: RunModule, arguments: list[str], options: dict[str, Any]
) -> None:
    common = {
        "config": PLAIN,
        "weights_bytes": 30_000_000_000,
        "gpus": [gpu(index) for index in range(8)],
        "vllm_version": "0.33.0",
        "speculative_config": None,
    }
    by_option = run_module("vllm_kv_budget", {**common, **options})
    by_argument = run_module("vllm_kv_budget", {**common, "arguments": arguments})
    assert {**by_argument, "invocation": None} == {**by_option, "invocation": None}
    assert "kv_cache" in by_argument, by_argument.get("msg")
    plain = run_module("vllm_kv_budget", common)
    assert plain["kv_cache"] != by_argument["kv_cache"] or plain["memory"] != by_argument["memory"]


def test_the_last_argument_wins_over_the_option(run_module: RunModule) -> None:
    common = {"config": PLAIN, "available_kv_cache_bytes": 10 << 30, "max_model_len": "32K"}
    budget = run_module("vllm_kv_budget", {**common, "arguments": ["--max-model-len", "8k", "--max-model-len=16K"]})
    assert budget["max_model_len"]["requested"] == 16384
    refused = run_module("vllm_kv_budget", {**common, "arguments": ["--max-num-seqs", "lots"]})
    assert refused["failed"]
    assert "--max-num-seqs" in refused["msg"]


def test_the_installed_engines_own_rules_settle_auto(run_module: RunModule, tmp_path: Path) -> None:
    """A release that has another word for FP8 than the table of releases."""
    site = tmp_path / "site-packages"
    resolver = site / "vllm" / "utils" / "torch_utils.py"
    resolver.parent.mkdir(parents=True)
    resolver.write_text(
        "MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP = {'fp8': 'fp8_e5m2'}\n"
        "def get_kv_cache_quant_algo_string(quant_cfg):\n"
        "    quantization_inner = quant_cfg.get('quantization', quant_cfg)\n"
        "    kv_algo = (quantization_inner.get('kv_cache_scheme') or quant_cfg.get('kv_cache_scheme')\n"
        "               or quantization_inner.get('kv_cache_quant_algo') or quant_cfg.get('kv_cache_quant_algo'))\n"
        "    if kv_algo.get('dynamic') is False and kv_algo.get('num_bits') == 8:\n"
        "        return 'fp8'\n"
    )
    common = {"config": PLAIN, "hf_quant_config": HF_QUANT, "available_kv_cache_bytes": 10 << 30}
    asked = run_module("vllm_kv_budget", {**common, "site_packages": str(site)})
    assert asked["kv_cache"]["dtype"] == "fp8_e5m2"
    assert run_module("vllm_kv_budget", common)["kv_cache"]["dtype"] == "fp8_e4m3"
    nowhere = {**common, "site_packages": str(tmp_path / "nowhere")}
    assert run_module("vllm_kv_budget", nowhere, check=True)["kv_cache"]["dtype"] == "fp8_e4m3"
    assert "no vLLM is installed there" in run_module("vllm_kv_budget", nowhere)["msg"]


def test_the_installed_release_is_the_default(run_module: RunModule, tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm-0.16.0.dist-info").mkdir()
    common = {"config": PLAIN, "available_kv_cache_bytes": 10 << 30, "site_packages": str(tmp_path)}
    assumed = [note for note in run_module("vllm_kv_budget", common)["notes"] if "vllm_version" in note]
    assert assumed == []

    def answer(**more: str) -> dict[str, Any]:
        result = run_module("vllm_kv_budget", {**common, **more})
        return {name: value for name, value in result.items() if name != "invocation"}

    assert answer() == answer(vllm_version="0.16.0") != answer(vllm_version="0.33.0")


DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 7168,
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 128,
}


def test_a_draft_model_in_a_folder_brings_its_own_configuration(run_module: RunModule, tmp_path: Path) -> None:
    folder = write(tmp_path / "draft", config=DRAFT)
    common = {"config": PLAIN, "tensor_parallel_size": 8, "available_kv_cache_bytes": 10 << 30}
    speculative = {"method": "eagle3", "num_speculative_tokens": 3}
    by_folder = run_module("vllm_kv_budget", {**common, "speculative_config": {**speculative, "model": str(folder)}})
    by_content = run_module("vllm_kv_budget", {**common, "speculative_config": {**speculative, "draft_config": DRAFT}})
    assert by_folder["kv_cache"] == by_content["kv_cache"]
    written = json.dumps({**speculative, "model": str(folder)})
    by_argument = run_module("vllm_kv_budget", {**common, "arguments": ["--speculative-config", written]})
    assert by_argument["kv_cache"] == by_content["kv_cache"]


def test_a_draft_model_that_cannot_be_read(run_module: RunModule, tmp_path: Path) -> None:
    common = {"config": PLAIN, "available_kv_cache_bytes": 10 << 30}
    missing = {**common, "speculative_config": {"method": "eagle3", "model": str(tmp_path / "draft")}}
    assert str(tmp_path / "draft") in run_module("vllm_kv_budget", missing)["msg"]
    assert run_module("vllm_kv_budget", missing, check=True)["unknown_until"] == "fetch"
    on_the_hub = {**common, "speculative_config": {"method": "eagle3", "model": "someone/draft"}}
    failed = run_module("vllm_kv_budget", on_the_hub)
    assert failed["failed"]
    assert "speculative_config.draft_config" in failed["msg"]


def test_the_plan_stage(run_module: RunModule) -> None:
    result = run_module(
        "vllm_kv_budget",
        {
            "config": kimi(),
            "weights_bytes": 591_000_000_000,
            "gpus": [gpu(index) for index in range(8)],
            "exclude_units": ["vllm-kimi.service"],
            "tensor_parallel_size": 8,
            "kv_cache_dtype": "bfloat16",
            "vllm_version": "0.16.0rc2.dev313",
            "min_model_len": "64K",
            "max_model_len_cap": "128K",
        },
        check=True,
    )
    assert [(row["size"], row["fits"]) for row in result["tensor_parallel_sizes"]] == [
        (1, False),
        (2, False),
        (4, False),
        (8, True),
    ]
    assert result["max_model_len"]["recommended"] == 131072
    assert result["fits"] is True


def test_a_failure_carries_all_facts(run_module: RunModule) -> None:
    result = run_module(
        "vllm_kv_budget",
        {
            "config": kimi(),
            "weights_bytes": 591_000_000_000,
            "gpus": [gpu(index) for index in range(8)],
            "tensor_parallel_size": 8,
            "kv_cache_dtype": "bfloat16",
            "max_model_len": "256K",
            "vllm_version": "0.32.0",
        },
    )
    assert result["failed"]
    assert "To serve at least one request with the model's max seq len (262144)" in result["msg"]
    assert f"Choose max_model_len {result['max_model_len']['recommended']} (at most" in result["msg"]
    assert result["fits"] is False
    assert result["max_model_len"]["requested"] == 262144
    assert result["memory"]["weights"] > 70 << 30
    four = run_module(
        "vllm_kv_budget",
        {"config": kimi(), "weights_bytes": 591_000_000_000, "gpus": [gpu(0)] * 8, "tensor_parallel_size": 4},
    )
    assert four["failed"]
    assert "the weights do not fit at tensor_parallel_size 4" in four["msg"]


def test_the_size_of_the_files_on_disk(run_module: RunModule, tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    for number, size in enumerate((1_000_000, 2_000_000)):
        with (folder / f"model-{number}.safetensors").open("wb") as file:
            file.truncate(size)
    asked = {"path": str(folder), "gpu_memory_bytes": 80 << 30, "tensor_parallel_size": 1}
    assert run_module("vllm_kv_budget", asked)["memory"]["weights"] == 3_000_000
    given = run_module("vllm_kv_budget", {**asked, "weights_bytes": 5_000_000})
    assert given["memory"]["weights"] == 5_000_000


def test_a_shard_is_missing(run_module: RunModule, tmp_path: Path) -> None:
    """Half of the files would make the model half as large; where its size is given, nothing is asked of them."""
    folder = write(tmp_path / "model")
    with (folder / "model-00001-of-00002.safetensors").open("wb") as file:
        file.truncate(1_000_000)
    asked = {"path": str(folder), "gpu_memory_bytes": 80 << 30, "tensor_parallel_size": 1}
    refused = run_module("vllm_kv_budget", asked)
    assert refused["failed"]
    assert refused["msg"].startswith(f"the checkpoint is not whole ({folder}): missing: model-00002-of-00002")
    for known in ({"weights_bytes": 2_000_000}, {"weights_bytes_per_gpu": 2_000_000}):
        assert run_module("vllm_kv_budget", {**asked, **known})["memory"]["weights"] >= 2_000_000
    assert "kv_cache" in run_module("vllm_kv_budget", {"path": str(folder), **CAPACITY_190K})


def test_the_tensors_of_the_files_on_disk(run_module: RunModule, tmp_path: Path) -> None:
    """A router is whole on every rank, a draft layer is not loaded; the size of the file says neither."""
    folder = write(tmp_path / "model")
    sizes = {"model.layers.0.mlp.gate.weight": 4_000, "model.layers.0.mlp.up.weight": 8_000_000}
    sizes["model.layers.61.mlp.up.weight"] = 5_000_000
    header: dict[str, Any] = {}
    end = 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    asked = {"path": str(folder), "gpu_memory_bytes": 80 << 30, "tensor_parallel_size": 8}
    result = run_module("vllm_kv_budget", asked)
    assert result["memory"]["weights"] == 1_004_000
    assert result["basis"]["weights"] == "tensors"
    assert any("of draft layers or encoder are not loaded" in line for line in result["explanation"])
    with_size = run_module("vllm_kv_budget", {**asked, "weights_bytes": 16_000_000})
    assert with_size["basis"]["weights"] == "files"


@pytest.mark.parametrize(("written", "requested"), [("128k", 128000), ("128K", 131072), (131072, 131072), ("-1", None)])
def test_lengths(run_module: RunModule, written: str | int, requested: int | None) -> None:
    asked = {"config": PLAIN, "max_model_len": written, **CAPACITY_190K}
    assert run_module("vllm_kv_budget", asked)["max_model_len"]["requested"] == requested


@pytest.mark.parametrize("written", ["1.5K", "131,072"])
@pytest.mark.parametrize("option", ["max_model_len", "min_model_len", "max_model_len_cap"])
def test_lengths_that_are_none(run_module: RunModule, option: str, written: str) -> None:
    result = run_module("vllm_kv_budget", {"config": PLAIN, option: written, **CAPACITY_190K})
    assert result["failed"]
    assert result["msg"].startswith(f"{option} cannot be read as a number of tokens")


def test_no_floor_is_written_as_0(run_module: RunModule) -> None:
    assert "failed" not in run_module("vllm_kv_budget", {"config": PLAIN, "min_model_len": 0, **CAPACITY_190K})


def test_before_the_download(run_module: RunModule, tmp_path: Path) -> None:
    missing = {"path": str(tmp_path / "missing"), **CAPACITY_190K}
    assert run_module("vllm_kv_budget", missing, check=True)["unknown_until"] == "fetch"
    assert run_module("vllm_kv_budget", missing)["failed"]
    planned = run_module("vllm_kv_budget", {**missing, "config": PLAIN}, check=True)
    assert planned["kv_cache"]["token_capacity"] == 190_000


def test_measured_numbers_of_vllm_service_info(run_module: RunModule) -> None:
    measured = {
        "tokens": 178768,
        "concurrency": 1.36,
        "available_bytes": int(11.7 * (1 << 30)),
        "weights_bytes": int(70.81 * (1 << 30)),
        "cuda_graph_bytes": None,
    }
    result = run_module(
        "vllm_kv_budget",
        {
            "config": kimi(),
            "kv_cache_dtype": "bfloat16",
            "gpus": [gpu(index) for index in range(8)],
            "tensor_parallel_size": 8,
            "measured": measured,
            "vllm_version": "0.16.0",
        },
    )
    assert result["kv_cache"]["token_capacity"] == 178768
    assert result["notes"] == []
    assert result["basis"]["weights"] == result["basis"]["overhead"] == "measured"
    assert result["memory_bar"][0].startswith("[WWWW")


def test_the_capability_of_the_cards_chooses_the_backend(run_module: RunModule) -> None:
    asked = {"config": PLAIN, "gpus": [gpu(0, compute_capability="10.0")], "available_kv_cache_bytes": 1 << 30}
    assert run_module("vllm_kv_budget", asked)["kv_cache"]["block_size"] == 32
    assert run_module("vllm_kv_budget", {**asked, "compute_capability": "12.0"})["kv_cache"]["block_size"] == 16


def test_an_old_engine_obeys_the_checkpoint_over_the_flag(run_module: RunModule) -> None:
    """compressed-tensors' kv_cache_scheme of a GQA model wins over --kv-cache-dtype until 0.21."""
    llama = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
        },
    }
    asked = {"config": llama, "kv_cache_dtype": "bfloat16", "available_kv_cache_bytes": 1 << 30}
    dtypes = [
        run_module("vllm_kv_budget", {**asked, "vllm_version": version})["kv_cache"]["dtype"]
        for version in ("0.20.0", "0.32.0")
    ]
    assert dtypes == ["fp8", "bfloat16"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "one of the following is required: path, config"),
        ({"config": {**PLAIN, "architectures": ["BrandNewForCausalLM"]}}, "cannot estimate BrandNewForCausalLM"),
        ({"config": PLAIN, "vllm_version": "nightly"}, "vllm_version is no version number"),
        ({"config": PLAIN, "compute_capability": "sm_120"}, "'sm_120' is no compute capability"),
        ({"config": PLAIN, "compute_capability": "120"}, "'120' is no compute capability"),
        ({"config": PLAIN, "gpus": [gpu(3, mig=True)]}, "GPU 3 is split by MIG"),
        ({"config": PLAIN, "gpus": [gpu(0)], "tensor_parallel_size": 2}, "2 ranks need as many cards"),
    ],
)
def test_one_error_that_names_it(run_module: RunModule, arguments: dict[str, Any], says: str) -> None:
    result = run_module("vllm_kv_budget", {"available_kv_cache_bytes": 1 << 30, **arguments})
    assert result["failed"]
    assert says in result["msg"]
