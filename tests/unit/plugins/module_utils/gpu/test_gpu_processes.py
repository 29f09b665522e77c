# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes as /proc tells them, real and invented."""

from __future__ import annotations

import getpass
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import ProcessTable, without_secrets
from simulation.cards.proc import FakeProc, unit_line


def test_a_real_process() -> None:
    child = subprocess.Popen(["VLLM::Worker_TP0", "30"], executable="/bin/sleep")
    try:
        process = ProcessTable().read(child.pid)
        assert process is not None
        assert process.title == "VLLM::Worker_TP0" and process.command == "VLLM::Worker_TP0 30"
        assert process.executable == os.path.realpath("/bin/sleep")
        assert (process.user, process.parent) == (getpass.getuser(), os.getpid())
        assert process.start_time == ProcessTable().start_time(child.pid)
        assert process.unknown == {}
    finally:
        child.kill()
        child.wait()
    assert ProcessTable().read(child.pid) is None


def test_a_zombie_has_ended_unless_a_thread_goes_on(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.add(10, state="Z")
    proc.add(11, state="Z", threads=2)
    table = ProcessTable(tmp_path)
    assert table.read(10) is None and table.start_time(10) is None
    assert table.start_time(11) == 100


def test_a_name_with_spaces_and_parentheses(tmp_path: Path) -> None:
    FakeProc(tmp_path).add(10, start_time=77)
    stat = tmp_path / "10" / "stat"
    stat.write_text(stat.read_text().replace("(python3)", "(a) b (c)"))
    assert ProcessTable(tmp_path).start_time(10) == 77


def test_ancestors_reach_pid_1(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.add(10)
    proc.add(11, parent=10)
    assert ProcessTable(tmp_path).ancestors(11) == {1, 10, 11}
    assert {1, os.getpid(), os.getppid()} <= ProcessTable().ancestors(os.getpid())


def test_a_mapped_file_tells_the_virtual_environment(tmp_path: Path) -> None:
    venv, link = tmp_path / "vllm-0.32", tmp_path / "current"
    venv.mkdir()
    (venv / "_C.so").write_bytes(b"x" * mmap.PAGESIZE)
    link.symlink_to(venv)
    code = (
        f"import mmap,time;f=open({str(venv / '_C.so')!r},'rb');m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ);"
        "print('ready',flush=True);time.sleep(30)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        table = ProcessTable()
        assert table.maps_file_below(child.pid, str(venv)) is True
        assert table.maps_file_below(child.pid, str(link)) is True
        assert table.maps_file_below(child.pid, str(tmp_path / "vllm")) is False
        assert table.maps_file_below(10**8, str(venv)) is None
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("vllm serve m --api-key one two --port 8000", "vllm serve m --api-key ******** ******** --port 8000"),
        ("env HF_TOKEN=abc vllm serve --hf-token=abc", "env HF_TOKEN=******** vllm serve --hf-token=********"),
        ("vllm serve --tokenizer t --max-num-batched-tokens 5", "vllm serve --tokenizer t --max-num-batched-tokens 5"),
        ("x hf_abcdefghijklmnopqrst y", "x ******** y"),
        ("VLLM::Worker_TP0", "VLLM::Worker_TP0"),
    ],
)
def test_no_secret_is_shown(command: str, shown: str) -> None:
    assert without_secrets(command) == shown


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_without_root_the_reason_is_told(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[4]
    code = (
        f"import os,sys;sys.path.insert(0,{str(root)!r});import conftest;"
        "from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import ProcessTable;"
        "os.setgid(65534);os.setuid(65534);"
        f"p=ProcessTable().read({os.getpid()});print(p.executable, p.unknown.get('executable'), p.user)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["None", "permission", getpass.getuser()]


def test_the_thread_that_hangs_is_told(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.add(10, state="Z", threads=2)
    task = FakeProc(tmp_path / "10" / "task")
    task.add(12, state="D", waits_in="uvm_spin_loop")
    assert ProcessTable(tmp_path).stuck_in(10) == ("D", "uvm_spin_loop")
    assert ProcessTable(tmp_path).stuck_in(99) == (None, None)


def test_the_unit_below_the_managers_root(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.add(10, cgroup=unit_line("vllm.service"))
    process = ProcessTable(tmp_path).read(10)
    assert process is not None and process.unit == "vllm.service" and process.user == "990"
