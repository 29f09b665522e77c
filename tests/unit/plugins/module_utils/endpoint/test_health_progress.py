# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that tells how far an examination is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.health_progress import HealthProgress


def said(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_each_step_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "own.progress"
    with HealthProgress(str(path)) as progress:
        assert (said(path)["state"], said(path)["stage"]) == ("waiting", None)
        progress.waiting("loading_weights", "shards 3/119")
        assert (said(path)["stage"], said(path)["progress"]) == ("loading_weights", "shards 3/119")
        progress.begin("ready", 0, 2)
        assert (said(path)["state"], said(path)["check"], said(path)["stage"]) == ("checking", "ready", None)
        assert (said(path)["done"], said(path)["total"], said(path)["checks"]) == (0, 2, [])
        progress.end("ready", "pass")
        assert (said(path)["check"], said(path)["done"]) == (None, 1)
        progress.begin("count", 1, 2)
        progress.end("count", "fail")
        assert said(path)["checks"] == [{"name": "ready", "status": "pass"}, {"name": "count", "status": "fail"}]
        assert (said(path)["done"], said(path)["pid"]) == (2, os.getpid())
        assert said(path)["elapsed_s"] >= 0
        assert os.listdir(tmp_path) == ["own.progress"]  # no temporary file is left
    assert os.listdir(tmp_path) == []


def test_a_check_that_ends_without_a_beginning_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "own.progress"
    with HealthProgress(str(path)) as progress:
        progress.end("ready", "fail")
        assert (said(path)["done"], said(path)["total"]) == (1, 1)


def test_the_file_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), HealthProgress(str(tmp_path / "own.progress")):
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with HealthProgress(None) as progress:
        progress.waiting("compiling", None)
        progress.begin("ready", 0, 1)
        progress.end("ready", "pass")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_does_not_exist_does_not_stop_the_examination(tmp_path: Path) -> None:
    with HealthProgress(str(tmp_path / "absent" / "own.progress")) as progress:
        progress.begin("ready", 0, 1)


def test_a_device_a_link_and_a_folder_are_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    for path in ("/dev/null", str(link), str(tmp_path)):
        with HealthProgress(path) as progress:
            progress.begin("ready", 0, 1)
    assert target.read_text() == "mine"
    assert link.is_symlink()
    assert not os.path.isfile("/dev/null")
