# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmarks share: a place for data, processes with their time and peak memory, the rates of this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulation.hub import client_environment
from simulation.task import ROOT, Task

REPOSITORY = "org/benchmark"
# The command hf as a program that also says its peak memory, in KiB, and the time without interpreter and imports.
CLIENT = """
import runpy, sys, time
import huggingface_hub.cli.hf as hf, huggingface_hub.hf_api
started = time.perf_counter()
sys.argv[0] = "hf"
try:
    hf.main()
finally:
    inside = time.perf_counter() - started
    (peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    print(f"measured {inside} {peak}", file=sys.stderr)
"""


@dataclass(frozen=True)
class Run:
    """seconds: wall time of the process; inside: of the work without interpreter and imports; cpu: processor seconds of
    the process; peak: bytes of memory."""

    seconds: float
    inside: float
    cpu: float
    peak: int
    result: dict[str, Any]


class Clock:
    """Wall time and processor time of processes that start and end after it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), self._children()

    @staticmethod
    def _children() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def run(self, inside: float | None = None, peak: int = 0, result: dict[str, Any] | None = None) -> Run:
        seconds = time.perf_counter() - self._wall
        return Run(seconds, seconds if inside is None else inside, self._children() - self._cpu, peak, result or {})


def cores() -> int:
    return len(os.sched_getaffinity(0))


def workplace() -> Path:
    """BENCHMARK_DIR, else a file system in memory with 8 GiB free, so that no disk is measured, else the usual one."""
    if folder := os.environ.get("BENCHMARK_DIR"):
        return Path(folder)
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 8 << 30 else Path(tempfile.gettempdir())


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=workplace()) as folder:
        yield Path(folder)


def make_shards(folder: Path, count: int, size: int) -> int:
    """Files of random bytes, all of them different; -> bytes together."""
    folder.mkdir(parents=True)
    block = os.urandom(1 << 20)
    for number in range(count):
        with (folder / f"model-{number + 1:05}-of-{count:05}.safetensors").open("wb") as stream:
            text = b'{"t": {"dtype": "U8", "shape": [%d], "data_offsets": [0, %d]}}' % (size, size)
            stream.write(len(text).to_bytes(8, "little") + text + number.to_bytes(8, "little"))
            left = size - 8
            while left:
                left -= stream.write(block[: min(left, len(block))])
    (folder / "config.json").write_text("{}\n")
    return sum(path.stat().st_size for path in folder.iterdir())


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """A Hub with that repository in a process of its own; -> its endpoint."""
    server = subprocess.Popen(
        [sys.executable, "-m", "simulation.hub", "--repository", f"{REPOSITORY}={folder}", "--port", "0"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for line in server.stdout or ():
            if line.startswith("HF_ENDPOINT="):
                yield line.strip().partition("=")[2]
                break
    finally:
        server.terminate()
        server.communicate()


def ours(endpoint: str, dest: Path, *, repo_id: str = REPOSITORY, **options: Any) -> Run:
    """hf_shard_download as a process; what fails ends the benchmark."""
    clock = Clock()
    arguments = {"repo_id": repo_id, "dest": str(dest), **options}
    task = Task("hf_shard_download", arguments, client_environment(endpoint, dest.parent / "home"))
    result = task.result(timeout_s=600)
    if result.get("failed"):
        raise SystemExit(f"hf_shard_download failed: {result['msg']}")
    return clock.run(result["elapsed_s"], task.peak_bytes, result)


def client(endpoint: str, dest: Path, *words: str) -> Run:
    """The command hf as a process."""
    clock = Clock()
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, *words],
        env=client_environment(endpoint, dest.parent / "home"),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        raise SystemExit(f"hf {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    inside, peak = done.stderr.rpartition("measured ")[2].split()
    return clock.run(float(inside), 1024 * int(peak))


def hash_rate(folder: Path) -> float:
    """Bytes per second of sha256 over the folder's shards by one thread, from the page cache; the best of three."""
    rates = []
    buffer = bytearray(1 << 20)
    for _attempt in range(3):
        count = 0
        started = time.perf_counter()
        for path in folder.glob("*.safetensors"):
            hasher = hashlib.sha256()
            with path.open("rb", buffering=0) as stream:
                while read := stream.readinto(buffer):
                    hasher.update(memoryview(buffer)[:read])
                    count += read
        rates.append(count / (time.perf_counter() - started))
    return max(rates)


def write_rate(folder: Path, size: int = 1 << 29) -> float:
    """Bytes per second of writing there, fsync included."""
    path = folder / "rate"
    block = os.urandom(1 << 20)
    started = time.perf_counter()
    with path.open("wb", buffering=0) as stream:
        for _block in range(size >> 20):
            stream.write(block)
        os.fsync(stream.fileno())
    seconds = time.perf_counter() - started
    path.unlink()
    return size / seconds


def least(runs: Sequence[Run]) -> float:
    return min(run.seconds for run in runs)


def spread(runs: Sequence[Run]) -> str:
    """Least and median wall time, and the least processor time, in seconds."""
    seconds = [run.seconds for run in runs]
    return f"{min(seconds):.2f} / {statistics.median(seconds):.2f} / {min(run.cpu for run in runs):.2f} s"


SPREAD = "least / median seconds / processor seconds"
