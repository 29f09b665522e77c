# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command: bounded, as root where it must be, and with one readable line when it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


class HostError(Exception):
    """What went wrong, in words for the person at the terminal."""


def as_root(argv: Sequence[str]) -> list[str]:
    """The command itself for root, through sudo for anybody else."""
    return list(argv) if os.geteuid() == 0 else ["sudo", *argv]


def run(
    argv: Sequence[str], *, timeout: float, data: bytes | None = None, check: bool = True, shown: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run to the end within `timeout` seconds. A failure names the command (as `shown`) and its last words."""
    shown = shown or " ".join(argv)
    shown = shown if len(shown) <= 160 else shown[:157] + "..."
    try:
        done = subprocess.run(
            list(argv), input=data, stdin=None if data is not None else subprocess.DEVNULL, capture_output=True,
            timeout=timeout, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise HostError(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"no end within {timeout:.0f} s: {shown}") from None
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if check and done.returncode != 0:
        words = " | ".join((err.strip() or out.strip()).splitlines()[-4:])
        raise HostError(f"{shown} ended with {done.returncode}: {words or 'no output'}")
    return subprocess.CompletedProcess(list(argv), done.returncode, out, err)


def say(text: str) -> None:
    """One line for the terminal or a CI log, at once."""
    print(text, flush=True)


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
