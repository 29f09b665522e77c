# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One writer where locks are no locks: a file that only one can create, and that says who did.

Used beside flock on file systems that hosts share, where flock may be missing, or be granted to everybody. It ends with
its owner as well as that can be told: on the same host by pid and start time, on another one when the file's time has
stood still for STALE_S while we looked; the owner moves it on every BEAT_S.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from dataclasses import asdict
from pathlib import Path

from .processes import Process, process

BEAT_S = 5.0
STALE_S = 60.0
SETTLE_S = 0.2


class Claim:
    """take() until it returns None, then release(). `watching`: another host has it, and looking on may free it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mine = json.dumps({**asdict(process(os.getpid())), "key": secrets.token_hex(8)}).encode()
        self._seen: tuple[bytes, int] | None = None
        self._seen_at = 0.0
        self._over = threading.Event()
        self.watching = False

    def take(self) -> str | None:
        """None when the claim is ours; otherwise whose it is."""
        found = self._read()
        if found is None:
            return self._create()
        content, _mtime_ns = found
        if content == self._mine:
            self._begin()
            return None
        if not self._is_dead(found):
            return describe(content)
        self.watching = False
        if not self._remove(content):
            return "a writer that comes and goes"
        return self._create(settle=True)

    def release(self) -> None:
        self._over.set()
        found = self._read()
        if found is not None and found[0] == self._mine:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _create(self, *, settle: bool = False) -> str | None:
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o644)
        except FileExistsError:
            found = self._read()
            return describe(found[0]) if found else "a writer that comes and goes"
        try:
            os.write(descriptor, self._mine)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if settle:
            # Two may have found the same dead owner: then one of them has lost its claim by now.
            time.sleep(SETTLE_S)
            found = self._read()
            if found is None or found[0] != self._mine:
                return "a writer that comes and goes"
        self._begin()
        return None

    def _begin(self) -> None:
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            with contextlib.suppress(OSError):
                os.utime(self._path)

    def _read(self) -> tuple[bytes, int] | None:
        try:
            with open(self._path, "rb") as stream:
                return stream.read(4096), os.fstat(stream.fileno()).st_mtime_ns
        except FileNotFoundError:
            return None

    def _is_dead(self, found: tuple[bytes, int]) -> bool:
        owner = _owner(found[0])
        if owner is not None and owner.is_local:
            return not owner.is_alive
        if found != self._seen:
            self._seen, self._seen_at = found, time.monotonic()
        self.watching = True
        return time.monotonic() - self._seen_at > STALE_S

    def _remove(self, content: bytes) -> bool:
        """Take the dead owner's file away, and nobody else's: what was renamed is looked at again."""
        aside = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}")
        try:
            os.rename(self._path, aside)
        except FileNotFoundError:
            return False
        try:
            if aside.read_bytes() == content:
                return True
            with contextlib.suppress(OSError):
                os.link(aside, self._path)
            return False
        finally:
            os.unlink(aside)


def holder(path: Path) -> str | None:
    """Whose claim it is, without one of our own; None when there is none or its owner is gone."""
    try:
        content, age = path.read_bytes(), time.time() - path.stat().st_mtime
    except OSError:
        return None
    owner = _owner(content)
    gone = not owner.is_alive if owner is not None and owner.is_local else age > STALE_S
    return None if gone else describe(content)


def describe(content: bytes) -> str:
    return str(_owner(content) or "a process that did not say which")


def _owner(content: bytes) -> Process | None:
    try:
        entry = json.loads(content)
        entry.pop("key", None)
        return Process(**entry)
    except (ValueError, TypeError, AttributeError):
        return None
