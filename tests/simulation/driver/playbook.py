# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the playbook with live output and read its recap."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RECAP = re.compile(r"^(?P<host>\S+)\s+: (?P<counts>ok=\d+\s.*?changed=(?P<changed>\d+)\s.*)$", re.M)
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Outcome:
    status: int
    recap: dict[str, str]  # host -> "ok=.. changed=.. .."
    timed_out: bool = False


def run(argv: Sequence[str], environ: Mapping[str, str], folder: Path, log: Path, limit: float) -> Outcome:
    """Everything it prints goes through as it comes, to a terminal as from a terminal, and into `log`."""
    ours, theirs = pty.openpty() if sys.stdout.isatty() else os.pipe()
    try:
        process = subprocess.Popen(
            argv, cwd=folder, env=dict(environ), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(theirs)
    end, late = time.monotonic() + limit, False
    try:
        with log.open("wb") as copy:
            while not late:
                late = time.monotonic() > end
                if select.select([ours], [], [], 1.0)[0]:
                    data = _read(ours)
                    if not data:
                        break
                    copy.write(data)
                    sys.stdout.buffer.write(data)
                    sys.stdout.flush()
        status = 124 if late else process.wait(timeout=60)
    finally:
        _end(process)
        os.close(ours)
    return Outcome(status, recap(log.read_text(errors="replace")), late)


def recap(text: str) -> dict[str, str]:
    """host -> its counts, from the playbook's last lines."""
    plain = COLOUR.sub("", text).replace("\r\n", "\n")
    tail = plain.rpartition("PLAY RECAP")[2]
    return {match["host"]: re.sub(r"\s+", " ", match["counts"]).strip() for match in RECAP.finditer(tail)}


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # a terminal whose other side is closed
        return b""


def _end(process: subprocess.Popen[bytes]) -> None:
    """After an interruption or at the limit: a chance to finish, then the whole group, ssh included."""
    if process.poll() is not None:
        return
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
