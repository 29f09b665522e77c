# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How far an examination is, for whoever looks: a small JSON file that is replaced at each step and removed at the end.

    {"state": "checking", "stage": null, "progress": null, "check": "length_sweep", "done": 5, "total": 15,
     "checks": [{"name": "ready", "status": "pass"}], "elapsed_s": 12.3, "pid": 42, "at": 1790000000.0}

state:     waiting (for the endpoint) or checking
stage:     while waiting, the stage of the engine's start, null where nobody watches it
progress:  while waiting, the engine's own words for how far that stage is, or null
check:     the check that runs, null between two
done:      checks that have ended, of `total`; 0 and 0 while waiting
checks:    those that have ended, in their order
elapsed_s: seconds since the examination began
pid:       the process that writes the file
at:        unix time of writing
"""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any

from ..progress_file import ProgressFile


class HealthProgress:
    """A context manager, told at each step; without a path nothing is written."""

    def __init__(self, path: str | None = None) -> None:
        self._file = ProgressFile(path)
        self._began = time.monotonic()
        self._now: dict[str, Any] = {}
        self._checks: list[dict[str, str]] = []

    def waiting(self, stage: str | None, progress: str | None = None) -> None:
        """The endpoint does not serve yet; the engine is at this stage of its start."""
        self._write("waiting", stage=stage, progress=progress)

    def begin(self, check: str, done: int, total: int) -> None:
        """The check begins, after `done` others of `total`."""
        self._write("checking", check=check, done=done, total=total)

    def end(self, check: str, status: str) -> None:
        """The check has ended so: pass, fail, inconclusive or not_run."""
        self._checks.append({"name": check, "status": status})
        done = int(self._now.get("done", 0)) + 1
        self._write("checking", done=done, total=max(done, int(self._now.get("total", 0))))

    def __enter__(self) -> HealthProgress:
        self.waiting(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.remove()

    def _write(
        self,
        state: str,
        *,
        stage: str | None = None,
        progress: str | None = None,
        check: str | None = None,
        done: int = 0,
        total: int = 0,
    ) -> None:
        self._now = {
            "state": state,
            "stage": stage,
            "progress": progress,
            "check": check,
            "done": done,
            "total": total,
            "checks": self._checks,
            "elapsed_s": round(time.monotonic() - self._began, 1),
            "pid": os.getpid(),
            "at": round(time.time(), 3),
        }
        self._file.write(self._now)
