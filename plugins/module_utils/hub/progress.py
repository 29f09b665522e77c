# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How far a run is, for whoever looks: a small JSON file that is replaced twice a second and removed at the end.

    {"state": "downloading", "bytes": {"done": 1, "total": 9}, "shards": {"done": 0, "total": 3},
     "rate_bytes_per_s": 1, "eta_s": 8, "file": "model-00001-of-00003.safetensors", "writer": null, "pid": 42,
     "at": 1790000000.0}

state:             resolving, waiting (for another writer), hashing, downloading or verifying
bytes:             of the wanted files: looked at (hashing, verifying), or on disk and in parts (downloading)
shards:            the wanted safetensors files in the same way
rate_bytes_per_s:  of the last ten seconds; 0 while nothing moves
eta_s:             seconds to the end of this state, null while unknown
file:              the file that moved last, or null
writer:            who is waited for, or null
pid:               the process that writes the file, so that whoever waits for it can find its progress
at:                unix time of writing; it goes on while the process lives, also when nothing moves
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from ..progress_file import ProgressFile

INTERVAL_S = 0.5
RATE_WINDOW_S = 10.0


class Progress:
    """Told from any thread, written by a thread of its own. A context manager; without a path nothing is written."""

    def __init__(self, path: str | None = None) -> None:
        self._told = ProgressFile(path)
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._thread: threading.Thread | None = None
        self.begin("resolving")

    def begin(self, state: str, sizes: dict[str, int] | None = None, *, writer: str | None = None) -> None:
        """A new state over these files, {path: bytes}; it starts with nothing done."""
        with self._lock:
            self._state, self._writer = state, writer
            self._file: str | None = None
            self._sizes: dict[str, int] = dict(sizes or {})
            self._offsets: dict[str, int] = {}
            self._finished: set[str] = set()
            self._moved = 0
            self._samples: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def advance(self, path: str, offset: int, moved: int = 0) -> None:
        """The file is done up to `offset`; `moved` bytes of it were read or received just now and make the rate."""
        with self._lock:
            self._offsets[path] = offset
            self._moved += moved
            if moved:
                self._file = path

    def finish(self, path: str) -> None:
        with self._lock:
            self._offsets[path] = self._sizes.get(path, 0)
            self._finished.add(path)

    def reading(self, path: str, check: Callable[[], None]) -> Callable[[int], None]:
        """To be called with the length of each piece of the file that was read; `check` is called too."""
        offset = 0

        def piece(length: int) -> None:
            nonlocal offset
            offset += length
            self.advance(path, offset, length)
            check()

        return piece

    def snapshot(self) -> dict[str, Any]:
        """What the file says."""
        with self._lock:
            rate = self._rate()
            done, total = sum(self._offsets.values()), sum(self._sizes.values())
            return {
                "state": self._state,
                "bytes": {"done": done, "total": total},
                "shards": {"done": _shards(self._finished), "total": _shards(self._sizes)},
                "rate_bytes_per_s": int(rate),
                "eta_s": int((total - done) / rate) if rate >= 1 else None,
                "file": self._file,
                "writer": self._writer,
                "pid": os.getpid(),
                "at": round(time.time(), 3),
            }

    def _rate(self) -> float:
        now = time.monotonic()
        self._samples.append((now, self._moved))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_WINDOW_S:
            self._samples.popleft()
        since, before = self._samples[0]
        return (self._moved - before) / (now - since) if now > since else 0.0

    def __enter__(self) -> Progress:
        if self._told.is_wanted:
            self._pause.clear()
            self._thread = threading.Thread(target=self._write_on, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_writing()
        self._told.remove()

    @contextlib.contextmanager
    def left_to_another_process(self) -> Iterator[None]:
        """While a process of ours goes on in our place: it writes the same file."""
        running = self._stop_writing()
        yield
        if running:
            self.__enter__()

    def _stop_writing(self) -> bool:
        if self._thread is None:
            return False
        self._pause.set()
        self._thread.join()
        self._thread = None
        return True

    def _write_on(self) -> None:
        while not self._pause.is_set():
            self._told.write(self.snapshot())
            self._pause.wait(INTERVAL_S)


def _shards(paths: set[str] | dict[str, int]) -> int:
    return sum(path.endswith(".safetensors") for path in paths)
