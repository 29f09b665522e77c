# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module returns for a folder, for data, and when there is nothing yet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunModule = Callable[..., dict[str, Any]]
CONFIGS = Path(__file__).parents[2] / "data" / "checkpoints" / "configs"
KIMI = json.loads((CONFIGS / "nvidia__Kimi-K2.5-NVFP4.json").read_text())
DENSE = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1}
HF_QUANT = {
    "producer": {"name": "modelopt"},
    "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": []},
}


def write_checkpoint(folder: Path, config: dict[str, Any], tensors: dict[str, str]) -> None:
    """A checkpoint whose shards hold one byte per tensor."""
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": tensors}))
    for shard in set(tensors.values()):
        names = [name for name, file in tensors.items() if file == shard]
        spans = {
            name: {"dtype": "U8", "shape": [1], "data_offsets": [number, number + 1]}
            for number, name in enumerate(names)
        }
        header = json.dumps(spans).encode()
        (folder / shard).write_bytes(len(header).to_bytes(8, "little") + header + bytes(len(names)))


def test_a_folder(run_module: RunModule, tmp_path: Path) -> None:
    write_checkpoint(
        tmp_path,
        {**KIMI, "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"}},
        {"w": "a.safetensors", "l.0.k_proj.k_scale": "a.safetensors", "v": "b.safetensors"},
    )
    (tmp_path / "configuration_kimi_k25.py").write_text("pass\n")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "ours.py").touch()
    result = run_module("checkpoint_info", {"path": str(tmp_path), "vllm_version": "0.33.0"})
    assert not result["changed"]
    assert result["architecture"] == "KimiK25ForConditionalGeneration"
    assert (result["num_layers"], result["attention"], result["use_sparse"]) == (61, "mla", False)
    assert result["experts"]["routed"] == 384
    assert result["weights_bytes"] == 3
    assert result["shards"] == {
        "expected": 2,
        "present": 2,
        "missing": [],
        "unlisted": [],
        "corrupt": [],
        "tensors": 3,
    }
    quantization = result["quantization"]
    assert (quantization["method"], quantization["algo"], quantization["group_size"]) == ("modelopt", "NVFP4", 16)
    kv_cache = quantization["kv_cache"]
    assert kv_cache["declared"] == {"dynamic": False, "num_bits": 8, "type": "float"}
    assert kv_cache["where"] == kv_cache["decided_by"] == "config.json#/quantization_config/kv_cache_scheme"
    assert (kv_cache["wins"], kv_cache["has_scales"], kv_cache["scale_tensors"]) == (True, True, 1)
    assert (kv_cache["auto_resolves_to"], kv_cache["overrides_flag"]) == ("fp8_e4m3", False)
    assert result["suggested"] == {
        "tool_call_parser": "kimi_k2",
        "reasoning_parser": "kimi_k2",
        "trust_remote_code": True,
    }
    assert result["remote_code"] == [
        {"path": "configuration_kimi_k25.py", "sha256": hashlib.sha256(b"pass\n").hexdigest()}
    ]
    assert result["notes"] == []


def test_a_folder_with_a_shard_missing_is_described_and_the_gap_named(run_module: RunModule, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, DENSE, {"a": "1.safetensors", "b": "2.safetensors"})
    (tmp_path / "2.safetensors").unlink()
    result = run_module("checkpoint_info", {"path": str(tmp_path)})
    assert result["shards"]["missing"] == ["2.safetensors"]
    assert result["weights_bytes"] is None
    assert any("1 shards missing" in note for note in result["notes"])


def test_data(run_module: RunModule) -> None:
    config = {**KIMI, "quantization_config": None}
    index = {"metadata": {"total_size": 594}, "weight_map": {"w": "a.safetensors"}}
    result = run_module("checkpoint_info", {"config": config, "hf_quant_config": HF_QUANT, "index": index})
    assert result["quantization"]["method"] == "modelopt_fp4"
    assert result["quantization"]["kv_cache"]["where"] == "hf_quant_config.json#/quantization/kv_cache_quant_algo"
    assert result["quantization"]["kv_cache"]["has_scales"] is False
    assert (result["weights_bytes"], result["shards"], result["remote_code"]) == (594, None, [])
    assert any("uncalibrated" in note for note in result["notes"])


def test_a_declaration_that_counts_for_nothing_is_shown_as_such(run_module: RunModule) -> None:
    legacy = {"quantization": HF_QUANT["quantization"]}
    kv_cache = run_module("checkpoint_info", {"config": DENSE, "hf_quant_config": legacy})["quantization"]["kv_cache"]
    assert (kv_cache["declared"], kv_cache["wins"], kv_cache["auto_resolves_to"]) == ("FP8", False, "auto")
    assert kv_cache["has_scales"] is None
    assert run_module("checkpoint_info", {"config": DENSE})["quantization"] == {
        "method": None,
        "algo": None,
        "group_size": None,
        "kv_cache": {
            "declared": None,
            "where": None,
            "wins": False,
            "has_scales": None,
            "scale_tensors": None,
            "auto_resolves_to": "auto",
            "decided_by": None,
            "overrides_flag": False,
            "declarations": [],
        },
        "refusals": [],
    }


def test_every_published_configuration_as_data(run_module: RunModule) -> None:
    for path in sorted(CONFIGS.glob("*.json")):
        result = run_module("checkpoint_info", {"config": json.loads(path.read_text())})
        assert result["num_layers"] > 0, path.name


def test_quark_and_old_compressed_tensors_are_noted(run_module: RunModule) -> None:
    quark = {"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj", "*v_proj"]}}
    result = run_module("checkpoint_info", {"config": {**DENSE, "quantization_config": quark}})
    assert result["quantization"]["kv_cache"]["where"] == "config.json#/quantization_config/export/kv_cache_group"
    assert any("quantized key and value layers" in note for note in result["notes"])
    scheme = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    arguments = {"config": {**DENSE, "quantization_config": scheme}, "vllm_version": "0.19.0"}
    result = run_module("checkpoint_info", arguments)
    assert result["quantization"]["kv_cache"]["overrides_flag"] is True
    assert any("win over --kv-cache-dtype" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("template", "reasoning"), [("{{ '<think></think>' }}", "kimi_k2"), ("plain", None), (None, None)]
)
def test_kimi_k2_reasons_where_its_template_does(
    run_module: RunModule, tmp_path: Path, template: str | None, reasoning: str | None
) -> None:
    write_checkpoint(tmp_path, {**DENSE, "model_type": "kimi_k2"}, {})
    if template is not None:
        (tmp_path / "chat_template.jinja").write_text(template)
    suggested = run_module("checkpoint_info", {"path": str(tmp_path)})["suggested"]
    assert (suggested["tool_call_parser"], suggested["reasoning_parser"]) == ("kimi_k2", reasoning)
    assert suggested["trust_remote_code"] is False


def test_a_tokenizer_may_need_the_checkpoints_code_as_well(run_module: RunModule, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, DENSE, {})
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["tokenization_kimi.T", null]}}')
    assert run_module("checkpoint_info", {"path": str(tmp_path)})["suggested"]["trust_remote_code"] is True


def test_check_mode_before_the_download(run_module: RunModule, tmp_path: Path) -> None:
    absent = str(tmp_path / "model")
    unknown = run_module("checkpoint_info", {"path": absent}, check=True)
    assert unknown["unknown_until"] == "fetch"
    assert not unknown["changed"]
    assert run_module("checkpoint_info", {"path": absent, "config": KIMI}, check=True)["num_layers"] == 61


def test_the_decision_is_about_the_files_as_published(run_module: RunModule, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, KIMI, {})
    asked = {"recommended": "bfloat16", "supported": ["auto", "bfloat16"], "compute_capability": "12.0"}
    arguments = {"vllm_version": "0.16.0", "kv_cache_decision": asked}
    published = run_module("checkpoint_info", {**arguments, "path": str(tmp_path)})["kv_cache_decision"]
    assert published == {
        "kv_cache_dtype": "bfloat16",
        "must_patch": False,
        "stored_as": "bfloat16",
        "why": "the checkpoint asks for fp8_e4m3; "
        "--kv-cache-dtype bfloat16 wins over it and leaves the files as they are",
        "decided_by": "config.json#/quantization_config/kv_cache_scheme",
    }
    assert run_module("checkpoint_info", {**arguments, "config": KIMI})["kv_cache_decision"] == published
    assert run_module("quant_config_patch", {"path": str(tmp_path)})["changed"]
    assert run_module("checkpoint_info", {**arguments, "path": str(tmp_path)})["kv_cache_decision"] == published
    refused = run_module(
        "checkpoint_info", {**arguments, "config": KIMI, "kv_cache_decision": {**asked, "wanted": "checkpoint"}}
    )
    assert "no attention backend of this vLLM serves a fp8_e4m3 KV cache" in refused["msg"]
    assert "kv_cache_decision" not in run_module("checkpoint_info", {"config": KIMI})


@pytest.mark.parametrize("module", ["checkpoint_info", "quant_config_patch"])
def test_an_editable_installation_is_read_in_its_checkout(run_module: RunModule, tmp_path: Path, module: str) -> None:
    package = tmp_path / "checkout" / "vllm" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.touch()
    records = tmp_path / "packages" / "vllm-0.33.0.dist-info"
    records.mkdir(parents=True)
    direct = {"url": f"file://{tmp_path}/checkout", "dir_info": {"editable": True}}
    (records / "direct_url.json").write_text(json.dumps(direct))
    (tmp_path / "config.json").write_text(json.dumps(KIMI))
    result = run_module(module, {"path": str(tmp_path), "site_packages": str(records.parent)})
    assert any("the installed vLLM's source is not what is known of it" in note for note in result["notes"]), result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "/nonexistent/model", "config": DENSE}, "it does not exist"),
        ({"config": {}}, "describes no language model"),
        ({"config": DENSE, "index": {}}, "an object of file names is expected"),
        ({"config": {**DENSE, "quantization_config": 5}}, "a number where an object is expected"),
        ({"config": DENSE, "vllm_version": "x"}, "vLLM version"),
        ({"config": DENSE, "kv_cache_decision": {"compute_capability": "sm_100"}}, "'sm_100' is no compute capability"),
        ({}, "one of the following is required: path, config"),
        ({"path": "/nonexistent", "hf_quant_config": {}}, "missing parameter"),
    ],
)
def test_errors(run_module: RunModule, arguments: dict[str, Any], message: str) -> None:
    result = run_module("checkpoint_info", arguments)
    assert result["failed"]
    assert message in result["msg"]
