# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress file: whole at any moment, true, without a secret, gone at the end."""

from __future__ import annotations

import fcntl
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.hub import lock as lock_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub import progress as progress_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub.progress import Progress
from simulation.hub import Hub
from simulation.hub.samples import SHARDS, state_of

Fetch = Callable[..., dict[str, Any]]
KEYS = {"state", "bytes", "shards", "rate_bytes_per_s", "eta_s", "file", "writer", "pid", "at"}


def seen_during(path: Path, work: Callable[[], object]) -> list[dict[str, Any]]:
    """Every different content of the file while the work is done."""
    over = threading.Event()
    seen: list[dict[str, Any]] = []

    def look() -> None:
        while not over.is_set():
            try:
                content = json.loads(path.read_text())
            except FileNotFoundError:
                continue
            if not seen or content["at"] != seen[-1]["at"]:
                seen.append(content)
            time.sleep(0.002)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        work()
    finally:
        over.set()
        watcher.join()
    return seen


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "INTERVAL_S", 0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_a_download_says_how_far_it_is(fetch: Fetch, hub: Hub, dest: Path, tmp_path: Path) -> None:
    hub.rate = 1_500_000
    path = tmp_path / "progress.json"
    results: list[dict[str, Any]] = []
    seen = seen_during(path, lambda: results.append(fetch(progress_file=str(path), token="canary-token")))
    assert not path.exists()
    assert {frozenset(content) for content in seen} == {frozenset(KEYS)}
    assert "canary-token" not in json.dumps(seen)
    downloading = [content for content in seen if content["state"] == "downloading"]
    total = results[0]["bytes"]["total"]
    assert {content["bytes"]["total"] for content in downloading} == {total}
    assert {content["shards"]["total"] for content in downloading} == {3}
    done = [content["bytes"]["done"] for content in downloading]
    assert done == sorted(done)
    assert done[-1] > total / 2
    assert any(content["shards"]["done"] in (1, 2) for content in downloading)
    moving = next(content for content in downloading if content["file"] in SHARDS and content["eta_s"] is not None)
    assert 100_000 < moving["rate_bytes_per_s"] < 10_000_000
    assert abs(moving["at"] - time.time()) < 60
    assert not list(tmp_path.glob(".progress*"))


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_waiting_names_the_other_writer(
    fetch: Fetch, dest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "POLL_S", 0.01)
    fetch()
    path = tmp_path / "progress.json"
    with (dest / ".cache/huggingface/blackwell.serving/lock").open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        threading.Timer(0.3, fcntl.flock, [stream, fcntl.LOCK_UN]).start()
        seen = seen_during(path, lambda: fetch(progress_file=str(path)))
    waiting = [content for content in seen if content["state"] == "waiting"]
    assert waiting
    assert "pid " in waiting[-1]["writer"]


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_hashing_moves_and_a_failure_removes_the_file(fetch: Fetch, hub: Hub, dest: Path, tmp_path: Path) -> None:
    fetch()
    path = tmp_path / "progress.json"
    seen = seen_during(path, lambda: fetch(progress_file=str(path), verify="full"))
    assert {"resolving", "hashing"} >= {content["state"] for content in seen}
    (dest / SHARDS[0]).unlink()
    hub.fault(SHARDS[0], status=403, times=-1)
    with pytest.raises(Exception, match="403"):
        fetch(progress_file=str(path))
    assert not path.exists()


def test_bytes_files_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress()
    progress.begin("hashing", {"a.safetensors": 600, "b.json": 400})
    progress.finish("b.json")
    each = progress.reading("a.safetensors", lambda: None)
    each(100)
    now[0] += 2
    each(100)
    found = progress.snapshot()
    assert (found["state"], found["bytes"]) == ("hashing", {"done": 600, "total": 1000})
    assert found["shards"] == {"done": 0, "total": 1}
    assert (found["rate_bytes_per_s"], found["eta_s"], found["file"]) == (100, 4, "a.safetensors")
    now[0] += 11
    stalled = progress.snapshot()
    now[0] += 11
    assert progress.snapshot()["rate_bytes_per_s"] == 0
    assert stalled["bytes"] == found["bytes"]
    progress.finish("a.safetensors")
    assert progress.snapshot()["shards"] == {"done": 1, "total": 1}


def test_a_file_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    with Progress(str(tmp_path / "absent" / "file")) as progress:
        progress.begin("hashing", {"a": 1})
    assert state_of(tmp_path) == {}


def test_the_file_is_left_to_the_process_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with Progress(str(path)) as progress:
        with progress.left_to_another_process():
            path.write_text("of the other")
            time.sleep(0.05)
            assert path.read_text() == "of the other"
        deadline = time.monotonic() + 5
        while path.read_text() == "of the other" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert json.loads(path.read_text())["state"] == "resolving"
    assert not path.exists()
