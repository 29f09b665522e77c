# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Running nvidia-smi: bounded in time, and never "no cards" when the truth is "no answer"."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from pathlib import Path
from typing import Any

from ..errors import ServingError
from .smi_csv import Table, read_table
from .smi_xml import SmiLog, read_log

# (arguments, seconds) -> (exit code, stdout, stderr); TIMED_OUT as exit code when the command did not end in time
Runner = Callable[[Sequence[str], float], tuple[int, str, str]]
TIMED_OUT, NOT_FOUND = 124, 127
NO_DEVICES = "No devices were found"
LOST = re.compile(
    r"Unable to determine the device handle for GPU\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
)

FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "compute_cap",
    "driver_version",
    "memory.total",
    "memory.reserved",
    "memory.used",
    "memory.free",
    "mig.mode.current",
    "utilization.gpu",
    "power.draw",
)


def bounded(run_command: Callable[..., tuple[int, str, str]]) -> Runner:
    """A runner on top of a module's run_command.

    timeout(1) ends a slow command. A process hung in the GPU driver cannot be ended even by SIGKILL, and timeout(1)
    would wait for it: so the wait is in a thread that is given up some seconds later.
    """

    def run(arguments: Sequence[str], seconds: float) -> tuple[int, str, str]:
        answer: Future[tuple[int, str, str]] = Future()

        def call() -> None:
            command = ["timeout", "--kill-after=2", str(seconds), *arguments]
            try:
                answer.set_result(run_command(command, errors="surrogate_then_replace", handle_exceptions=False))
            except OSError as error:
                answer.set_result((NOT_FOUND, "", str(error)))
            except BaseException as error:  # whatever it is, it is the caller's, and no command that hangs
                answer.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        try:
            code, out, err = answer.result(seconds + 4)
        except NoAnswer:
            return TIMED_OUT, "", ""
        return (TIMED_OUT if code in (124, 137) else code), out, err

    return run


class NvidiaSmi:
    """The tool of one host. Each method raises a ServingError whose facts hold `problems` when the tool fails."""

    def __init__(self, run: Runner, timeout: float, proc: str | os.PathLike[str] = "/proc") -> None:
        self.run = run
        self.timeout = timeout
        self.proc = Path(proc)

    def cards(self, fields: Sequence[str] = FIELDS) -> Table:
        """One row per card with `fields`; what the tool says in words, on stdout or stderr, is in `words`."""
        out, err = self._ask(f"--query-gpu={','.join(fields)}", "--format=csv")
        table = read_table(out, fields)
        return Table(table.rows, table.words + [line.strip() for line in err.splitlines() if line.strip()])

    def log(self) -> SmiLog:
        out, _err = self._ask("-q", "-x")
        return read_log(out)

    def topology(self) -> tuple[str, str | None]:
        """The text of `topo -m` and of `topo -p2p r`, the latter None where the tool does not know it."""
        links, _err = self._ask("topo", "-m")
        try:
            access, _err = self._ask("topo", "-p2p", "r")
        except ServingError:
            return links, None
        return links, access

    def _ask(self, *arguments: str) -> tuple[str, str]:
        code, out, err = self.run(["nvidia-smi", *arguments], self.timeout)
        if code == 0:
            return out, err
        text = f"{out}\n{err}".strip()
        command = " ".join(["nvidia-smi", *arguments])
        if code == TIMED_OUT:
            raise _failed(
                "timed_out",
                f"nvidia-smi timed out after {self.timeout:g} s",
                where=command,
                why="the tool did not answer, so nothing is known of the cards and of who holds them",
                remedy="Look for processes in state D (`ps -eo pid,stat,wchan:32,args`) and at `dmesg`; a driver that "
                "hangs needs a reboot",
            )
        if code == NOT_FOUND:
            raise _failed(
                "no_nvidia_smi",
                "nvidia-smi is not installed",
                where=command,
                why=text or None,
                remedy="Install the NVIDIA driver's utilities, or run this on the host that has the cards",
            )
        if "version mismatch" in text:
            raise self._mismatch(command, text, code)
        if NO_DEVICES in text or LOST.search(text):
            raise missing_cards(found=0, expected=None, words=text.splitlines(), code=code)
        raise _failed(
            "nvidia_smi_failed",
            f"nvidia-smi failed with exit code {code}",
            where=command,
            why=text or "it printed nothing",
            remedy="Run the command on the host; it has to work before cards can be taken or judged",
            exit_code=code,
        )

    def _mismatch(self, command: str, text: str, code: int) -> ServingError:
        library = re.search(r"library version:\s*([\d.]+)", text)
        loaded = self.loaded_driver()
        facts: dict[str, Any] = {
            "exit_code": code,
            "loaded_version": loaded,
            "library_version": library[1] if library else None,
        }
        return _failed(
            "driver_mismatch",
            "the loaded NVIDIA driver and its library are of different versions",
            where=command,
            why=f"the kernel module is {loaded or 'unknown'}, the library is {facts['library_version'] or 'unknown'}; "
            "running services go on, new ones cannot start",
            remedy="Reboot the host, or unload and reload the NVIDIA kernel modules once nothing uses them",
            **facts,
        )

    def loaded_driver(self) -> str | None:
        """The version of the loaded kernel module, from /proc/driver/nvidia/version."""
        try:
            text = (self.proc / "driver" / "nvidia" / "version").read_text(errors="replace")
        except OSError:
            return None
        match = re.search(r"NVRM version:.*?\s(\d+(?:\.\d+)+)\s", text)
        return match[1] if match else None


def missing_cards(found: int, expected: int | None, words: Sequence[str], code: int = 0) -> ServingError:
    """gpu_missing: fewer cards answer than the host has (or should have)."""
    lost = [match[1][-12:] for line in words if (match := LOST.search(line))]
    wanted = f", {expected} expected" if expected is not None else ""
    told = "; ".join(line for line in words if line.strip())
    return _failed(
        "gpu_missing",
        f"{found} cards answer{wanted}",
        where="nvidia-smi" + (f", exit code {code}" if code else ""),
        why=told or "the others are not listed at all",
        remedy="Look at `dmesg | grep -i -e xid -e nvrm`, at the card's power and its PCIe link; a card that fell off "
        "the bus comes back with a reboot, not with a restart of the service",
        found=found,
        expected=expected,
        exit_code=code,
        lost_bus_ids=lost,
    )


def _failed(problem: str, what: str, *, where: str, why: str | None, remedy: str, **facts: Any) -> ServingError:
    detail = f"{what}: {why}" if why else what
    problems = [{"gpu": None, "problem": problem, "detail": detail}]
    return ServingError(what, where=where, why=why, remedy=remedy, facts={"problems": problems, **facts})
