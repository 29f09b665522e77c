# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module around the patch: results, check and diff mode, attributes of the files, errors."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunModule = Callable[..., dict[str, Any]]
CONFIG = (
    '{"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"],\n'
    ' "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "type": "float"}}}\n'
)
HF_QUANT = (
    '{"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": null, "group_size": 16, "exclude_modules": []}}'
)
CONTENTS = {"config.json": json.loads(CONFIG), "hf_quant_config.json": json.loads(HF_QUANT)}
POINTER = "/quantization_config/kv_cache_scheme"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(CONFIG)
    (tmp_path / "hf_quant_config.json").write_text(HF_QUANT)
    return tmp_path


def test_the_result_and_the_second_run(run_module: RunModule, folder: Path) -> None:
    result = run_module("quant_config_patch", {"path": str(folder)}, diff=True)
    assert result["changed"]
    assert result["files"] == [
        {
            "path": "config.json",
            "changed": True,
            "edits": [
                {"pointer": POINTER, "before": {"dynamic": False, "num_bits": 8, "type": "float"}, "after": None}
            ],
        },
        {"path": "hf_quant_config.json", "changed": False, "edits": []},
    ]
    assert result["kv_cache_dtype"] == {"published": "fp8_e4m3", "before": "fp8_e4m3", "after": "auto"}
    assert result["decided_by"] == f"config.json#{POINTER}"
    (diff,) = result["diff"]
    assert (diff["before"], diff["after"]) == (CONFIG, (folder / "config.json").read_text())
    assert diff["before_header"] == str(folder / "config.json")

    again = run_module("quant_config_patch", {"path": str(folder)}, diff=True)
    assert not again["changed"]
    assert again["diff"] == []
    assert again["kv_cache_dtype"] == {"published": "fp8_e4m3", "before": "auto", "after": "auto"}
    assert again["published_by"] == f"config.json#{POINTER}"

    back = run_module("quant_config_patch", {"path": str(folder), "kv_cache": "checkpoint"})
    assert back["changed"]
    assert (folder / "config.json").read_text() == CONFIG
    assert not run_module("quant_config_patch", {"path": str(folder), "kv_cache": "checkpoint"})["changed"]


def test_check_mode_foretells_the_run_and_writes_nothing(run_module: RunModule, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    arguments = {"path": str(folder), "vllm_version": "0.33.0"}
    foretold = run_module("quant_config_patch", arguments, check=True, diff=True)
    assert sorted(folder.rglob("*")) == before
    assert (folder / "config.json").read_text() == CONFIG
    assert foretold == run_module("quant_config_patch", arguments, diff=True)


def test_check_mode_before_the_download(run_module: RunModule, folder: Path, tmp_path: Path) -> None:
    absent = str(tmp_path / "not" / "yet")
    assert run_module("quant_config_patch", {"path": absent}, check=True)["unknown_until"] == "fetch"
    foretold = run_module("quant_config_patch", {"path": absent, "contents": CONTENTS}, check=True, diff=True)
    real = run_module("quant_config_patch", {"path": str(folder)})
    assert {key: foretold[key] for key in ("changed", "files", "kv_cache_dtype", "decided_by", "notes")} == {
        key: real[key] for key in ("changed", "files", "kv_cache_dtype", "decided_by", "notes")
    }
    assert json.loads(foretold["diff"][0]["after"])["quantization_config"]["kv_cache_scheme"] is None
    assert not (tmp_path / "not").exists()


def test_mode_is_set_where_it_is_asked_for(run_module: RunModule, folder: Path) -> None:
    arguments = {"path": str(folder), "mode": "0640"}
    assert run_module("quant_config_patch", arguments, check=True)["changed"]
    result = run_module("quant_config_patch", arguments)
    assert [file["changed"] for file in result["files"]] == [True, True]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.json")} == {0o640}
    assert not run_module("quant_config_patch", arguments)["changed"]
    assert run_module("quant_config_patch", {**arguments, "mode": "u=rw,g=,o="})["changed"]


def test_a_link_gets_the_mode_as_a_file_and_the_blob_keeps_its_own(run_module: RunModule, folder: Path) -> None:
    blob = folder / "blob"
    (folder / "config.json").rename(blob)
    (folder / "config.json").symlink_to(blob)
    blob.chmod(0o600)
    arguments = {"path": str(folder), "mode": "0644"}
    assert run_module("quant_config_patch", arguments, check=True)["changed"]
    assert run_module("quant_config_patch", arguments)["changed"]
    assert stat.S_IMODE((folder / "config.json").lstat().st_mode) == 0o644
    assert stat.S_IMODE(blob.stat().st_mode) == 0o600
    assert not run_module("quant_config_patch", arguments)["changed"]


@pytest.mark.parametrize(
    ("name", "text", "where", "message"),
    [
        ("config.json", "\ufeff{}", "config.json)", "byte order mark"),
        ("config.json", '{"quantization_config": ', "config.json, line 1, column", "is not JSON"),
        ("config.json", "", "config.json, line 1, column 1", "is not JSON"),
        ("config.json", "[]", "config.json#)", "a list where an object is expected"),
        ("config.json", '{"quantization_config": [1]}', "config.json#/quantization_config)", "a list where an object"),
        ("config.json", '{"text_config": [1]}', "config.json#/text_config)", "a list where an object is expected"),
        (
            "config.json",
            '{"text_config": {"quantization_config": "FP8"}}',
            "#/text_config/quantization_config)",
            "string",
        ),
        ("config.json", '{"q": {"a": 1, "a": 2}}', "config.json#/q)", 'the key "a" occurs twice'),
        ("hf_quant_config.json", "\ufeff{}", "hf_quant_config.json)", "byte order mark"),
        ("hf_quant_config.json", "[]", "hf_quant_config.json#)", "a list where an object is expected"),
        ("hf_quant_config.json", '{"quantization": [1]}', "hf_quant_config.json#/quantization)", "a list where"),
        ("hf_quant_config.json", '{"producer": "modelopt"}', "hf_quant_config.json#/producer)", "a string where"),
        ("hf_quant_config.json", '{"quantization": {"a": 1}, "quantization": {}}', "#)", "occurs twice"),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_bad_input_is_one_error_with_file_and_pointer_and_nothing_is_written(
    run_module: RunModule, folder: Path, name: str, text: str, where: str, message: str, check: bool
) -> None:
    (folder / name).write_text(text)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*")}
    result = run_module("quant_config_patch", {"path": str(folder)}, check=check)
    assert result["failed"]
    assert message in result["msg"]
    assert f"({folder}/" in result["msg"]
    assert where in result["msg"]
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*")} == before
    info = run_module("checkpoint_info", {"path": str(folder)})
    assert info["failed"]
    assert (where in info["msg"]) and (message in info["msg"])


def test_the_rules_are_those_of_the_installed_engine(run_module: RunModule, folder: Path, tmp_path: Path) -> None:
    arguments = {"path": str(folder), "vllm_version": "0.33.0"}
    engine = tmp_path / "site-packages"
    assert (
        "no vLLM is installed" in run_module("quant_config_patch", {**arguments, "site_packages": str(engine)})["msg"]
    )
    absent = run_module("quant_config_patch", {**arguments, "site_packages": str(engine)}, check=True)
    assert absent["changed"]
    resolver = engine / "vllm" / "utils" / "torch_utils.py"
    resolver.parent.mkdir(parents=True)
    resolver.write_text("def resolve(): ...")
    foretold = run_module("quant_config_patch", {**arguments, "site_packages": str(engine)}, check=True)
    assert foretold["kv_cache_dtype"]["before"] == "fp8_e4m3"
    assert any("vllm/utils/torch_utils.py has no table" in note for note in foretold["notes"])


def test_a_folder_without_a_checkpoint_fails_outside_check_mode(run_module: RunModule, tmp_path: Path) -> None:
    result = run_module("quant_config_patch", {"path": str(tmp_path / "absent"), "contents": CONTENTS})
    assert result["failed"]
    assert "no checkpoint" in result["msg"]
