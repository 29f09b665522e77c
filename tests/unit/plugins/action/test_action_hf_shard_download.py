# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_shard_download in a play, from a slow local Hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulation.hub import Hub
from simulation.hub.samples import REPOSITORY, SHARDS, make_repository, same_files
from simulation.play import Play, Task

CANARY = "hf_canary7f3a91"
SLOW = 200_000  # bytes per second of one answer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("origin") / "files")


@pytest.fixture
def hub(origin: Path) -> Iterator[Hub]:
    with Hub(rate=SLOW) as hub:
        hub.add_repository(REPOSITORY, origin)
        yield hub


def fetch(hub: Hub, dest: Path, **more: Any) -> Task:
    options = {"repo_id": REPOSITORY, "dest": str(dest), "endpoint": hub.endpoint, "token": CANARY, "max_workers": 1}
    return {"blackwell.serving.hf_shard_download": {**options, **more}}


def test_a_download_shows_its_progress_and_leaves_nothing_behind(hub: Hub, origin: Path, tmp_path: Path) -> None:
    dest = tmp_path / "model"
    tasks = {
        "predicted": {**fetch(hub, dest), "check_mode": True},
        "first": fetch(hub, dest),
        "second": fetch(hub, dest),
        "full": fetch(hub, dest, verify="full"),
        "wrong": fetch(hub, dest, repo_id="acme/absent"),
    }
    play = Play(tmp_path, tasks, "-vvv")
    assert play.lines("predicted") == []
    shown = play.lines("first")
    moving = re.compile(r"gpu1: downloading \d+ % \d\.\d/2\.1 MB at \d+ kB/s, eta \d+ s, shards [0-3]/3")
    assert any(moving.fullmatch(line) for line in shown), shown
    assert re.fullmatch(r"gpu1: downloaded 2\.1 MB in \d+ s at \d+ kB/s, shards 3/3", shown[-1])
    results = play.results()
    assert [results[name]["changed"] for name in ("predicted", "first", "second", "full")] == [True, True, False, False]
    assert not {"ansible_job_id", "results_file", "started", "finished", "stdout", "stderr"} & results["first"].keys()
    assert results["first"]["shards"] == {"expected": 3, "present": 3, "missing": [], "corrupt": []}
    assert results["wrong"]["failed"]
    assert same_files(origin, dest)
    assert play.left() == []
    assert CANARY not in play.output


def test_after_ctrl_c_the_next_run_waits_for_the_job_that_goes_on(hub: Hub, origin: Path, tmp_path: Path) -> None:
    dest = tmp_path / "model"
    first = Play(tmp_path, {"first": fetch(hub, dest)}, interrupt_at="gpu1: downloading")
    assert "User interrupted execution" in first.output
    second = Play(tmp_path, {"second": fetch(hub, dest)})
    waiting = [line for line in second.lines() if line.startswith("gpu1: waiting for pid ")]
    assert waiting
    assert re.search(r" since \S+: downloading \d+ % ", waiting[0]), waiting
    result = second.results()["second"]
    assert result["changed"] is False
    assert "waited" in result["notes"][0]
    assert [len(hub.log.records(file=shard, method="GET")) for shard in SHARDS] == [1, 1, 1]
    assert same_files(origin, dest)
    assert len(second.left()) == 1  # the interrupted job's result, which a run after an hour removes
