# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that the server commits on request, and the log of what it was asked."""

from __future__ import annotations

import fnmatch
import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Fault:
    """One fault, for requests whose file path (or URL path, for the API) matches the pattern.

    times:        how often it still happens; -1 = always
    methods:      HTTP methods it applies to
    origin:       "hub", "cdn" or "any"
    status:       answer with this status, `headers` and a small body
    delay_s:      seconds of silence before the answer
    drop_after:   true Content-Length, then the connection closes after this many bytes of the body
    stall_after:  nothing more after this many bytes of the body, the connection stays open
    short:        this many bytes less than the file, with a truthful Content-Length
    corrupt:      one bit of the byte at this offset of the file is flipped; size and ETag stay
    ignore_range: 200 with the whole body although a range was asked for
    rate:         bytes per second of the body
    """

    pattern: str
    times: int = 1
    methods: tuple[str, ...] = ("GET",)
    origin: str = "any"
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop_after: int | None = None
    stall_after: int | None = None
    short: int = 0
    corrupt: int | None = None
    ignore_range: bool = False
    rate: int | None = None


class Faults:
    """The faults that are still to happen."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def take(self, method: str, target: str, origin: str) -> Fault | None:
        """The first fault for this request, counted down."""
        with self._lock:
            for fault in self._faults:
                if (
                    fault.times != 0
                    and method in fault.methods
                    and fault.origin in (origin, "any")
                    and fnmatch.fnmatchcase(target, fault.pattern)
                ):
                    fault.times -= 1 if fault.times > 0 else 0
                    return fault
        return None


@dataclass
class Record:
    """One request. `file` is the path within the repository for resolve URLs; `outcome` is complete, dropped,
    stalled or client_gone."""

    time: float
    origin: str
    method: str
    path: str
    file: str | None = None
    revision: str | None = None
    range: str | None = None
    authorization: bool = False
    accept_encoding: str | None = None
    user_agent: str | None = None
    status: int = 0
    bytes_sent: int = 0
    outcome: str = "complete"


class RequestLog:
    """Every request, in memory and, where a file is given, as one JSON line each when it ends."""

    def __init__(self, path: str | Path | None = None, on_record: Callable[[Record], None] | None = None) -> None:
        self._path = Path(path) if path else None
        self._records: list[Record] = []
        self._in_flight = 0
        self._changed = threading.Condition()
        self.on_record = on_record

    def begin(self) -> None:
        with self._changed:
            self._in_flight += 1

    def add(self, record: Record) -> None:
        with self._changed:
            self._records.append(record)
            if self._path:
                with self._path.open("a") as stream:
                    stream.write(json.dumps(asdict(record)) + "\n")
            self._in_flight -= 1
            self._changed.notify_all()
        if self.on_record:
            self.on_record(record)

    def records(self, *, file: str | None = None, method: str | None = None, origin: str | None = None) -> list[Record]:
        """The records of this file (a pattern), method and origin, in the order in which the requests came.

        A client has its answer a moment before the record is written, so requests in flight are waited for, shortly.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight == 0, timeout=1.0)
            return [
                record
                for record in sorted(self._records, key=lambda record: record.time)
                if (file is None or (record.file is not None and fnmatch.fnmatchcase(record.file, file)))
                and method in (None, record.method)
                and origin in (None, record.origin)
            ]

    def clear(self) -> None:
        with self._changed:
            self._records.clear()
