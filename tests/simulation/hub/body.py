# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of an answer: which of them were asked for, and what a fault does to them."""

from __future__ import annotations

import re
import select
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .faults import Fault

if TYPE_CHECKING:
    from .handler import Handler

CHUNK_BYTES = 1 << 16
STALL_S = 60.0


class BadRange(Exception):
    """The range starts behind the end."""


class Interrupted(Exception):
    """A fault ended the body early; `outcome` is dropped or stalled."""

    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def part_of(header: str | None, size: int) -> tuple[int, int]:
    """[start, end) of `bytes=N-` or `bytes=N-M`; everything without a header."""
    if header is None:
        return 0, size
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", header)
    if match is None or int(match[1]) >= size:
        raise BadRange
    return int(match[1]), min(size, int(match[2]) + 1) if match[2] else size


def send_body(handler: Handler, source: Path, start: int, end: int, fault: Fault | None) -> None:
    with source.open("rb") as stream:
        if fault is None and handler.hub.rate is None:
            handler.wfile.flush()
            try:
                if end > start:
                    handler.connection.sendfile(stream, start, end - start)
            finally:
                handler.record.bytes_sent += max(0, stream.tell() - start)
            return
        stream.seek(start)
        position = start
        while position < end:
            rate = (fault.rate if fault else None) or handler.hub.rate
            chunk_bytes = max(1, min(CHUNK_BYTES, rate // 20)) if rate else CHUNK_BYTES
            chunk = bytearray(stream.read(min(chunk_bytes, end - position)))
            if fault:
                chunk = _with_fault(handler, chunk, position, fault)
            handler.wfile.write(chunk)
            handler.record.bytes_sent += len(chunk)
            position += len(chunk)
            if fault:
                _end_early(handler, fault)
            if rate:
                time.sleep(len(chunk) / rate)


def _with_fault(handler: Handler, chunk: bytearray, position: int, fault: Fault) -> bytearray:
    if fault.corrupt is not None and position <= fault.corrupt < position + len(chunk):
        chunk[fault.corrupt - position] ^= 1
    limit = fault.drop_after if fault.drop_after is not None else fault.stall_after
    if limit is not None:
        return chunk[: max(0, limit - handler.record.bytes_sent)]
    return chunk


def _end_early(handler: Handler, fault: Fault) -> None:
    sent = handler.record.bytes_sent
    if fault.drop_after is not None and sent >= fault.drop_after:
        raise Interrupted("dropped")
    if fault.stall_after is not None and sent >= fault.stall_after:
        _stay_silent(handler)
        raise Interrupted("stalled")


def _stay_silent(handler: Handler) -> None:
    """Until the client hangs up, or the Hub stops."""
    deadline = time.monotonic() + STALL_S
    while time.monotonic() < deadline and not handler.hub.stopping.is_set():
        readable = select.select([handler.connection], [], [], 0.05)[0]
        if readable and not handler.connection.recv(1, socket.MSG_PEEK):
            return
