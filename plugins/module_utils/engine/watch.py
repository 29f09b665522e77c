# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Watch over one start of a unit: does it still live, and does it get on?"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ServingError
from . import journal, listener, log_facts, process, redact, systemd
from .commands import Runner
from .log_lines import LogLine
from .root_cause import RootCause, root_cause

# What a hanging engine goes on to print, or what the prober itself causes, is no progress.
_NO_PROGRESS = re.compile(
    r"No available shared memory broadcast block|\"(?:GET|POST) /|Engine \d+: Avg prompt throughput"
)
_NCCL = re.compile(r"nccl|NCCL|custom_all_reduce|init_process_group|distributed_init_method")


@dataclass(frozen=True)
class Observation:
    """moved: something new was printed since the last look. last_line: the newest line that counts as progress."""

    moved: bool
    stage: str
    progress: str | None
    last_line: str | None


class UnitWatch:
    """Raises ServingError as soon as the process that was there at the beginning is no longer the same."""

    def __init__(self, unit: str, run: Runner, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._run = run
        self._sleep = sleep
        self._first = systemd.show(unit, run)
        self._seen: set[tuple[str, str]] = set()
        if not self._first.exists:
            raise ServingError("the unit does not exist", where=self._first.name, facts={"stage": "dead"})
        if not self._first.alive:
            raise self._death(self._first, "the unit's process is not alive")

    @property
    def name(self) -> str:
        return self._first.name

    def check_alive(self) -> systemd.Unit:
        """The unit's present state; ServingError with the root cause when it died or was restarted."""
        now = systemd.show(self._first.name, self._run)
        if not now.alive or now.baseline != self._first.baseline:
            raise self._death(now, "the unit's process died")
        return now

    def look(self) -> Observation:
        """One observation of the start; a line that says the same as an earlier one is no progress."""
        self.check_alive()
        lines = self._log()
        news = {(line.process, line.text) for line in lines if not _NO_PROGRESS.search(line.text)}
        moved = not news <= self._seen
        self._seen |= news
        facts = log_facts.read_facts(lines)
        telling = [line for line in lines if not _NO_PROGRESS.search(line.text)]
        last = redact.text(telling[-1].text.strip()) if telling else None
        return Observation(moved, facts.stage, progress_text(facts.progress), last)

    def cause(self) -> RootCause | None:
        """The root cause as far as the log of the watched invocation tells it now."""
        return root_cause(systemd.show(self._first.name, self._run), self._log())

    def check_owner(self, port: int, *, proc: Path = process.PROC) -> str | None:
        """ServingError when a process outside the unit listens on the port; a remark when the owner may not be seen."""
        found = listener.find(port, prefer_unit=self.name, proc=proc)
        if found is None:
            return f"no listener of port {port} is visible on this host"
        if found.pid is None:
            return f"the owner of port {port} may not be seen; run with become"
        if found.unit == self.name:
            return None
        raise ServingError(
            "another process owns the port",
            where=f"port {port}",
            why=f"process {found.pid} of {found.unit or 'no unit'} listens there, not {self.name}",
            remedy="Stop that process, or give the service another port",
            facts={"listener_pid": found.pid, "listener_unit": found.unit},
        )

    def stalled(self, seen: Observation, seconds: float) -> ServingError:
        """The error for a start that has printed nothing new for so long."""
        if _NCCL.search(seen.last_line or ""):
            kind = "nccl_init_hang"
            remedy = (
                "The first collective of the cards hangs: check IOMMU and ACS (iommu=pt), NCCL_P2P_LEVEL, or try "
                "NCCL_P2P_DISABLE=1"
            )
        else:
            kind = "load_stalled"
            remedy = "Look at the disk (weights), at the compiler's processes and at the journal of the unit"
        at = f"{seen.stage} {seen.progress or ''}".strip()
        message = f"no progress for {seconds:.0f} s at {at}; the last line was: {seen.last_line or '(none)'}"
        facts: dict[str, object] = {"stage": seen.stage, "root_cause": RootCause(kind, message, remedy).as_result()}
        return ServingError("the engine's start has stalled", where=self.name, why=message, remedy=remedy, facts=facts)

    def _log(self) -> list[LogLine]:
        return journal.read(self._first.invocation_id, self._run).lines

    def _death(self, now: systemd.Unit, what: str) -> ServingError:
        cause = root_cause(now, self._log())
        if cause is None:
            # journald may still be writing the last words
            self._sleep(1.0)
            cause = root_cause(now, self._log())
        if now.alive:
            how = f"systemd restarted it ({now.restarts} restarts)"
        else:
            how = f"it is {now.active_state} ({now.sub_state}), result {now.result}, status {now.exec_main_status}"
        why = f"{how}: {cause.message}" if cause else f"{how}; its log names no exception"
        return ServingError(
            what,
            where=now.name,
            why=why,
            remedy=(cause.hint if cause else None) or f"See journalctl --unit {now.name}",
            facts={"stage": "dead", "root_cause": cause.as_result() if cause else None},
        )


def progress_text(progress: dict[str, object] | None) -> str | None:
    """`Loading safetensors checkpoint shards 57/119`"""
    return f"{progress['what']} {progress['done']}/{progress['total']}" if progress else None
