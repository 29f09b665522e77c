# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault of a Hub against the module as a process, with its real pauses, behind a content network of its own.

tests/unit shows each fault and its limits one by one; here they come together, and the whole result is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulation.hub import Hub
from simulation.hub.samples import REPOSITORY, SHARDS, actions, make_repository, same_files
from simulation.task import Task, wait_until

Start = Callable[..., Task]
TOKEN = "hf_right"
# What happens to the requests for each shard, one after the other; the request after them is answered as it should be.
FAULTS: dict[str, list[dict[str, Any]]] = {
    "drop": [{"drop_after": 300_000}],
    "stall": [{"stall_after": 300_000}],
    "short body": [{"short": 1000}],
    "flipped byte": [{"corrupt": 400_000}],
    "416": [{"drop_after": 300_000}, {"status": 416}],
    "429": [{"status": 429, "headers": {"Retry-After": "1"}}],
    "429 of a window": [{"status": 429, "headers": {"RateLimit": '"api";r=0;t=0'}}],
    "500": [{"status": 500}],
    "503": [{"status": 503}],
    "expired address": [{"drop_after": 300_000}, {"status": 403}],
    "slow, not stalled": [{"rate": 400_000, "drop_after": 500_000}],
    "ignored range": [{"drop_after": 300_000}, {"ignore_range": True, "drop_after": 400_000}],
}


@pytest.fixture
def hub(folder: Path) -> Iterator[Hub]:
    """Private, its weights on another origin, its tree in pages of three."""
    with Hub(page_size=3, cdn=True) as hub:
        hub.add_repository(REPOSITORY, folder, tokens=[TOKEN])
        yield hub


def check_tokens(hub: Hub) -> None:
    """The token went to the Hub with every request, and to the content network with none."""
    assert all(record.authorization for record in hub.log.records(origin="hub", file="*"))
    cdn = hub.log.records(origin="cdn")
    assert cdn
    assert not any(record.authorization for record in cdn)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_passing_fault_on_every_shard(start: Start, hub: Hub, folder: Path, dest: Path, fault: str) -> None:
    for shard in SHARDS:
        for one in FAULTS[fault]:
            hub.fault(shard, origin="cdn", **one)
    result = start(token=TOKEN, stall_timeout=1).result()
    assert not result.get("failed"), result["msg"]
    assert same_files(folder, dest)
    assert result["shards"] == {"expected": 3, "present": 3, "missing": [], "corrupt": []}
    answered = {shard: len(hub.log.records(file=shard, origin="cdn")) for shard in SHARDS}
    assert answered == dict.fromkeys(SHARDS, len(FAULTS[fault]) + 1)
    assert result["rate_limited"] == (3 if fault.startswith("429") else 0)
    assert not list((dest / ".cache/huggingface/blackwell.serving/parts").iterdir())
    check_tokens(hub)
    assert TOKEN not in str(result)
    again = start(token=TOKEN, verify="full").result()
    assert not again["changed"]


def test_all_faults_one_after_the_other(start: Start, hub: Hub, folder: Path, dest: Path) -> None:
    for shard in SHARDS:
        for name in ("503", "drop", "stall", "429", "expired address", "slow, not stalled", "ignored range"):
            for one in FAULTS[name]:
                hub.fault(shard, origin="cdn", **one)
    hub.fault("/api/models/*", status=503, times=2)
    hub.fault("/api/models/*/tree/*", status=429, headers={"Retry-After": "1"})
    result = start(token=TOKEN, stall_timeout=1).result()
    assert not result.get("failed"), result["msg"]
    assert same_files(folder, dest)
    check_tokens(hub)


def test_wrong_bytes_for_good_name_the_shard_and_keep_the_others(
    start: Start, hub: Hub, folder: Path, dest: Path
) -> None:
    hub.fault(SHARDS[1], origin="cdn", corrupt=400_000, times=-1)
    result = start(token=TOKEN).result()
    assert result["failed"]
    assert SHARDS[1] in result["msg"]
    assert result["shards"] == {"expected": 3, "present": 2, "missing": [], "corrupt": [SHARDS[1]]}
    assert len(hub.log.records(file=SHARDS[1], origin="cdn")) == 2
    assert not (dest / SHARDS[1]).exists()
    hub.faults.clear()
    hub.log.clear()
    assert start(token=TOKEN).result()["changed"]
    assert {record.file for record in hub.log.records(file="*")} == {SHARDS[1]}


@pytest.mark.parametrize("token", [None, "hf_wrong"])
def test_a_gated_repository_fails_at_once_with_the_remedy(
    start: Start, hub: Hub, folder: Path, dest: Path, token: str | None
) -> None:
    hub.add_repository(REPOSITORY, folder, tokens=[TOKEN], gated="auto")
    result = start(token=token).result()
    assert result["failed"]
    assert f"{hub.endpoint}/{REPOSITORY}" in result["msg"]
    assert ("Accept its terms" if token is None else "Ask for access") in result["msg"]
    assert not hub.log.records(origin="cdn")


def test_a_branch_that_moves_while_a_run_is_killed_and_continued(
    start: Start, hub: Hub, folder: Path, dest: Path, tmp_path: Path
) -> None:
    """One commit only: the second run stays at the first one's commit, and update takes the new one as a whole."""
    hub.rate = 600_000
    task = start(token=TOKEN)
    wait_until(lambda: bool(hub.log.records(origin="hub", file=SHARDS[0])))
    other = make_repository(tmp_path / "other", 500_000)
    (other / "config.json").write_text('{"model_type": "other"}')
    commit = hub.push(REPOSITORY, other)
    task.kill()
    hub.rate = None
    result = start(token=TOKEN).result()
    assert same_files(folder, dest)
    assert result["commit"] != commit
    assert any(f"main has moved to {commit}" in note for note in result["notes"])
    updated = start(token=TOKEN, update=True).result()
    assert updated["commit"] == commit
    assert same_files(other, dest)


def test_pointers_and_rot_on_disk_are_repaired(start: Start, hub: Hub, folder: Path, dest: Path) -> None:
    """What a `git clone` without LFS leaves, and a flipped byte; neither costs the third shard a transfer."""
    dest.mkdir()
    for shard in SHARDS:
        (dest / shard).write_bytes((folder / shard).read_bytes())
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'1' * 64}\nsize 600000\n"
    (dest / SHARDS[0]).write_text(pointer)
    with (dest / SHARDS[1]).open("r+b") as stream:
        stream.seek(300_000)
        byte = stream.read(1)
        stream.seek(300_000)
        stream.write(bytes([byte[0] ^ 1]))
    result = start(token=TOKEN).result()
    assert {shard: actions(result)[shard] for shard in SHARDS} == {
        SHARDS[0]: "repaired",
        SHARDS[1]: "repaired",
        SHARDS[2]: "adopted",
    }
    assert "pointer" in next(file["reason"] for file in result["files"] if file["path"] == SHARDS[0])
    assert not hub.log.records(file=SHARDS[2])
    assert same_files(folder, dest)
