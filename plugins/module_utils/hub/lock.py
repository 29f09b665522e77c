# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One writer for a destination, by a lock that ends with the process that holds it.

flock on `<dest>/.cache/huggingface/blackwell.serving/lock`; the file stays and says who writes. Other clients of the
Hub do not know that lock, so what they hold (their own .lock files, a partial file open for writing) counts too.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

from ..errors import ServingError
from .paths import OWN_STATE, STATE

POLL_S = 0.2
Tell = Callable[[str], None]
UNKNOWN = "a process that did not say which"


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
            if not self._wait or (self._timeout and waited > self._timeout):
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
        os.close(self._descriptor)

    def announce(self) -> None:
        """Say in the file who writes. Not done before something is written: a run without a change leaves no trace."""
        owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(owner).encode(), 0)
        self._announced = True

    def _try(self) -> str | None:
        """Take the lock; who holds it otherwise."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = os.path.exists(self._path) and os.path.samestat(os.fstat(descriptor), os.stat(self._path))
            others = other_clients(self._dest) if same else []
        except BlockingIOError:
            os.close(descriptor)
            return describe_owner(self._path)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise ServingError(
                    "the file system has no locks, so a second writer could not be kept out",
                    where=str(self._path),
                    why=error.strerror,
                    remedy="Mount it with locks, or choose a dest on a local file system",
                ) from error
            raise
        if same and not others:
            self._descriptor = descriptor
            return None
        os.close(descriptor)
        return "; ".join(others) or "the destination is being replaced"


def describe_owner(path: Path) -> str:
    """Who holds the lock file: the kernel knows the pid, unless it is another host's; the owner wrote down the rest."""
    try:
        pid = flock_holders().get(path.stat().st_ino)
        owner = json.loads(path.read_text() or "{}")
        if owner and pid in (None, owner["pid"]):
            return f"pid {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        pid = None
    return f"pid {pid} on {socket.gethostname()}" if pid else UNKNOWN


def active_writer(dest: Path) -> str | None:
    """Who writes at this moment, without taking any lock; for check mode."""
    path = dest / OWN_STATE / "lock"
    try:
        held = path.stat().st_ino in flock_holders()
    except OSError:
        held = False
    return describe_owner(path) if held else "; ".join(other_clients(dest)) or None


def flock_holders() -> dict[int, int]:
    """{inode: pid} of all flock locks that the kernel shows; a name in two file systems is told apart by nobody."""
    holders = {}
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK":
            pid = int(fields[4])
            if pid > 0:
                holders[int(fields[5].rpartition(":")[2])] = pid
    return holders


def other_clients(dest: Path) -> list[str]:
    """Downloads of huggingface_hub that are under way in this destination."""
    folder = dest / STATE / "download"
    holders = flock_holders() if folder.is_dir() else {}
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".lock" and (pid := holders.get(path.stat().st_ino)) is not None:
            found.append(f"pid {pid} holds {path.name}")
        elif path.suffix == ".incomplete" and is_open_for_writing(path):
            found.append(f"a process writes {path.name}")
    return found


def is_open_for_writing(path: Path) -> bool | None:
    """Whether any process of this host has it open for writing; None where the file system cannot tell.

    The kernel grants a read lease only while nobody has. Who opens the file meanwhile makes it send SIGIO to us.
    Call it in the main thread.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    handler = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    finally:
        signal.signal(signal.SIGIO, handler)
        os.close(descriptor)
    return False
