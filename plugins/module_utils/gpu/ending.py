# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Ending processes: SIGTERM, time to leave, SIGKILL, time to go, and the truth about who is still there."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .processes import Process, ProcessTable

POLL_S = 0.1


@dataclass
class Ended:
    """pids: terminated (left after SIGTERM), killed (needed SIGKILL), survivors (still there after both);
    skipped: pid -> pid_reused, the number belongs to another process now and was not signalled."""

    terminated: list[int] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    survivors: list[int] = field(default_factory=list)
    skipped: dict[int, str] = field(default_factory=dict)


def send(process: Process, number: int, table: ProcessTable) -> str:
    """Signal exactly this process: "sent", or why not: gone, pid_reused, not_permitted.

    A pidfd is opened first and the start time compared after: from then on the descriptor cannot mean another process.
    Where the kernel has no pidfd the comparison is right before kill(2).
    """
    descriptor: int | None = None
    try:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return "gone"
        except AttributeError:
            pass  # a Python that was built without it
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
        current = table.start_time(process.pid)
        if current != process.start_time:
            return "gone" if current is None else "pid_reused"
        if descriptor is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "not_permitted"
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return "sent"


def end(
    targets: Sequence[Process],
    table: ProcessTable,
    term_timeout: float,
    kill_timeout: float,
    *,
    deliver: Callable[[Process, int, ProcessTable], str] = send,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Ended:
    """End the targets, all at once: a leader that gets SIGTERM alone may wait for workers that nobody told."""
    ended = Ended()

    def still(processes: Sequence[Process]) -> list[Process]:
        return [process for process in processes if table.start_time(process.pid) == process.start_time]

    def round_of(number: int, processes: Sequence[Process], timeout: float) -> list[Process]:
        signalled = []
        for process in processes:
            answer = deliver(process, number, table)
            if answer == "pid_reused":
                ended.skipped[process.pid] = answer
            elif answer == "sent":
                signalled.append(process)
        deadline = clock() + timeout
        left = still(processes)
        while left and clock() < deadline:
            sleep(POLL_S)
            left = still(left)
        gone = {process.pid for process in signalled} - {process.pid for process in left}
        (ended.terminated if number == signal.SIGTERM else ended.killed).extend(sorted(gone))
        return left

    left = round_of(signal.SIGTERM, targets, term_timeout)
    if left:
        left = round_of(signal.SIGKILL, left, kill_timeout)
    ended.survivors = [process.pid for process in left]
    return ended
