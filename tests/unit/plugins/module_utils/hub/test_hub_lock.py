# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer: the lock ends with its holder, names it, and other clients count."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub import claim as claim_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub import filesystem as filesystem_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub import lock as lock_module
from ansible_collections.blackwell.serving.plugins.module_utils.hub.filesystem import is_shared, type_of
from ansible_collections.blackwell.serving.plugins.module_utils.hub.lock import (
    WriterLock,
    active_writer,
    other_clients,
)
from ansible_collections.blackwell.serving.plugins.module_utils.hub.processes import (
    is_open,
    is_open_for_writing,
    process,
)
from simulation.hub import Hub
from simulation.hub.samples import SHARDS, same_files

Fetch = Callable[..., dict[str, Any]]
HOLDER = """
import fcntl, sys, time
stream = open(sys.argv[1], "a+")
if sys.argv[2] == "flock":
    fcntl.flock(stream, fcntl.LOCK_EX)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    dest = tmp_path / "dest"
    (dest / ".cache/huggingface/blackwell.serving/parts").mkdir(parents=True)
    (dest / ".cache/huggingface/download").mkdir()
    return dest


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """hold(path, "flock") -> a process that has the file open, and locked, until it ends."""
    monkeypatch.setattr(lock_module, "POLL_S", 0.01)
    processes = []

    def start(path: Path, how: str = "open") -> subprocess.Popen[str]:
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path), how], stdout=subprocess.PIPE, text=True)
        processes.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        return holder

    yield start
    for holder in processes:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()


def lock(dest: Path, *, wait: bool = False, timeout: float = 0) -> WriterLock:
    return WriterLock(dest, wait=wait, timeout=timeout, check=lambda: None)


def test_the_second_writer_fails_and_names_the_first(dest: Path) -> None:
    with lock(dest) as first:
        with pytest.raises(ServingError, match=rf"active.*pid {os.getpid()} on .* since 20\d\d-"), lock(dest):
            pass
        first.announce()
        with pytest.raises(ServingError, match=rf"pid {os.getpid()} on .* since 20\d\d-"), lock(dest):
            pass
        assert active_writer(dest) is not None
    assert active_writer(dest) is None
    with lock(dest):
        pass


def test_a_waiting_writer_goes_on_when_the_first_ends_and_says_so(
    dest: Path, hold: Callable[..., subprocess.Popen[str]]
) -> None:
    path = dest / ".cache/huggingface/blackwell.serving/lock"
    holder = hold(path, "flock")
    threading.Timer(0.2, holder.send_signal, [signal.SIGKILL]).start()
    with lock(dest, wait=True, timeout=10) as second:
        assert second.note is not None
        assert f"pid {holder.pid}" in second.note


def test_waiting_ends_in_time(dest: Path, hold: Callable[..., subprocess.Popen[str]]) -> None:
    hold(dest / ".cache/huggingface/blackwell.serving/lock", "flock")
    with pytest.raises(ServingError, match="waited"), lock(dest, wait=True, timeout=0.1):
        pass


def test_a_killed_writer_leaves_its_name_and_no_lock(dest: Path) -> None:
    stale = '{"pid": 999999, "host": "gone", "since": "2026-01-01T00:00:00+00:00"}'
    (dest / ".cache/huggingface/blackwell.serving/lock").write_text(stale)
    assert active_writer(dest) is None
    with lock(dest), pytest.raises(ServingError, match=f"pid {os.getpid()} on"), lock(dest):
        pass


def test_a_run_without_a_change_does_not_touch_the_lock_file(dest: Path) -> None:
    with lock(dest):
        pass
    path = dest / ".cache/huggingface/blackwell.serving/lock"
    before = path.stat()
    with lock(dest):
        pass
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_lock_file_that_was_replaced_meanwhile_is_not_trusted(dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dest / ".cache/huggingface/blackwell.serving/lock"
    flock, calls = fcntl.flock, []

    def replaced_once(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        calls.append(operation)
        if len(calls) == 1:
            path.unlink()

    monkeypatch.setattr(fcntl, "flock", replaced_once)
    with lock(dest, wait=True), pytest.raises(ServingError), lock(dest):
        pass
    assert len(calls) == 2


def test_a_file_system_without_locks_is_refused(dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(ServingError, match="has no locks"), lock(dest):
        pass


def test_other_clients_count_and_their_leftovers_do_not(dest: Path, hold: Callable[..., subprocess.Popen[str]]) -> None:
    download = dest / ".cache/huggingface/download"
    (download / "model-00007.safetensors.lock").touch()
    (download / "a.af6f.incomplete").touch()
    assert other_clients(dest) == []
    holder = hold(download / "model-00008.safetensors.lock", "flock")
    hold(download / "b.30be.incomplete")
    locked, written = sorted(other_clients(dest), reverse=True)
    assert locked == f"pid {holder.pid} holds model-00008.safetensors.lock"
    assert written == "a process writes b.30be.incomplete"
    with pytest.raises(ServingError, match=f"pid {holder.pid} holds"), lock(dest):
        pass
    assert "model-00008" in str(active_writer(dest))


def test_open_for_writing_is_told_from_open_for_reading(dest: Path) -> None:
    path = dest / "file"
    assert is_open_for_writing(path) is False
    path.touch()
    assert is_open_for_writing(path) is False
    assert is_open(path) is False
    with path.open("r"):
        assert is_open_for_writing(path) is False
        assert is_open(path) is True
    with path.open("a"):
        assert is_open_for_writing(path) is True


def test_an_orphan_that_a_process_writes_is_not_cleared(
    fetch: Fetch, dest: Path, hold: Callable[..., subprocess.Popen[str]]
) -> None:
    path = dest / ".cache/huggingface/download" / "x.9442913d.incomplete"
    holder = hold(path)
    predicted = fetch(check_mode=True)
    assert predicted["cleared_orphans"] == []
    assert any("a process writes" in note for note in predicted["notes"])
    with pytest.raises(ServingError, match="a process writes"):
        fetch(wait_for_lock=False)
    assert path.exists()
    holder.kill()
    holder.wait()
    assert len(fetch()["cleared_orphans"]) == 1


def test_old_locks_that_nobody_holds_are_cleared(
    fetch: Fetch, dest: Path, hold: Callable[..., subprocess.Popen[str]]
) -> None:
    download = dest / ".cache/huggingface/download"
    for number in (7, 9):
        (download / f"model-0000{number}-of-00119.safetensors.lock").touch()
    os.utime(download / "model-00007-of-00119.safetensors.lock", (time.time() - 10_000,) * 2)
    opened = download / "x.9442913d.incomplete"
    opened.touch()
    with opened.open():
        assert [entry["path"] for entry in fetch(check_mode=True)["cleared_orphans"]] == [
            ".cache/huggingface/download/model-00007-of-00119.safetensors.lock"
        ]
        fetch()
        assert opened.exists()
    assert not (download / "model-00007-of-00119.safetensors.lock").exists()
    assert (download / "model-00009-of-00119.safetensors.lock").exists()
    holder = hold(download / "model-00008-of-00119.safetensors.lock", "flock")
    os.utime(download / "model-00008-of-00119.safetensors.lock", (time.time() - 10_000,) * 2)
    with pytest.raises(ServingError, match=f"another writer is active.*pid {holder.pid}"):
        fetch(wait_for_lock=False)
    assert (download / "model-00008-of-00119.safetensors.lock").exists()


def test_orphans_are_gone_before_space_is_measured(fetch: Fetch, dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orphan = dest / ".cache/huggingface/download" / "x.9442913d.incomplete"
    orphan.write_bytes(b"x" * 5_000_000)
    statvfs = os.statvfs

    class NoSpaceWhileItIsThere:
        def __init__(self, path: str) -> None:
            real = statvfs(path)
            self.f_frsize, self.f_files, self.f_favail, self.f_flag = 1, 0, 0, real.f_flag
            self.f_bavail = 0 if orphan.exists() else 10**9

    monkeypatch.setattr(os, "statvfs", NoSpaceWhileItIsThere)
    assert fetch()["shards"]["present"] == 3


def test_two_writers_at_once_fetch_no_file_twice(fetch: Fetch, hub: Hub, folder: Path, dest: Path) -> None:
    for shard in SHARDS:
        hub.fault(shard, delay_s=0.1)
    results: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: results.append(fetch())) for _number in range(3)]
    # The signal handler of the lease check belongs to the main thread, so the threads do not look for other clients.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock_module, "is_open_for_writing", lambda path: False)
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
    assert time.monotonic() - start < 20
    assert sorted(result["changed"] for result in results) == [False, False, True]
    assert [len(hub.log.records(file=shard, method="GET")) for shard in SHARDS] == [1, 1, 1]
    assert same_files(folder, dest)
    assert sum(any("waited" in note for note in result["notes"]) for result in results) == 2


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system of several hosts that grants every lock to everybody."""
    monkeypatch.setattr(lock_module, "is_shared", lambda path: True)
    monkeypatch.setattr(lock_module, "POLL_S", 0.01)
    monkeypatch.setattr(claim_module, "SETTLE_S", 0.1)
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, operation: None)


def owner_file(dest: Path) -> Path:
    return dest / ".cache/huggingface/blackwell.serving/owner"


def write_owner(dest: Path, **changes: object) -> None:
    owner_file(dest).write_text(json.dumps({**asdict(process(os.getpid())), "key": "theirs", **changes}))


@pytest.mark.usefixtures("no_flock")
def test_where_flock_excludes_nobody_the_claim_does(dest: Path) -> None:
    with lock(dest):
        with pytest.raises(ServingError, match=rf"pid {os.getpid()} on .* since"), lock(dest):
            pass
        assert active_writer(dest) is not None
    assert not owner_file(dest).exists()
    assert active_writer(dest) is None
    with lock(dest, wait=True, timeout=5):
        pass


@pytest.mark.usefixtures("no_flock")
@pytest.mark.parametrize("gone", [{"pid": 2**22 - 3, "started": 12345}, {"started": 12345}, {"started": None}])
def test_a_claim_of_a_process_that_is_gone_is_taken_over(dest: Path, gone: dict[str, object]) -> None:
    write_owner(dest, **gone)
    assert active_writer(dest) is None
    with lock(dest):
        assert '"key": "theirs"' not in owner_file(dest).read_text()
    assert not owner_file(dest).exists()


@pytest.mark.usefixtures("no_flock")
@pytest.mark.parametrize("content", [None, "", "{", '{"pid": 5}'])
def test_an_owner_on_another_host_is_gone_when_its_file_stands_still(
    dest: Path, content: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_module, "STALE_S", 0.3)
    write_owner(dest, host="gpu2", space="another kernel")
    if content is not None:
        owner_file(dest).write_text(content)
    start = time.monotonic()
    with lock(dest):
        assert time.monotonic() - start >= 0.3


@pytest.mark.usefixtures("no_flock")
def test_an_owner_on_another_host_that_moves_its_file_is_waited_for(
    dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_module, "STALE_S", 0.3)
    write_owner(dest, host="gpu2", space="another kernel")
    over = threading.Event()

    def beat() -> None:
        while not over.wait(0.05):
            os.utime(owner_file(dest))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        assert "on gpu2" in str(active_writer(dest))
        with pytest.raises(ServingError, match="on gpu2"), lock(dest, wait=True, timeout=1.0):
            pass
    finally:
        over.set()
        thread.join()


@pytest.mark.usefixtures("no_flock")
def test_a_claim_beats(dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "BEAT_S", 0.02)
    with lock(dest):
        before = owner_file(dest).stat().st_mtime_ns
        deadline = time.monotonic() + 5
        while owner_file(dest).stat().st_mtime_ns == before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert owner_file(dest).stat().st_mtime_ns != before


@pytest.mark.usefixtures("no_flock")
def test_of_many_that_find_a_dead_owner_one_at_a_time_goes_on(dest: Path) -> None:
    write_owner(dest, started=12345)
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        with lock(dest, wait=True, timeout=20):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.05)
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert most == [1] * 5


def test_without_any_lock_a_shared_file_system_is_still_usable(dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(lock_module, "is_shared", lambda path: True)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with lock(dest), pytest.raises(ServingError, match=f"pid {os.getpid()}"), lock(dest):
        pass


def test_types_of_file_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    (tmp_path / "my data").mkdir()
    table.write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
        f"30 22 0:5 / {tmp_path}/my\\040data rw,relatime shared:1 - nfs4 server:/x rw\n"
        "31 22 0:6 / /my rw - tmpfs tmpfs rw\n"
    )
    monkeypatch.setattr(filesystem_module, "MOUNTS", table)
    assert (type_of(tmp_path / "my data" / "x"), is_shared(tmp_path / "my data")) == ("nfs4", True)
    assert (type_of(tmp_path / "my datas"), is_shared(tmp_path)) == ("ext4", False)
