# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The old service's program: workers that outlive their front."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from simulation.host.situation import INSIDE

SHARED = Path("/dev/shm")


def title(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def front(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=60)
    (packages,) = (tmp_path / "venv/lib").glob("python3.*/site-packages")
    kernels = packages / "vllm"
    kernels.mkdir()
    (kernels / "_C.abi3.so").write_bytes(b"\x7fELF")
    (tmp_path / "config.json").write_text("{}")
    before = set(SHARED.glob("psm_*"))
    words = ["--model", str(tmp_path), "--tensor-parallel-size", "2"]
    process = subprocess.Popen([str(tmp_path / "venv/bin/python"), str(INSIDE / "serve.py"), *words])
    yield process
    for pid in workers(tmp_path):
        os.kill(int(pid), signal.SIGKILL)
    process.kill()
    process.wait(timeout=10)
    for path in set(SHARED.glob("psm_*")) - before:
        path.unlink()


def workers(folder: Path) -> list[str]:
    """Those of this test: they were told a file in its folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and title(entry.name).startswith("VLLM::Worker_TP"):
            words = (entry / "cmdline").read_bytes().decode()
            if str(folder) in words:
                found.append(entry.name)
    return found


def maps(pid: str) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def test_workers_outlive_a_stopped_front(front: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert until(lambda: len(workers(tmp_path)) == 2)
    pids = workers(tmp_path)
    assert sorted(map(title, pids)) == ["VLLM::Worker_TP0", "VLLM::Worker_TP1"]
    assert until(lambda: all("_C.abi3.so" in maps(pid) for pid in pids))
    assert until(lambda: sum("/dev/shm/psm_" in maps(pid) for pid in pids) == 1)
    front.terminate()
    assert front.wait(timeout=10) == 0
    for pid in pids:
        os.kill(int(pid), signal.SIGHUP)
    time.sleep(0.2)
    assert sorted(workers(tmp_path)) == sorted(pids)
    for pid in pids:
        os.kill(int(pid), signal.SIGTERM)
    assert until(lambda: workers(tmp_path) == [])


def test_the_front_ends_with_a_worker(front: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert until(lambda: len(workers(tmp_path)) == 2)
    os.kill(int(workers(tmp_path)[0]), signal.SIGKILL)
    assert front.wait(timeout=10) == 1
