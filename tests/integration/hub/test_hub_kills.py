# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at any moment: no partial file under a final name, and the next run continues where that one stood."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.hub.identity import BUFFER_BYTES
from simulation.hub import Hub
from simulation.hub.samples import REPOSITORY, SHARDS, make_repository, same_files
from simulation.task import Task, wait_until

Start = Callable[..., Task]
SEED = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(10**6)))
# A run takes some 0.6 s to start and list, then 1.6 to 1.7 s for the shards.
MOMENTS = [round(random.Random(SEED + number).uniform(0.05, 2.4), 3) for number in range(20)]
SHARD_BYTES = 4_000_000
RATE = 2_500_000  # of each body


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "origin", SHARD_BYTES)


@pytest.fixture
def hub(folder: Path) -> Iterator[Hub]:
    with Hub(rate=RATE) as hub:
        hub.add_repository(REPOSITORY, folder)
        yield hub


def weights(folder: Path) -> int:
    return sum((folder / shard).stat().st_size for shard in SHARDS)


def arrived(dest: Path) -> int:
    """Bytes of weights on disk, finished or not."""
    own = dest / ".cache/huggingface/blackwell.serving/parts"
    found = [*dest.glob("*.safetensors"), *(own.glob("*.part") if own.is_dir() else ())]
    sizes = []
    for path in found:
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:
            continue  # it takes its final name at this moment
    return sum(sizes)


def wait_for_bytes(dest: Path, count: int) -> None:
    wait_until(lambda: arrived(dest) >= count)


def check_names(folder: Path, dest: Path) -> None:
    """What bears the name of a published file has its bytes."""
    for source in folder.rglob("*"):
        path = dest / source.relative_to(folder)
        assert not path.is_file() or path.read_bytes() == source.read_bytes(), path


def sent(hub: Hub) -> int:
    """Bytes of weights that the Hub has sent, when the last connection is over."""
    time.sleep(0.2)  # it notices a killed client with the next chunk
    return sum(record.bytes_sent for record in hub.log.records(file="*.safetensors"))


def check_the_end(start: Start, hub: Hub, folder: Path, dest: Path, *, kills: int = 1) -> None:
    """A run to the end: right, and without a second transfer of what had arrived."""
    hub.rate = None
    result = start().result()
    assert not result.get("failed"), result
    assert same_files(folder, dest)
    total = weights(folder)
    assert sent(hub) - total <= total // 100 + kills * len(SHARDS) * BUFFER_BYTES


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"KILL_SEED={SEED}-{moment}s")
def test_killed_at_a_random_moment(start: Start, hub: Hub, folder: Path, dest: Path, moment: float) -> None:
    task = start()
    time.sleep(moment)
    task.kill()
    check_names(folder, dest)
    check_the_end(start, hub, folder, dest)


def test_killed_at_half(start: Start, hub: Hub, folder: Path, dest: Path) -> None:
    task = start()
    wait_for_bytes(dest, weights(folder) // 2)
    assert task.kill()
    check_names(folder, dest)
    had = arrived(dest)
    assert had <= sent(hub) < weights(folder)
    hub.log.clear()
    hub.rate = None
    assert start().result()["bytes"]["resumed"] == had
    assert sum(record.bytes_sent for record in hub.log.records(file="*.safetensors")) == weights(folder) - had


def test_killed_six_times_in_a_row(start: Start, hub: Hub, folder: Path, dest: Path) -> None:
    for eighths in range(1, 7):
        task = start()
        wait_for_bytes(dest, eighths * weights(folder) // 8)
        assert task.kill()
        check_names(folder, dest)
    check_the_end(start, hub, folder, dest, kills=6)
    assert not start().result()["changed"]
