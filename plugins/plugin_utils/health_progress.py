# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What the progress file of vllm_healthcheck says, as a line for a person.

    {"state": "waiting|checking", "stage", "progress", "check", "done", "total",
     "checks": [{"name", "status": "pass|fail|inconclusive|not_run"}], "elapsed_s", "pid", "at"}

What came from the engine's log is made printable and cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .progress_display import Line
from .quantities import duration, percent, printable

STAGE_CHARACTERS, PROGRESS_CHARACTERS = 40, 100
PASSED = "pass"


def describe(progress: Mapping[str, Any], running_s: float) -> Line | None:
    """The line for one examination; None when its file says nothing that could be shown.

    running_s: for how long the file has said this, in seconds
    """
    try:
        if progress["state"] == "waiting":
            return _waiting(progress, running_s)
        return _checking(progress, running_s) if progress["state"] == "checking" else None
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _waiting(progress: Mapping[str, Any], running_s: float) -> Line | None:
    if progress["stage"] is None:
        return None
    stage = printable(progress["stage"], STAGE_CHARACTERS)
    text = f"waiting for the engine: {stage}"
    if progress.get("progress"):
        text += f", {printable(progress['progress'], PROGRESS_CHARACTERS)}"
    return Line(f"waiting {stage}", f"{text}, {duration(float(progress['elapsed_s']) + running_s)}", None)


def _checking(progress: Mapping[str, Any], running_s: float) -> Line | None:
    """Each check that went wrong makes another state, so that it is shown at once."""
    if progress["check"] is None:
        return None
    done, total = int(progress["done"]), int(progress["total"])
    wrong = _wrong(progress["checks"])
    text = f"{printable(progress['check'], STAGE_CHARACTERS)} {done + 1}/{total}"
    if running_s >= 1:
        text += f", {duration(running_s)}"
    text += f"; {_count(progress['checks'], PASSED)} passed"
    return Line(f"checking {wrong}", "; ".join([text, *wrong]), percent(done, total))


def _count(checks: Sequence[Mapping[str, Any]], status: str) -> int:
    return sum(check["status"] == status for check in checks)


def _wrong(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """["fail: count, needle", "not_run: vision"]: what did not pass, by status."""
    statuses = dict.fromkeys(str(check["status"]) for check in checks if check["status"] != PASSED)
    return [
        f"{printable(status, STAGE_CHARACTERS)}: "
        + ", ".join(printable(check["name"], STAGE_CHARACTERS) for check in checks if check["status"] == status)
        for status in statuses
    ]


def summary(result: Mapping[str, Any]) -> str | None:
    """A last line for an endpoint that was examined."""
    try:
        checks = result["checks"]
        seconds = sum(float(check["seconds"]) for check in checks)
        if not checks:
            return None
        text = f"{_count(checks, PASSED)} of {len(checks)} checks passed in {duration(seconds)}"
        return "; ".join([text, *_wrong(checks)])
    except (KeyError, TypeError, ValueError):
        return None
