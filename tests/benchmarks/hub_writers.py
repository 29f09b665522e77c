# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two writers on one destination, started together: shards fetched twice, shards that vanish, success that is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from simulation.hub import Hub, client_environment
from simulation.hub.samples import REPOSITORY, SHARDS, make_repository, same_files
from simulation.task import Task

from .measuring import scratch
from .table import Row, at_most, show

TRIALS = 20
HEAD_DELAY_S = 0.3  # as from another continent
RATE = 2_000_000  # of each body: a shard takes a third of a second


@dataclass
class Count:
    twice: int = 0
    vanished: int = 0
    false_success: int = 0
    wrong: int = 0


def watch(processes: list[subprocess.Popen[str]], dest: Path) -> tuple[int, int]:
    """(finished shards that vanished, processes that ended with success while a shard was missing)."""
    seen: set[str] = set()
    vanished: set[str] = set()
    lied = 0
    running = list(processes)
    while running:
        there = {shard for shard in SHARDS if (dest / shard).exists()}
        vanished |= seen - there
        seen |= there
        for process in [process for process in running if process.poll() is not None]:
            running.remove(process)
            lied += process.returncode == 0 and not all((dest / shard).exists() for shard in SHARDS)
        time.sleep(0.001)
    return len(vanished), lied


def trial(hub: Hub, processes: list[subprocess.Popen[str]], folder: Path, dest: Path, count: Count) -> None:
    vanished, lied = watch(processes, dest)
    for process in processes:
        process.communicate()
    count.vanished += vanished
    count.false_success += lied
    count.twice += sum(len(hub.log.records(file=shard, method="GET")) > 1 for shard in SHARDS)
    count.wrong += not same_files(folder, dest)
    hub.log.clear()
    shutil.rmtree(dest)


def main() -> None:
    plain, ours = Count(), Count()
    with scratch() as scratch_folder, Hub(rate=RATE) as hub:
        folder, dest = make_repository(scratch_folder / "origin"), scratch_folder / "dest"
        hub.add_repository(REPOSITORY, folder)
        hub.fault("*", methods=("HEAD",), delay_s=HEAD_DELAY_S, times=-1)
        environment = client_environment(hub.endpoint, scratch_folder / "home")
        words = ["-m", "huggingface_hub.cli.hf", "download", REPOSITORY, "--local-dir", str(dest)]
        for _trial in range(TRIALS):
            processes = [
                subprocess.Popen(
                    [sys.executable, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                for _writer in range(2)
            ]
            trial(hub, processes, folder, dest, plain)
            arguments = {"repo_id": REPOSITORY, "dest": str(dest)}
            tasks = [
                Task("hf_shard_download", arguments, environment, held=["huggingface_hub.hf_api"])
                for _writer in range(2)
            ]
            Task.go(tasks)
            trial(hub, [task.process for task in tasks], folder, dest, ours)
    shards = TRIALS * len(SHARDS)
    show(
        f"two writers started together, {TRIALS} trials, {shards} shards",
        [
            Row("hf download: shards fetched twice", f"{plain.twice}"),
            Row("hf download: finished shards that vanished meanwhile", f"{plain.vanished}"),
            Row("hf download: success while shards were missing", f"{plain.false_success} of {2 * TRIALS}"),
            Row("hf download: wrong in the end", f"{plain.wrong} of {TRIALS}"),
            at_most("hf_shard_download: shards fetched twice", ours.twice, 0, "shards"),
            at_most("hf_shard_download: finished shards that vanished", ours.vanished, 0, "shards"),
            at_most("hf_shard_download: success while shards were missing", ours.false_success, 0, "runs"),
            at_most("hf_shard_download: wrong in the end", ours.wrong, 0, "trials"),
        ],
        f"a Hub that takes {HEAD_DELAY_S} s for the headers of a file and sends {RATE // 1_000_000} MB/s",
    )
