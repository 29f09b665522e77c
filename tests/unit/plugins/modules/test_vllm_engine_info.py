# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module over a small source tree in the shape of an installed vLLM."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulation import engine_tree

RunModule = Callable[..., dict[str, Any]]
KEYS = {
    *("arguments_accepted", "changed", "commit", "deprecated_flags", "distribution", "flags", "flags_complete"),
    *("invocation", "notes", "platform", "refused_values", "removed_flags", "site_packages", "source", "torch"),
    *("unknown_environment", "version"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return engine_tree.write(tmp_path / "lib" / "python3.12" / "site-packages")


@pytest.mark.parametrize("check", [False, True])
def test_the_installed_engine(run_module: RunModule, root: Path, check: bool) -> None:
    result = run_module("vllm_engine_info", {"python": str(root.parents[2] / "bin" / "python")}, check=check)
    result = run_module("vllm_engine_info", {"site_packages": str(root)}, check=check)
    assert set(result) == KEYS and result["changed"] is False
    assert (result["distribution"], result["version"], result["commit"]) == ("vllm", "0.40.0", "abcdef123")
    assert (result["torch"], result["platform"]) == ("2.14.0+cu130", "cuda")
    assert result["flags_complete"] and result["arguments_accepted"]
    dtype = {"options": ["--kv-cache-dtype"], "nargs": 1, "choices": ["auto", "bfloat16", "fp8"], "default": "auto"}
    assert result["flags"]["--kv-cache-dtype"] == {**dtype, "unknown": []}
    assert result["flags"]["--where"]["choices"] == "unknown"
    assert result["flags"]["--where"]["unknown"] == ["choices"]
    assert result["flags"]["--optimization-level"]["default"] == 2
    assert result["flags"]["--tuning"]["default"] == "Tuning()"
    assert result["flags"]["--packing"]["named_values"] == ["auto", "bfloat16", "fp8", "int4"]


def test_the_environment_of_a_python(run_module: RunModule, root: Path) -> None:
    python = root.parents[2] / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to("/usr/bin/python3")
    for check in (False, True):
        result = run_module("vllm_engine_info", {"python": str(python)}, check=check)
        assert result["site_packages"] == result["source"] == str(root)


def test_arguments_and_environment(run_module: RunModule, root: Path) -> None:
    asked = {
        "site_packages": str(root),
        "arguments": [
            "--disable-log-requests",
            "--kv-cache-dtype",
            "bf16",
            "--old-switch",
            "--api-key",
            "canary-secret",
        ],
        "environment": {"VLLM_CACHE_ROTT": "/tmp", "VLLM_SHOW_ERRORS": 1, "NCCL_DEBUG": None},
    }
    result = run_module("vllm_engine_info", asked)
    assert not result["arguments_accepted"]
    assert [each["replacement"] for each in result["removed_flags"]] == ["--no-enable-log-requests"]
    assert [each["nearest"] for each in result["refused_values"]] == ["bfloat16"]
    assert [each["flag"] for each in result["deprecated_flags"]] == ["--old-switch"]
    assert result["unknown_environment"] == [{"name": "VLLM_CACHE_ROTT", "nearest": "VLLM_CACHE_ROOT"}]
    assert result["flags"]["--show-errors"]["default"] is True
    del result["invocation"]
    assert "canary" not in json.dumps(result)


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        ([], True),
        (["--fail-on-environ-validation"], False),
        (["--fail_on_environ_validation", "--no-fail-on-environ-validation"], True),
    ],
)
def test_unknown_variables_matter_when_the_engine_is_told_so(
    run_module: RunModule, root: Path, arguments: list[str], accepted: bool
) -> None:
    asked = {"site_packages": str(root), "arguments": arguments, "environment": {"VLLM_X": "1"}}
    assert run_module("vllm_engine_info", asked)["arguments_accepted"] is accepted


def test_before_the_engine_is_installed(run_module: RunModule, tmp_path: Path) -> None:
    for python in (str(tmp_path / "bin" / "python"), ""):
        result = run_module("vllm_engine_info", {"python": python}, check=True)
        assert result["unknown_until"] == "install" and not result.get("failed")
        result = run_module("vllm_engine_info", {"python": python})
        assert result["failed"] and "vllm_install" in result["msg"]


def test_no_vllm_and_a_broken_one(run_module: RunModule, root: Path, tmp_path: Path) -> None:
    result = run_module("vllm_engine_info", {"site_packages": str(tmp_path)})
    assert result["failed"] and str(tmp_path) in result["msg"]
    (root / "vllm/config/cache.py").write_text("class CacheConfig\n")
    result = run_module("vllm_engine_info", {"site_packages": str(root)})
    assert result["failed"] and f"{root}/vllm/config/cache.py:1" in result["msg"]


@pytest.mark.parametrize("asked", [{}, {"python": "/a", "site_packages": "/b"}])
def test_one_place_is_named(run_module: RunModule, asked: dict[str, str]) -> None:
    assert run_module("vllm_engine_info", asked)["failed"]


def test_nothing_is_written_and_nothing_is_imported(run_module: RunModule, root: Path) -> None:
    (root / "vllm" / "__init__.py").write_text("raise SystemExit('imported')\n")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert not run_module("vllm_engine_info", {"site_packages": str(root)}).get("failed")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
