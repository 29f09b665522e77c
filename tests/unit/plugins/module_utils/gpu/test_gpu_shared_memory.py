# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Segments of /dev/shm are removed only when they are ours and nobody has them."""

from __future__ import annotations

import mmap
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import ProcessTable
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.shared_memory import (
    KNOWN,
    sweep,
    uids_of,
    users_of_files,
)
from simulation.cards.proc import FakeProc, map_line

ME = str(os.getuid())
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


def make(folder: Path, name: str, size: int, uid: int | None = None) -> Path:
    path = folder / name
    with path.open("wb") as stream:
        stream.truncate(size)
    if uid is not None:
        os.chown(path, uid, uid)
    return path


@ROOT_ONLY
@pytest.mark.parametrize("remove", [True, False])
def test_the_left_overs_of_one_user(tmp_path: Path, remove: bool) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    ours = {"nccl-Ab3x9Q": 33554432, "psm_1f2e3d4c": 1048576, "sem.mp-9zk1": 32, "vllm_offload_1b-c9.mmap": 8 * 10**9}
    for name, size in ours.items():
        make(shm, name, size, 990)
    make(shm, "nccl-OtherJob", 33554432, 1001)
    live = make(shm, "psm_11fe", 1048576, 990)
    opened = make(shm, "psm_0fe2", 1048576, 990)
    make(shm, "pulse-shm-123", 67108864, 1000)
    (shm / "nccl-folder").mkdir()
    (shm / "psm_abc").symlink_to("/etc/passwd")
    proc = FakeProc(tmp_path / "proc")
    proc.add(4300, maps=map_line(live))
    proc.add(4301, files=(opened,))
    removed, left = sweep(shm, ProcessTable(tmp_path / "proc"), ["990"], remove=remove)
    assert {segment["name"]: segment["bytes"] for segment in removed} == ours
    assert {segment["name"]: (segment["reason"], segment["pids"]) for segment in left} == {
        "nccl-OtherJob": ("other_owner", []),
        "psm_11fe": ("in_use", [4300]),
        "psm_0fe2": ("in_use", [4301]),
        "pulse-shm-123": ("unknown_pattern", []),
        "nccl-folder": ("unknown_pattern", []),
        "psm_abc": ("unknown_pattern", []),
    }
    assert {path.name for path in shm.iterdir()} >= {segment["name"] for segment in left}
    assert all((shm / name).exists() != remove for name in ours)
    if remove:
        assert sweep(shm, ProcessTable(tmp_path / "proc"), ["990"], remove=True)[0] == []
    assert sweep(shm, ProcessTable(tmp_path / "proc"), ["990"], ended=[4300], remove=False)[1][2:3] != []


def test_the_processes_that_will_have_ended_do_not_count(tmp_path: Path) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    segment = make(shm, "psm_1f", 10)
    FakeProc(tmp_path / "proc").add(4300, maps=map_line(segment))
    table = ProcessTable(tmp_path / "proc")
    assert sweep(shm, table, [ME], remove=False)[1][0]["reason"] == "in_use"
    assert [found["name"] for found in sweep(shm, table, [ME], ended=[4300], remove=False)[0]] == ["psm_1f"]


def test_no_user_means_nothing_is_removed(tmp_path: Path) -> None:
    make(tmp_path, "psm_1f", 10)
    assert sweep(tmp_path, ProcessTable(), [], remove=True)[1][0]["reason"] == "other_owner"
    assert (tmp_path / "psm_1f").exists()


def test_a_host_without_the_folder(tmp_path: Path) -> None:
    assert sweep(tmp_path / "shm", ProcessTable(), [ME], remove=True) == ([], [])


def test_users_by_name_and_number() -> None:
    me = pwd.getpwuid(os.getuid())
    assert uids_of([me.pw_name, "4242", "no-such-user-here"]) == {me.pw_uid, 4242}


@pytest.mark.parametrize("name", ["psm_live!", "sem.other", "nccl", "vllm_offload", "psm_", "x-psm_1f", "nccl-a/b"])
def test_names_that_only_look_like_ours(name: str) -> None:
    assert KNOWN.fullmatch(name) is None


@pytest.fixture
def real_shm() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_real_mapping_whose_file_is_closed(real_shm: Path) -> None:
    segment = make(real_shm, "psm_1f2e", mmap.PAGESIZE)
    code = (
        f"import mmap,time;f=open({str(segment)!r},'r+b');m=mmap.mmap(f.fileno(),0);f.close();"
        "print('ready',flush=True);time.sleep(30)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        removed, left = sweep(real_shm, ProcessTable(), [ME], remove=True)
        assert removed == [] and left[0]["reason"] == "in_use" and left[0]["pids"] == [child.pid]
    finally:
        child.kill()
        child.communicate()
    unreadable = users_of_files(ProcessTable(), real_shm.stat().st_dev)[1]
    removed, left = sweep(real_shm, ProcessTable(), [ME], remove=True)
    if unreadable:  # without root, and where pid 1 is closed even to root
        assert removed == [] and left[0]["reason"] == "cannot_prove_unused" and segment.exists()
    else:
        assert [found["name"] for found in removed] == ["psm_1f2e"] and left == [] and not segment.exists()
