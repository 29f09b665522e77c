# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that is too small, one that fills up meanwhile, and a destination that was restored from a backup."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from simulation.hub import Hub
from simulation.hub.samples import REPOSITORY, SHARDS, actions, make_repository, same_files
from simulation.task import Task, wait_until

Start = Callable[..., Task]
OWN = ".cache/huggingface/blackwell.serving"
DISK_BYTES = 8 << 20
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own is mounted, which needs root")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def big(hub: Hub, tmp_path: Path) -> Path:
    """A repository of 6.3 MB in the place of the small one: it fits with its margin, and not beside much else."""
    folder = make_repository(tmp_path / "big", 2_000_000)
    hub.add_repository(REPOSITORY, folder)
    return folder


def requests_of_files(hub: Hub) -> int:
    return len(hub.log.records(file="*", method="GET"))


@needs_root
def test_a_disk_that_is_too_small_is_refused_before_the_first_byte(
    start: Start, hub: Hub, disk: Path, big: Path
) -> None:
    (disk / "else").write_bytes(bytes(3_000_000))
    for check in (True, False):
        result = start(dest=str(disk / "model"), check=check).result()
        assert result["failed"]
        assert "too little space" in result["msg"]
        assert result["free_bytes"] < result["needed_bytes"]
    assert requests_of_files(hub) == 0
    assert sorted(path.name for path in disk.rglob("*") if path.is_file()) == ["else"]
    (disk / "else").unlink()
    assert start(dest=str(disk / "model")).result()["changed"]
    assert same_files(big, disk / "model")


@needs_root
def test_a_disk_that_fills_up_meanwhile(start: Start, hub: Hub, disk: Path, big: Path) -> None:
    """ENOSPC in the middle is named, nothing that is partial has a final name, and what came is continued."""
    hub.rate = 1_500_000
    task = start(dest=str(disk / "model"))
    parts = disk / "model" / OWN / "parts"
    wait_until(lambda: parts.is_dir() and sum(part.stat().st_size for part in parts.iterdir()) > 1_000_000)
    with (disk / "else").open("wb") as other:
        os.posix_fallocate(other.fileno(), 0, 4_000_000)
    result = task.result()
    assert result["failed"]
    assert "No space left" in result["msg"]
    assert not list((disk / "model").glob("*.safetensors"))
    had = sum(part.stat().st_size for part in parts.iterdir())
    assert had > 1_000_000
    assert "too little space" in start(dest=str(disk / "model")).result()["msg"]
    (disk / "else").unlink()
    hub.rate = None
    result = start(dest=str(disk / "model")).result()
    assert not result.get("failed"), result
    assert result["bytes"]["resumed"] == had
    assert same_files(big, disk / "model")


@needs_root
def test_a_disk_without_inodes_is_refused(start: Start, hub: Hub, disk: Path, big: Path) -> None:
    subprocess.run(["mount", "-o", "remount,nr_inodes=10", disk], check=True)
    result = start(dest=str(disk / "model")).result()
    assert "too few inodes" in result["msg"]
    assert requests_of_files(hub) == 0


@pytest.mark.parametrize("keeps_times", [True, False])
def test_a_restored_backup_of_a_half_done_destination(
    start: Start, hub: Hub, folder: Path, dest: Path, tmp_path: Path, keeps_times: bool
) -> None:
    """Other inodes, with or without the old times; one file rotted in the backup. Nothing else is fetched again."""
    hub.fault(SHARDS[1], rate=300_000, times=-1)
    task = start()
    parts = dest / OWN / "parts"
    wait_until(lambda: (dest / SHARDS[0]).exists() and (dest / SHARDS[2]).exists())
    wait_until(lambda: sum(part.stat().st_size for part in parts.iterdir()) > 100_000)
    assert task.kill()
    had = sum(part.stat().st_size for part in parts.iterdir())
    restored = tmp_path / "restored"
    shutil.copytree(dest, restored, copy_function=shutil.copy2 if keeps_times else shutil.copyfile)
    shutil.rmtree(dest)
    with (restored / SHARDS[2]).open("r+b") as stream:
        stream.seek(5000)
        stream.write(b"\0\0\0\0\0\0\0\0\0")
    shutil.copystat(folder / SHARDS[2], restored / SHARDS[2])
    hub.faults.clear()
    hub.log.clear()
    result = start(dest=str(restored)).result()
    assert not result.get("failed"), result
    assert same_files(folder, restored)
    assert {shard: actions(result)[shard] for shard in SHARDS} == {
        SHARDS[0]: "adopted",
        SHARDS[1]: "resumed",
        SHARDS[2]: "repaired",
    }
    ranges = {record.file: record.range for record in hub.log.records(file="*", method="GET")}
    assert ranges == {SHARDS[1]: f"bytes={had}-", SHARDS[2]: None}
    assert not start(dest=str(restored)).result()["changed"]


def test_a_backup_that_was_taken_at_different_moments(
    start: Start, hub: Hub, folder: Path, dest: Path, tmp_path: Path
) -> None:
    """An old manifest beside newer files, an old part beside the whole file: the hash decides about each."""
    hub.rate = 500_000
    task = start()
    parts = dest / OWN / "parts"
    wait_until(lambda: parts.is_dir() and sum(part.stat().st_size for part in parts.iterdir()) > 300_000)
    assert task.kill()
    old = tmp_path / "old"
    shutil.copytree(dest / OWN, old)
    hub.rate = None
    assert start().result()["changed"]
    shutil.rmtree(dest / OWN)
    shutil.copytree(old, dest / OWN)
    hub.log.clear()
    result = start().result()
    assert {actions(result)[shard] for shard in SHARDS} == {"adopted"}
    assert requests_of_files(hub) == 0
    assert same_files(folder, dest)
    assert not start().result()["changed"]
