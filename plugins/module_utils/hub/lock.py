# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One writer for a destination, by a lock that ends with the process that holds it.

flock on `<dest>/.cache/huggingface/blackwell.serving/lock`; the file stays and says who writes. On a file system that
hosts share, `owner` beside it is claimed too. Other clients of the Hub do not know that lock, so what they hold (their
own .lock files, a partial file open for writing) counts too.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from ..errors import ServingError
from .claim import Claim, holder
from .filesystem import is_shared
from .paths import OWN_STATE, STATE, shown
from .processes import flock_holder, is_open_for_writing, process

POLL_S = 0.2
Tell = Callable[[str], None]
UNKNOWN = "a process that did not say which"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def no_one(writer: str) -> None:
    """Nobody wants to know."""


class WriterLock:
    """A context manager. `note` says afterwards for whom it waited, if it did.

    wait:    wait for another writer, or fail
    timeout: longest wait in seconds, 0 = as long as the other one lives
    check:   called while waiting; may raise
    tell:    called with the other writer whenever that becomes known
    """

    def __init__(
        self, dest: Path, *, wait: bool, timeout: float, check: Callable[[], None], tell: Tell = no_one
    ) -> None:
        self._dest, self._wait, self._timeout, self._check, self._tell = dest, wait, timeout, check, tell
        self._path = dest / OWN_STATE / "lock"
        self._claim = Claim(dest / OWN_STATE / "owner") if is_shared(dest) else None
        self._descriptor = -1
        self._announced = False
        self.note: str | None = None

    def __enter__(self) -> WriterLock:
        start = time.monotonic()
        other = None
        while (writer := self._try()) is not None:
            if other is None or writer != UNKNOWN:  # the last look may come when the owner is just gone
                if self._wait and writer != other:
                    self._tell(writer)
                other = writer
            waited = time.monotonic() - start
            # Whether an owner on another host is gone can only be told by looking for a while.
            patient = self._wait or (self._claim is not None and self._claim.watching)
            if not patient or (self._timeout and waited > self._timeout):
                raise ServingError(
                    "another writer is active in this destination",
                    where=str(self._dest),
                    why=f"{other}" + (f"; waited {waited:.0f} s for it" if self._wait else ""),
                    remedy="Let it end, or end it, and run again: what it has finished is kept",
                    facts={"writer": other},
                )
            self._check()
            time.sleep(POLL_S)
        if other is not None:
            self.note = f"waited {time.monotonic() - start:.0f} s for another writer: {other}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._announced:
            os.ftruncate(self._descriptor, 0)
        if self._claim is not None:
            self._claim.release()
        os.close(self._descriptor)

    def announce(self) -> None:
        """Say in the file who writes. Not done before something is written: a run without a change leaves no trace."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(asdict(process(os.getpid()))).encode(), 0)
        self._announced = True

    def _try(self) -> str | None:
        """Take the lock; who holds it otherwise."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            writer = self._lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if writer is None:
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return writer

    def _lock(self, descriptor: int) -> str | None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return describe_owner(self._path)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            if self._claim is None:
                raise ServingError(
                    "the file system has no locks, so a second writer could not be kept out",
                    where=str(self._path),
                    why=error.strerror,
                    remedy="Mount it with locks, or choose another dest",
                ) from error
        if not os.path.exists(self._path) or not os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
            return "the destination is being replaced"
        return "; ".join(other_clients(self._dest)) or (self._claim.take() if self._claim is not None else None)


def describe_owner(path: Path) -> str:
    """Who holds the lock file: the kernel knows the pid, unless it is another host's; the owner wrote down the rest."""
    pid = flock_holder(path)
    try:
        owner = json.loads(path.read_text() or "{}")
        if owner and pid in (None, owner["pid"]):
            return f"pid {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return str(process(pid)) if pid else UNKNOWN


def active_writer(dest: Path) -> str | None:
    """Who writes at this moment, without taking any lock; for check mode."""
    path = dest / OWN_STATE / "lock"
    if flock_holder(path) is not None:
        return describe_owner(path)
    return holder(dest / OWN_STATE / "owner") or "; ".join(other_clients(dest)) or None


def other_clients(dest: Path) -> list[str]:
    """Downloads of huggingface_hub that are under way in this destination."""
    found = []
    for path in sorted((dest / STATE / "download").rglob("*")):
        if path.suffix == ".lock" and (pid := flock_holder(path)) is not None:
            found.append(f"pid {pid} holds {shown(path.name)}")
        elif path.suffix == ".incomplete" and is_open_for_writing(path):
            found.append(f"a process writes {shown(path.name)}")
    return found
