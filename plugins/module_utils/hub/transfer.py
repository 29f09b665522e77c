# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Fetching one file over HTTP until its bytes are right: ranges, another try, one second chance for wrong bytes."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ServingError
from .answers import Subject
from .api import file_url
from .identity import BUFFER_BYTES, RemoteFile
from .manifest import Stamp
from .part import Part
from .progress import Progress
from .retry import Retry
from .transport import ConnectionTrouble, HubAnswer, Session, trouble
from .xet import Xet

CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
RANGE_NOT_SATISFIABLE = 416
# One read waits for its whole piece: small ones at first, so that a slow line is looked at often, then larger ones,
# which take a tenth less of a core.
FIRST_PIECE_BYTES = BUFFER_BYTES >> 2
SHORT_READ_S = 0.05


class WrongBytes(ServingError):
    """A file arrived whole, twice, and with other bytes than the Hub publishes."""


class Throttle:
    """Bytes per second of all transfers together; 0 = no limit."""

    def __init__(self, bytes_per_s: int, stop: threading.Event) -> None:
        self._rate, self._stop = bytes_per_s, stop
        # Small enough that no pause is long: in a pause nobody looks at the clock.
        self.piece_bytes = max(1, min(BUFFER_BYTES, bytes_per_s // 10)) if bytes_per_s else BUFFER_BYTES
        self._lock = threading.Lock()
        self._free_at = 0.0

    def pass_on(self, count: int) -> None:
        if self._rate:
            with self._lock:
                self._free_at = max(self._free_at, time.monotonic()) + count / self._rate
                pause = self._free_at - time.monotonic()
            self._stop.wait(pause)


@dataclass
class Counter:
    """Bytes of all transfers together."""

    received: int = 0
    resumed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, received: int = 0, resumed: int = 0) -> None:
        with self.lock:
            self.received += received
            self.resumed += resumed


@dataclass(frozen=True)
class Transfer:
    """What all files of a run share; used by several threads."""

    session: Session
    repo_id: str
    commit: str
    dest: Path
    retry: Retry
    throttle: Throttle
    progress: Progress
    xet: Xet | None = None
    counter: Counter = field(default_factory=Counter)

    def fetch(self, file: RemoteFile) -> Stamp:
        """Bring the file to its place. Raises WrongBytes or another ServingError that names the file."""
        wrong = 0
        try:
            if self.xet is not None and self.xet.takes(file):
                stamp, came_wrong = self.xet.fetch(file)
                if stamp is not None:
                    self.counter.add(received=file.size)
                    return stamp
                wrong = int(came_wrong)
            with Part(self.dest, file, self.retry.check) as part:
                self.counter.add(resumed=part.resumed)
                self.progress.advance(file.path, part.offset)
                self._complete(file, part, wrong)
                return Stamp.of(part.take_its_name(), file, hashed=True)
        except OSError as error:
            raise ServingError(
                "the file cannot be written",
                where=str(self.dest / file.path),
                why=error.strerror or str(error),
                remedy="Correct that and run again: what has arrived is kept",
            ) from error

    def refuse_what_is_not_given(self, files: Sequence[RemoteFile]) -> None:
        """Ask for the first byte of the largest file, which a content network gives where there is one.

        A gated repository lists its files to everybody, and a firewall may know the Hub alone.
        """
        over_http = [file for file in files if file.size and not (self.xet is not None and self.xet.takes(file))]
        if not over_http:
            return
        file = max(over_http, key=lambda file: file.size)
        url = file_url(self.session.endpoint, self.repo_id, self.commit, file.path)
        self.retry.run(lambda: self.session.get(url, {"Range": "bytes=0-0"}).close(), self._subject(file))

    def _complete(self, file: RemoteFile, part: Part, wrong: int) -> None:
        failures = 0
        range_refused = False
        while not part.right:
            if part.complete:
                wrong += part.clean
                part.restart()
                if wrong == 2:
                    part.discard()
                    raise _wrong_bytes(file)
            before = part.offset
            try:
                self._receive(file, part)
                failures = 0
            except (HubAnswer, ConnectionTrouble) as error:
                if isinstance(error, HubAnswer) and error.status == RANGE_NOT_SATISFIABLE and not range_refused:
                    range_refused = True
                    part.restart()
                    continue
                failures = 1 if part.offset > before else failures + 1
                self._pause(failures, error, file)

    def _pause(self, failures: int, error: HubAnswer | ConnectionTrouble, file: RemoteFile) -> None:
        try:
            self.retry.pause(failures, error, self._subject(file))
        except ServingError as final:
            final.facts["file"] = file.path
            raise

    def _subject(self, file: RemoteFile) -> Subject:
        return Subject(self.session.endpoint, self.repo_id, self.commit, self.session.token is not None, file.path)

    def _receive(self, file: RemoteFile, part: Part) -> None:
        """One request, from the part's end to the file's end."""
        self.retry.check()
        url = file_url(self.session.endpoint, self.repo_id, self.commit, file.path)
        headers = {"Range": f"bytes={part.offset}-"} if part.offset else {}
        with self.session.get(url, headers) as response:
            _align(response, part, file)
            buffer = memoryview(bytearray(BUFFER_BYTES))
            piece = FIRST_PIECE_BYTES
            while not part.complete:
                wanted = min(piece, self.throttle.piece_bytes, file.size - part.offset)
                began = time.monotonic()
                try:
                    count = response.readinto(buffer[:wanted])
                except (OSError, http.client.HTTPException, ValueError) as error:
                    raise trouble(error, answered=True) from error
                if not count:
                    raise ConnectionTrouble(f"the body ended at byte {part.offset} of {file.size}", answered=True)
                piece = BUFFER_BYTES if time.monotonic() - began < SHORT_READ_S else FIRST_PIECE_BYTES
                part.append(buffer[:count])
                self.counter.add(received=count)
                self.progress.advance(file.path, part.offset, count)
                self.throttle.pass_on(count)
                self.retry.check()


def _align(response: http.client.HTTPResponse, part: Part, file: RemoteFile) -> None:
    """Make sure that the answer's first byte is the part's next one; a server may ignore a range."""
    if response.status == 206:
        match = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != part.offset or match[3] not in (str(file.size), "*"):
            part.restart()
            raise ConnectionTrouble(f"range {response.headers.get('Content-Range')!r} was not asked for", answered=True)
        return
    length = response.headers.get("Content-Length")
    if length is not None and length.isdigit() and int(length) != file.size:
        raise ConnectionTrouble(f"the Hub lists {file.size} bytes and sends {length}", answered=True)
    if part.offset:
        part.restart()


def _wrong_bytes(file: RemoteFile) -> WrongBytes:
    return WrongBytes(
        "the file arrived twice with other bytes than the repository publishes",
        where=file.path,
        why=f"expected {file.identity()}",
        remedy="Check proxies and mirrors on the way; the files that are right are kept",
    )
