# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same trouble for the plain client (`hf download`) and for hf_shard_download, so that the comparison stays true.

A test that fails in its first half means that huggingface_hub has become better: what compares must change then.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.blackwell.serving.plugins.module_utils.hub.identity import BUFFER_BYTES
from simulation.hub import Hub
from simulation.hub.samples import REPOSITORY, SHARDS, actions, make_repository, same_files
from simulation.task import Task, wait_until

Start = Callable[..., Task]
StartClient = Callable[..., subprocess.Popen[str]]
NOWHERE = "http://127.0.0.1:9"


def ended(client: subprocess.Popen[str]) -> int:
    client.communicate(timeout=60)
    return client.returncode


def gets(hub: Hub) -> dict[str, int]:
    return {shard: len(hub.log.records(file=shard, method="GET")) for shard in SHARDS}


def test_two_at_once(start: Start, start_client: StartClient, hub: Hub, folder: Path, tmp_path: Path) -> None:
    """Both have asked for the headers before one has a file, and a file takes a moment: any real Hub is like that."""
    hub.fault("*", methods=("HEAD",), delay_s=1.5, times=-1)
    hub.rate = 1_000_000
    plain = tmp_path / "plain"
    clients = [start_client("download", REPOSITORY, "--local-dir", str(plain)) for _number in range(2)]
    finished: set[Path] = set()
    vanished: set[Path] = set()
    while any(client.poll() is None for client in clients):
        there = set(plain.glob("*.safetensors"))
        finished |= there
        vanished |= finished - there
        time.sleep(0.002)
    assert max(gets(hub).values()) == 2
    assert vanished

    hub.log.clear()
    tasks = [start(held=["huggingface_hub.hf_api"]) for _number in range(2)]
    Task.go(tasks)
    assert not any(task.result().get("failed") for task in tasks)
    assert gets(hub) == dict.fromkeys(SHARDS, 1)


def killed_and_repeated(hub: Hub, folder: Path, place: Path, run: Callable[[], subprocess.Popen[str]]) -> list[int]:
    """Kill the run at half, repeat it; -> [bytes sent more than once, requests of the repetition without a range]."""
    total = sum((folder / shard).stat().st_size for shard in SHARDS)
    hub.log.clear()
    hub.rate = 8_000_000
    process = run()
    wait_until(lambda: on_disk(place) > total // 2)
    process.kill()
    process.communicate()
    time.sleep(0.3)  # the Hub notices it with the next chunk
    sent = sum(record.bytes_sent for record in hub.log.records(file="*.safetensors"))
    hub.log.clear()
    hub.rate = None
    run().communicate(timeout=60)
    assert same_files(folder, place)
    repeated = hub.log.records(file="*.safetensors", method="GET")
    sent += sum(record.bytes_sent for record in repeated)
    return [sent - total, len([record for record in repeated if not record.range])]


def test_kill_9_in_the_middle(start: Start, start_client: StartClient, hub: Hub, dest: Path, tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "big", 12_000_000)
    hub.add_repository(REPOSITORY, folder)
    total = sum((folder / shard).stat().st_size for shard in SHARDS)
    plain = tmp_path / "plain"
    again, from_zero = killed_and_repeated(
        hub, folder, plain, lambda: start_client("download", REPOSITORY, "--local-dir", str(plain))
    )
    assert (again > total // 2, from_zero) == (True, len(SHARDS))
    again, from_zero = killed_and_repeated(hub, folder, dest, lambda: start().process)
    assert (again <= total // 100 + len(SHARDS) * BUFFER_BYTES, from_zero) == (True, 0)
    orphans = list(plain.rglob("*.incomplete"))
    assert len(orphans) == len(SHARDS)
    cleared = start(dest=str(plain)).result()["cleared_orphans"]
    assert sorted(entry["path"] for entry in cleared) == sorted(str(path.relative_to(plain)) for path in orphans)


def on_disk(place: Path) -> int:
    sizes = 0
    for path in [*place.rglob("*.incomplete"), *place.rglob("*.part"), *place.glob("*.safetensors")]:
        try:
            sizes += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return sizes


def test_a_truncated_file_with_its_old_time(
    start: Start, start_client: StartClient, hub: Hub, folder: Path, dest: Path
) -> None:
    """As rsync -t, cp -p or a file system after a crash leave it."""
    download = ["download", REPOSITORY, "--local-dir", str(dest)]
    assert ended(start_client(*download)) == 0
    before = (dest / SHARDS[0]).stat()
    os.truncate(dest / SHARDS[0], 1000)
    os.utime(dest / SHARDS[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    hub.log.clear()
    assert ended(start_client(*download)) == 0
    assert (dest / SHARDS[0]).stat().st_size == 1000
    result = start().result()
    assert actions(result)[SHARDS[0]] == "repaired"
    assert same_files(folder, dest)
    before = (dest / SHARDS[0]).stat()
    os.truncate(dest / SHARDS[0], 1000)
    os.utime(dest / SHARDS[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert actions(start().result())[SHARDS[0]] == "repaired"
    assert same_files(folder, dest)


def test_a_hub_that_cannot_be_reached_and_a_folder_that_is_not_empty(
    start: Start, start_client: StartClient, dest: Path
) -> None:
    dest.mkdir()
    (dest / "config.json").write_text("{}")
    assert ended(start_client("download", REPOSITORY, "--local-dir", str(dest), HF_ENDPOINT=NOWHERE)) == 0
    assert sorted(path.name for path in dest.iterdir() if path.is_file()) == ["config.json"]
    result = start(endpoint=NOWHERE, timeout=2).result()
    assert result["failed"]
    assert "cannot be reached" in result["msg"]


def test_a_hub_that_answers_503_and_a_folder_that_is_not_empty(
    start: Start, start_client: StartClient, hub: Hub, dest: Path
) -> None:
    dest.mkdir()
    (dest / "config.json").write_text("{}")
    hub.fault("/api/*", status=503, times=-1)
    assert ended(start_client("download", REPOSITORY, "--local-dir", str(dest))) == 0
    assert not list(dest.glob("*.safetensors"))
    assert "not able to answer" in start(timeout=2).result()["msg"]


def test_a_byte_that_flips_on_the_wire(
    start: Start, start_client: StartClient, hub: Hub, folder: Path, dest: Path, tmp_path: Path
) -> None:
    hub.fault(SHARDS[0], corrupt=300_000, times=2)
    plain = tmp_path / "plain"
    assert ended(start_client("download", REPOSITORY, "--local-dir", str(plain))) == 0
    assert (plain / SHARDS[0]).stat().st_size == (folder / SHARDS[0]).stat().st_size
    assert not same_files(folder, plain)
    assert start().result()["changed"]
    assert same_files(folder, dest)
    assert actions(start(dest=str(plain)).result())[SHARDS[0]] == "repaired"
    assert same_files(folder, plain)


def test_a_missing_shard_and_the_client_s_own_verification(
    start: Start, start_client: StartClient, hub: Hub, folder: Path, dest: Path
) -> None:
    commit = start().result()["commit"]
    (dest / SHARDS[0]).unlink()
    verify = start_client("cache", "verify", REPOSITORY, "--local-dir", str(dest), "--revision", commit)
    assert ended(verify) == 0
    result = start(offline=True).result()
    assert result["failed"]
    assert re.search(rf"files are missing or damaged.*{SHARDS[0]}", result["msg"])
    assert result["shards"]["missing"] == [SHARDS[0]]
