# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command of a tier: bounded in time, its output in the tier's log, its end told honestly."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "tests"
BIN = Path(sys.executable).parent
Argv = list[str | Path]
# Settings of whoever runs the tests must not decide what the tests see.
_FOREIGN = ("ANSIBLE_", "MOLECULE_", "PYTEST_", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


@dataclass(frozen=True)
class Result:
    """One check's end; a check that counts its parts (tests of pytest, of ansible-test) gives their numbers."""

    name: str
    passed: int
    failed: int
    seconds: float
    output: str = ""
    skipped: int = 0


@dataclass(frozen=True)
class Done:
    """A command's end; status is None when it was stopped because of its time limit."""

    status: int | None
    output: str
    seconds: float
    limit: float

    @property
    def ok(self) -> bool:
        return self.status == 0

    def result(self, name: str) -> Result:
        """The whole command as one check."""
        return Result(name, int(self.ok), int(not self.ok), self.seconds, self.told())

    def told(self) -> str:
        """The output, with the reason of the end where the output cannot say it."""
        if self.status is None:
            return f"{self.output}\nstopped after its limit of {self.limit:g} s"
        return self.output if self.ok or self.output.strip() else f"exit status {self.status} without any output"


@dataclass
class Tier:
    """The commands of one tier, all of them written to one log."""

    name: str
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        self.log = CACHE / f"{self.name}.log"
        self.log.write_text("")

    def run(
        self,
        argv: Argv,
        *,
        limit: float = 300,
        environment: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> Done:
        """Run a command of the test environment's bin (or of PATH), with the clone's collection and without colours."""
        words = [str(word) for word in argv]
        started = time.monotonic()
        with self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(words)}\n".encode())
            log.flush()
            start = log.tell()
            process = subprocess.Popen(
                words,
                cwd=folder,
                env={**_environment(), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _end(process)
        with self.log.open("rb") as log:
            log.seek(start)
            output = log.read().decode(errors="replace")
        return Done(status, output, time.monotonic() - started, limit)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return {
        **kept,
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        "ANSIBLE_NOCOLOR": "1",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a command that still runs, with every process of its group: asked first, killed 15 s later."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(15)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def missing_packages(commands: Mapping[str, str]) -> list[str]:
    """Debian's packages of those commands that the machine does not have."""
    return sorted({package for command, package in commands.items() if shutil.which(command) is None})


def install_packages(tier: Tier, commands: Mapping[str, str]) -> Result | None:
    """Install what is missing, by apt-get as root or with sudo; a Result only when that failed."""
    packages = missing_packages(commands)
    if not packages:
        return None
    root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    print(f"{tier.name}: installing with apt-get: {' '.join(packages)}", flush=True)
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    try:
        tier.run([*apt, "update", "--quiet"], limit=300)
        done = tier.run([*apt, "install", "--yes", "--quiet", "--no-install-recommends", *packages], limit=600)
        told = done.told()
    except FileNotFoundError as error:
        told = str(error)
    if not missing_packages(commands):
        return None
    return Result("packages", 0, 1, 0.0, f"{told}\nmissing: install these packages by hand: {' '.join(packages)}")
