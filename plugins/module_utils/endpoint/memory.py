# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Memory of a service while it is under load: where it is read, and whether it grows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import ServingError
from .percentiles import percentile

Read = Callable[[], int]
CGROUPS, PROC = Path("/sys/fs/cgroup"), Path("/proc")
# What the processes themselves asked for. Pages of files (the weights, read through the page cache) come and go.
_V2, _V1 = ("anon", "shmem"), ("total_rss", "total_shmem")


def of_control_group(path: str, *, cgroups: Path = CGROUPS) -> Read | None:
    """A reader of the bytes that the control group (systemd's ControlGroup) has of its own.

    None where its memory is not accounted, as in many containers.
    """
    for folder, names in ((cgroups, _V2), (cgroups / "memory", _V1)):
        stat = folder / path.strip("/") / "memory.stat"
        with suppress(OSError, ValueError):
            _sum(stat, names)
            return partial(_sum, stat, names)
    return None


def _sum(stat: Path, names: Sequence[str]) -> int:
    values = dict(line.split()[:2] for line in stat.read_text().splitlines())
    if names[0] not in values:
        raise ValueError(f"{stat} has no {names[0]}")
    return sum(int(values.get(name, 0)) for name in names)


def of_processes(root: int, *, proc: Path = PROC) -> Read:
    """A reader of the bytes of the process and its descendants: anonymous and shared memory, each counted at its own.

    Raises ServingError when the process is gone.
    """

    def read() -> int:
        children: dict[int, list[int]] = {}
        for name in os.listdir(proc):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    parent = int((proc / name / "stat").read_text().rpartition(")")[2].split()[1])
                    children.setdefault(parent, []).append(int(name))
        pids = [root]
        for pid in pids:
            pids.extend(children.get(pid, ()))
        found = [used for pid in pids if (used := _of_process(pid, proc)) is not None]
        if not found:
            raise ServingError("the process of the endpoint is gone", where=f"pid {root}")
        return sum(found)

    return read


def _of_process(pid: int, proc: Path) -> int | None:
    try:
        lines = (proc / str(pid) / "status").read_text().splitlines()
    except OSError:
        return None
    values = {name: text.split() for name, _colon, text in (line.partition(":") for line in lines)}
    sizes = [values.get(name) or ["0"] for name in ("RssAnon", "RssShmem")]
    return sum(1024 * int(words[0]) for words in sizes)


@dataclass
class Samples:
    """Readings over the time of the load, (seconds, bytes)."""

    seconds: float
    readings: list[tuple[float, int]] = field(default_factory=list)

    def summary(self) -> dict[str, Any] | None:
        """{start_bytes, settled_bytes, end_bytes, peak_bytes, growth}; None without readings.

        A service takes memory for its first requests once. So growth is that of the last quarter's median over the
        second quarter's, as a share.
        """
        if not self.readings:
            return None
        values = [value for _at, value in self.readings]
        settled = self._median(0.25, 0.5) or values[0]
        end = self._median(0.75, float("inf")) or values[-1]
        return {
            "start_bytes": values[0],
            "settled_bytes": settled,
            "end_bytes": end,
            "peak_bytes": max(values),
            "growth": round(end / settled - 1, 4) if settled else 0.0,
        }

    def _median(self, begin: float, end: float) -> int | None:
        within = [float(value) for at, value in self.readings if begin <= at / self.seconds <= end]
        return int(percentile(within, 50)) if within else None


class Sampler:
    """Reads in a thread of its own, from entry to exit; a reader that fails is the error at exit."""

    def __init__(self, read: Read | None, seconds: float, interval: float) -> None:
        self._read, self._interval = read, interval
        self._done = threading.Event()
        self._error: ServingError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples = Samples(seconds)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._done.set()
        self._thread.join()

    def summary(self) -> dict[str, Any] | None:
        if self._error:
            raise self._error
        return self.samples.summary()

    def _run(self) -> None:
        if self._read is None:
            return
        began = time.monotonic()
        try:
            while True:
                self.samples.readings.append((time.monotonic() - began, self._read()))
                if self._done.wait(self._interval):
                    return
        except ServingError as error:
            self._error = error
        except (OSError, ValueError) as error:
            self._error = ServingError("the memory of the service can no longer be read", why=str(error))
