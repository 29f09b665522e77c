# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "old"
    folder.mkdir(parents=True)
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"a" * 8192)
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"b" * 4096)
    return folder


def test_check_mode_says_what_the_real_run_does(run_module: Any, old: Path) -> None:
    predicted = run_module("retired_path", {"path": str(old)}, check=True)
    assert old.exists()
    done = run_module("retired_path", {"path": str(old)})
    assert not old.exists()
    assert predicted == done
    assert (done["changed"], done["files"], done["freed_bytes"]) == (True, 2, 12288)


def test_a_second_run_changes_nothing(run_module: Any, old: Path) -> None:
    run_module("retired_path", {"path": str(old)})
    again = run_module("retired_path", {"path": str(old)})
    assert (again["changed"], again["freed_bytes"]) == (False, 0)


def test_bytes_with_another_name_are_not_counted_as_freed(run_module: Any, old: Path) -> None:
    os.link(old / "model-00001-of-00002.safetensors", old.parent / "kept.safetensors")
    done = run_module("retired_path", {"path": str(old)})
    assert (done["freed_bytes"], done["shared_bytes"]) == (4096, 8192)


def test_a_killed_removal_is_finished(run_module: Any, old: Path) -> None:
    old.rename(f"{old}.removing")
    done = run_module("retired_path", {"path": str(old)})
    assert (done["changed"], done["files"]) == (True, 2)
    assert list(old.parent.iterdir()) == []


def test_an_open_file_is_respected(run_module: Any, old: Path) -> None:
    with (old / "model-00001-of-00002.safetensors").open("rb"):
        refused = run_module("retired_path", {"path": str(old)})
    assert refused["failed"]
    assert refused["holders"][0]["pid"] == os.getpid()
    assert "in use" in refused["msg"]
    assert old.exists()


@pytest.mark.parametrize(
    ("path", "message"),
    [("/srv/models", "too close to the root"), ("/srv/a/../models/old", "not absolute and plain")],
)
def test_dangerous_paths_are_refused(run_module: Any, path: str, message: str) -> None:
    refused = run_module("retired_path", {"path": path})
    assert refused["failed"]
    assert message in refused["msg"]


def test_a_link_is_refused(run_module: Any, old: Path) -> None:
    link = old.parent / "link"
    link.symlink_to(old)
    assert "symbolic link" in run_module("retired_path", {"path": f"{link}/"})["msg"]
    assert "no folder" in run_module("retired_path", {"path": str(link)})["msg"]
    assert old.exists()


def test_a_file_is_refused(run_module: Any, old: Path) -> None:
    assert "no folder" in run_module("retired_path", {"path": str(old / "model-00001-of-00002.safetensors")})["msg"]


def test_a_mount_point_is_refused(run_module: Any) -> None:
    assert run_module("retired_path", {"path": "/proc/sys/fs/binfmt_misc/../../../fs"})["failed"]


@pytest.mark.parametrize("kept", ["new", ".", "old/inner"])
def test_a_protected_path_survives(run_module: Any, old: Path, kept: str) -> None:
    protected = old.parent / kept
    protected.mkdir(exist_ok=True)
    result = run_module("retired_path", {"path": str(old), "protected": [str(protected)]})
    assert bool(result.get("failed")) is (kept != "new")
    assert old.exists() is (kept != "new")
