# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A transfer under every fault that a network or a Hub has: it ends right, or it says what is wrong."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub import part as part_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub.answers import HubUnavailable
from ansible_collections.blackwell.serving.plugins.module_utils.hub.transfer import Throttle, WrongBytes
from simulation.hub import Hub, Snapshot
from simulation.hub.faults import Record
from simulation.hub.samples import REPOSITORY, SHARDS, actions, same_files

pytestmark = pytest.mark.slow

Fetch = Callable[..., dict[str, Any]]
SHARD = SHARDS[0]


def gets(hub: Hub, file: str = SHARD) -> list[Record]:
    return hub.log.records(file=file, method="GET")


def part_of(dest: Path, folder: Path, name: str = SHARD) -> Path:
    sha256 = Snapshot.of(folder).entries[name].sha256
    part = dest / ".cache/huggingface/blackwell.serving/parts" / f"{sha256}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    return part


@pytest.mark.parametrize(
    "fault",
    [
        {"drop_after": 300_000},
        {"drop_after": 0},
        {"stall_after": 300_000},
        {"corrupt": 400_000},
        {"short": 1000},
        {"status": 500},
        {"status": 503, "times": 3},
        {"status": 429, "headers": {"Retry-After": "0"}, "times": 2},
        {"delay_s": 0.6},
    ],
    ids=lambda fault: next(iter(fault)),
)
def test_a_passing_fault_is_got_over(fetch: Fetch, hub: Hub, folder: Path, dest: Path, fault: dict[str, Any]) -> None:
    hub.fault(SHARD, **fault)
    silent = "stall_after" in fault or "delay_s" in fault
    result = fetch(stall_s=0.3 if silent else 10.0)
    assert same_files(folder, dest)
    assert len(gets(hub)) == 1 + fault.get("times", 1) or (silent and len(gets(hub)) > 2)
    assert [len(gets(hub, other)) for other in SHARDS[1:]] == [1, 1]
    assert result["rate_limited"] == (2 if fault.get("status") == 429 else 0)


def test_a_dropped_body_is_continued_where_it_broke(fetch: Fetch, hub: Hub, folder: Path) -> None:
    hub.fault(SHARD, drop_after=100_000, times=3)
    fetch(attempts=2)
    assert [record.range for record in gets(hub)] == [None, "bytes=100000-", "bytes=200000-", "bytes=300000-"]
    assert sum(record.bytes_sent for record in gets(hub)) == (folder / SHARD).stat().st_size


@pytest.mark.parametrize("cut", [1, 250_000])
def test_a_part_of_an_earlier_run_is_continued(fetch: Fetch, hub: Hub, folder: Path, dest: Path, cut: int) -> None:
    data = (folder / SHARD).read_bytes()
    part_of(dest, folder).write_bytes(data[:cut])
    predicted = fetch(check_mode=True)
    hub.log.clear()
    result = fetch()
    assert actions(result)[SHARD] == actions(predicted)[SHARD] == "resumed"
    assert result["bytes"] == {**predicted["bytes"], "on_disk": result["bytes"]["total"]}
    assert result["bytes"]["resumed"] == cut
    (request,) = gets(hub)
    assert (request.range, request.bytes_sent) == (f"bytes={cut}-", len(data) - cut)
    assert same_files(folder, dest)


def test_a_whole_part_needs_its_name_only(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    part_of(dest, folder).write_bytes((folder / SHARD).read_bytes())
    fetch()
    assert not gets(hub)
    assert same_files(folder, dest)


def test_a_part_with_other_bytes_is_no_wire_fault(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    part_of(dest, folder).write_bytes(b"\0" * 100_000)
    hub.fault(SHARD, corrupt=500_000, times=2)
    fetch()
    assert [record.range for record in gets(hub)] == ["bytes=100000-", None, None]
    assert same_files(folder, dest)


def test_a_part_that_is_too_long_starts_again(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    part_of(dest, folder).write_bytes((folder / SHARD).read_bytes() + b"more")
    fetch()
    assert [record.range for record in gets(hub)] == [None]
    assert same_files(folder, dest)


def test_416_discards_the_part_exactly_once(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    part_of(dest, folder).write_bytes((folder / SHARD).read_bytes()[:1000])
    hub.fault(SHARD, status=416)
    fetch()
    assert [record.range for record in gets(hub)] == ["bytes=1000-", None]
    assert same_files(folder, dest)
    (dest / SHARD).unlink()
    hub.log.clear()
    hub.fault(SHARD, status=416, times=-1)
    with pytest.raises(ServingError, match="refuses the request"):
        fetch()
    assert len(gets(hub)) == 2


def test_a_server_that_ignores_ranges(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    part_of(dest, folder).write_bytes((folder / SHARD).read_bytes()[:1000])
    hub.fault(SHARD, ignore_range=True)
    fetch()
    assert [record.status for record in gets(hub)] == [200]
    assert same_files(folder, dest)


def test_wrong_bytes_twice_name_the_shard_and_keep_the_good_ones(fetch: Fetch, hub: Hub, dest: Path) -> None:
    hub.fault(SHARDS[1], corrupt=5, times=-1)
    with pytest.raises(WrongBytes, match=f"arrived twice with other bytes.*{SHARDS[1]}") as caught:
        fetch()
    assert caught.value.facts["shards"] == {"expected": 3, "present": 2, "missing": [], "corrupt": [SHARDS[1]]}
    assert len(gets(hub, SHARDS[1])) == 2
    assert not (dest / SHARDS[1]).exists()
    hub.faults.clear()
    hub.log.clear()
    assert actions(fetch())[SHARDS[1]] == "downloaded"
    assert len(hub.log.records(file="*")) == 1


def test_a_body_that_is_always_too_short(fetch: Fetch, hub: Hub, folder: Path) -> None:
    hub.fault(SHARD, short=1, times=-1)
    size = (folder / SHARD).stat().st_size
    with pytest.raises(HubUnavailable, match=f"lists {size} bytes and sends {size - 1}"):
        fetch(attempts=2)


def test_lasting_trouble_ends_all_transfers_and_keeps_what_has_come(
    fetch: Fetch, hub: Hub, folder: Path, dest: Path
) -> None:
    hub.fault(SHARDS[2], status=500, times=-1)
    with pytest.raises(HubUnavailable, match="HTTP 500") as caught:
        fetch(attempts=2)
    assert caught.value.facts["file"] == SHARDS[2]
    hub.faults.clear()
    hub.log.clear()
    fetch()
    again = {record.file for record in hub.log.records(file="*")}
    assert SHARDS[2] in again
    assert again <= set(SHARDS)
    assert same_files(folder, dest)


@pytest.mark.parametrize(("token", "message"), [(None, "no token was given"), ("wrong", "has no access")])
def test_a_gated_repository_fails_at_once(
    fetch: Fetch, hub: Hub, folder: Path, token: str | None, message: str
) -> None:
    hub.add_repository(REPOSITORY, folder, tokens=["right"], gated="auto")
    with pytest.raises(ServingError, match=f"gated.*{message}"):
        fetch(token=token)
    assert len({record.file for record in hub.log.records(file="*")}) == len(hub.log.records(file="*"))


def test_the_content_network_gets_ranges_and_no_token(folder: Path, fetch: Fetch, hub: Hub, dest: Path) -> None:
    with Hub(cdn=True) as other:
        other.add_repository(REPOSITORY, folder, tokens=["right"])
        other.fault(SHARD, origin="cdn", drop_after=200_000)
        other.fault(SHARD, origin="cdn", status=403)
        hub.endpoint, endpoint = other.endpoint, hub.endpoint
        fetch(token="right")
        hub.endpoint = endpoint
        from_cdn = other.log.records(origin="cdn", file=SHARD)
        from_hub = other.log.records(origin="hub")
    assert same_files(folder, dest)
    assert [record.range for record in from_cdn] == [None, "bytes=200000-", "bytes=200000-"]
    assert not any(record.authorization for record in from_cdn)
    assert all(record.authorization for record in from_hub)


def test_a_content_network_that_cannot_be_reached_is_named(fetch: Fetch, hub: Hub) -> None:
    hub.fault(SHARDS[0], times=-1, status=302, headers={"Location": "http://localhost:1/x?signature=secret"})
    with pytest.raises(ServingError, match=r"localhost, to which the Hub redirects: .*refused") as caught:
        fetch()
    assert "secret" not in str(caught.value)


def test_check_mode_finds_out_whether_files_are_given(fetch: Fetch, hub: Hub, dest: Path) -> None:
    assert fetch(check_mode=True)["changed"]
    (asked,) = [record for record in hub.log.records() if record.file]
    assert (asked.file, asked.range, asked.bytes_sent) == (SHARDS[2], "bytes=0-0", 1)
    hub.fault(SHARDS[2], times=-1, status=403, headers={"X-Error-Code": "GatedRepo"})
    with pytest.raises(ServingError, match="gated and no token was given"):
        fetch(check_mode=True)
    hub.faults.clear()
    hub.fault(SHARDS[2], times=-1, status=302, headers={"Location": "http://localhost:1/x"})
    with pytest.raises(ServingError, match="localhost, to which the Hub redirects"):
        fetch(check_mode=True)
    assert not dest.exists()
    hub.faults.clear()
    fetch()
    hub.log.clear()
    fetch(check_mode=True)
    assert not [record for record in hub.log.records() if record.file]


def test_the_time_limit_ends_the_run_and_the_next_one_goes_on(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    hub.rate = 400_000
    with pytest.raises(HubUnavailable, match="time limit is over"):
        fetch(deadline=time.monotonic() + 0.5)
    had = part_of(dest, folder).stat().st_size
    assert had > 0
    hub.rate = None
    assert fetch()["bytes"]["resumed"] >= had
    assert same_files(folder, dest)


def test_a_full_disk_is_named_and_what_has_come_is_kept(
    fetch: Fetch, folder: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = part_module.Part.append

    def full(part: part_module.Part, data: memoryview) -> None:
        if part.offset > 200_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(part, data)

    monkeypatch.setattr(part_module.Part, "append", full)
    with pytest.raises(ServingError, match=r"cannot be written.*No space left"):
        fetch()
    monkeypatch.undo()
    assert fetch()["bytes"]["resumed"] > 200_000
    assert same_files(folder, dest)


def test_the_rate_is_that_of_all_threads_together() -> None:
    throttle = Throttle(1_000_000, threading.Event())
    start = time.monotonic()
    threads = [threading.Thread(target=throttle.pass_on, args=(50_000,)) for _number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.28 < time.monotonic() - start < 1.0
    Throttle(0, threading.Event()).pass_on(10**15)


def test_a_limited_download_is_right(fetch: Fetch, folder: Path, dest: Path) -> None:
    result = fetch(rate_limit_bytes_per_s=4_000_000)
    assert same_files(folder, dest)
    assert result["throughput_bytes_per_s"] < 5_000_000
