# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What the progress file of hf_shard_download says, as a line for a person.

    {"state": "resolving|waiting|hashing|downloading|verifying", "bytes": {"done", "total"},
     "shards": {"done", "total"}, "rate_bytes_per_s", "eta_s", "pid",
     "writer": "pid 42 on gpu1 since 2026-10-01T08:00:00+00:00", "at"}

Only numbers and the names of states and writers are taken from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .progress_display import Line
from .quantities import duration, percent, printable, share, size

Progress = Mapping[str, Any]
MOVING = ("hashing", "downloading", "verifying")
PID = re.compile(r"\bpid (\d+)\b")


def describe(progress: Progress, others: Sequence[Progress]) -> Line | None:
    """The line for one task; None when its file says nothing that could be shown.

    others: the progress of other tasks on the same host, of which one may be the writer that this one waits for
    """
    try:
        state = str(progress["state"])
        if state == "waiting":
            return _waiting(str(progress.get("writer") or "another writer"), others)
        if state == "resolving":
            return Line(state, "resolving the revision", None)
        return _moving(state, progress) if state in MOVING else Line(state, printable(state, 40), None)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _moving(state: str, progress: Progress) -> Line:
    done, total = float(progress["bytes"]["done"]), float(progress["bytes"]["total"])
    reached = percent(done, total)
    text = f"{state} {reached} % {share(done, total)}"
    if rate := progress.get("rate_bytes_per_s"):
        text += f" at {size(float(rate))}/s"
    if (eta := progress.get("eta_s")) is not None and done < total:
        text += f", eta {duration(float(eta))}"
    if (shards := progress.get("shards")) and shards["total"]:
        text += f", shards {int(shards['done'])}/{int(shards['total'])}"
    return Line(state, text, reached)


def _waiting(writer: str, others: Sequence[Progress]) -> Line:
    text = f"waiting for {printable(writer)}"
    match = PID.search(writer)
    for other in others:
        if match and str(other.get("pid")) == match[1] and other.get("state") != "waiting":
            line = describe(other, ())
            if line is not None:
                return Line("waiting", f"{text}: {line.text}", line.percent)
    return Line("waiting", text, None)


def summary(result: Mapping[str, Any]) -> str | None:
    """A last line for a task that fetched something."""
    try:
        fetched, seconds = result["bytes"]["downloaded"], float(result["elapsed_s"])
        if not fetched:
            return None
        rate = f" at {size(result['throughput_bytes_per_s'])}/s" if result.get("throughput_bytes_per_s") else ""
        shards = result["shards"]
        return (
            f"downloaded {size(fetched)} in {duration(seconds)}{rate}, "
            f"shards {int(shards['present'])}/{int(shards['expected'])}"
        )
    except (KeyError, TypeError, ValueError):
        return None
