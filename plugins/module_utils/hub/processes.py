# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which process is which, whatever becomes of its pid: name, host, start; and who holds or has opened a file."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """space:   the running kernel and the pid namespace: a pid means something only within
    started: clock ticks since the boot, which tells the process from a later one with its pid; None = not known
    since:   its start, ISO 8601 in UTC"""

    pid: int
    host: str
    space: str
    started: int | None
    since: str | None

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}" + (f" since {self.since}" if self.since else "")

    @property
    def is_local(self) -> bool:
        return self.space == _space()

    @property
    def is_alive(self) -> bool:
        """Only of a local one."""
        return self.started is not None and _started(self.pid) == self.started


def process(pid: int) -> Process:
    """A process of this host."""
    started = _started(pid)
    return Process(pid, socket.gethostname(), _space(), started, _since(started))


def _space() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + " " + os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"


def _started(pid: int) -> int | None:
    try:
        # The second field is the name in parentheses, which may hold anything; the start is field 22.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _since(started: int | None) -> str | None:
    try:
        (line,) = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")]
        seconds = int(line.split()[1]) + (started or 0) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds") if started else None


def flock_holder(path: Path) -> int | None:
    """The pid that holds a flock on the file, as far as this kernel shows it."""
    try:
        status = path.stat()
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and int(fields[4]) > 0:
            major, minor, inode = fields[5].split(":")
            if int(inode) != status.st_ino:
                continue
            # Some file systems (btrfs, overlay) show another device in stat: then the lock itself has to tell.
            if os.makedev(int(major, 16), int(minor, 16)) == status.st_dev or is_locked(path):
                return int(fields[4])
    return None


def is_locked(path: Path) -> bool:
    """Whether somebody holds an exclusive flock; asked for with one of our own, so only where that disturbs nobody."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def is_open_for_writing(path: Path) -> bool | None:
    """Whether any process of this host has it open for writing; None where the file system cannot tell."""
    return _conflicts(path, fcntl.F_RDLCK)


def is_open(path: Path) -> bool | None:
    """Whether any process of this host has it open; None where that cannot be told."""
    conflict = _conflicts(path, fcntl.F_WRLCK)
    return _is_open_by_proc(path) if conflict is None else conflict


def _conflicts(path: Path, lease: int) -> bool | None:
    """The kernel grants a lease only while nobody has the file open in another way.

    Who opens the file meanwhile makes it send SIGIO to us. Call it in the main thread.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    handler = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, lease)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    finally:
        signal.signal(signal.SIGIO, handler)
        os.close(descriptor)
    return False


def _is_open_by_proc(path: Path) -> bool | None:
    """The same by looking at every process, which only root may do; for file systems without leases."""
    if os.geteuid() != 0:
        return None
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.path.samestat(descriptor.stat(), status):
                return True
        except OSError:
            continue
    return False
