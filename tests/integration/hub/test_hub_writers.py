# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several tasks start on one destination in the same moment, twenty times: nothing is fetched twice, nobody lies."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from simulation.hub import Hub
from simulation.hub.samples import REPOSITORY, SHARDS, same_files
from simulation.task import ROOT, Task, wait_until

Start = Callable[..., Task]
LOCK = ".cache/huggingface/blackwell.serving/lock"
# Each fourth trial has five writers, each fifth forbids waiting.
TRIALS = [(5 if trial % 4 == 3 else 2, "fail" if trial % 5 == 4 else "wait") for trial in range(20)]


@pytest.mark.parametrize(("writers", "lock"), TRIALS)
def test_writers_that_start_in_the_same_moment(
    start: Start, hub: Hub, folder: Path, dest: Path, writers: int, lock: str
) -> None:
    for shard in SHARDS:
        hub.fault(shard, delay_s=0.3)  # the window in which a writer without the lock would start the same shard
    tasks = [start(lock=lock, held=["huggingface_hub.hf_api"]) for _writer in range(writers)]
    Task.go(tasks)
    results = [task.result() for task in tasks]
    assert {file: len(hub.log.records(file=file, method="GET")) for file in SHARDS} == dict.fromkeys(SHARDS, 1)
    assert same_files(folder, dest)
    (winner,) = [task for task, result in zip(tasks, results, strict=True) if result.get("changed")]
    for task, result in zip(tasks, results, strict=True):
        if lock == "wait":
            assert not result.get("failed"), result["msg"]
            assert result["shards"] == {"expected": 3, "present": 3, "missing": [], "corrupt": []}
        elif task is not winner:
            assert result["failed"]
            assert result["writer"].startswith(f"pid {winner.process.pid} on {socket.gethostname()}"), result["msg"]


def wait_until_it_waits(hub: Hub) -> None:
    """The second one has resolved its revision and has had time to find the lock taken."""
    wait_until(lambda: len([record for record in hub.log.records() if "/revision/" in record.path]) == 2, 30)
    time.sleep(0.5)


def test_a_writer_that_is_killed_hands_over_to_the_one_that_waits(
    start: Start, hub: Hub, folder: Path, dest: Path
) -> None:
    hub.rate = 300_000
    first = start()
    wait_until(lambda: (dest / LOCK).exists() and bool((dest / LOCK).read_text()))
    second = start()
    wait_until_it_waits(hub)
    assert first.kill()
    hub.rate = None
    result = second.result()
    assert result["changed"]
    assert same_files(folder, dest)
    assert any(f"pid {first.process.pid} on {socket.gethostname()} since" in note for note in result["notes"])


def ansible(endpoint: str, dest: Path, home: Path) -> subprocess.Popen[str]:
    """A controller of its own with this machine as its host; its module waits for other writers."""
    arguments = {"repo_id": REPOSITORY, "dest": str(dest), "endpoint": endpoint, "python": sys.executable}
    return subprocess.Popen(
        [
            Path(sys.executable).parent / "ansible",
            *("localhost", "-i", "localhost,", "-c", "local", "--one-line"),
            *("-m", "blackwell.serving.hf_shard_download", "-a", json.dumps(arguments)),
        ],
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_HOME": str(home),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "HF_HOME": str(home),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_two_controllers_and_one_that_is_gone(hub: Hub, folder: Path, dest: Path, tmp_path: Path) -> None:
    """The first controller is killed and its module runs on, as after Ctrl-C over ssh; the next run waits for it."""
    hub.rate = 150_000
    gone = ansible(hub.endpoint, dest, tmp_path / "gone")
    wait_until(lambda: (dest / LOCK).exists() and bool((dest / LOCK).read_text()), 60)
    owner = json.loads((dest / LOCK).read_text())["pid"]
    assert owner != gone.pid
    os.kill(gone.pid, signal.SIGKILL)
    gone.wait()
    os.kill(owner, 0)
    next_one = ansible(hub.endpoint, dest, tmp_path / "next")
    wait_until_it_waits(hub)
    hub.rate = 2_000_000
    out, error = next_one.communicate(timeout=60)
    assert next_one.returncode == 0, out + error
    result = json.loads(re.sub(r"^.*? => ", "", out.strip(), count=1))
    assert not result["changed"]
    assert any(re.search(rf"waited \d+ s for another writer: pid {owner} on ", note) for note in result["notes"])
    assert {file: len(hub.log.records(file=file, method="GET")) for file in SHARDS} == dict.fromkeys(SHARDS, 1)
    assert same_files(folder, dest)
