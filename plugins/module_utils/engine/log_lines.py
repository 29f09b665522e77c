# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One line of vLLM's log, with its prefixes taken apart.

A line looks like `(EngineCore pid=1854) INFO 11-29 15:54:23 [gpu_worker.py:508] Available KV cache memory: 9.9 GiB`;
what uvicorn or a dying interpreter prints has no such prefix. Older releases print no process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BREAK = re.compile(r"\r\n|\n|\r")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_PROCESS = re.compile(r"^\((?P<process>[^()\s]+) pid=(?P<pid>\d+)\) ?")
_HEAD = re.compile(
    r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? )?\[[^\]\s]+:\d+\] ?"
)


@dataclass(frozen=True)
class LogLine:
    """process: `EngineCore`, `Worker_TP3`, `APIServer` or "". level: "" for plain output. text: indented as printed."""

    process: str
    pid: int
    level: str
    text: str


def parse(line: str) -> LogLine:
    """Take one printed line apart; text that has no known prefix is kept whole."""
    line = _COLOUR.sub("", line).rstrip()
    process, pid, level = "", 0, ""
    if match := _PROCESS.match(line):
        process, pid = match["process"], int(match["pid"])
        line = line[match.end() :]
    if match := _HEAD.match(line):
        level = match["level"]
        line = line[match.end() :]
    return LogLine(process, pid, level, line)


def split(text: str) -> list[LogLine]:
    """All lines of the text that say something; a carriage return of a progress bar ends a line too."""
    return [line for line in map(parse, _BREAK.split(text)) if line.text.strip()]
