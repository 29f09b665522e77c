# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Looking at a background job of Ansible's async_wrapper on its host, with one shell command and its answer.

One command waits for the end of the job, a moment at most, and tells its state and its progress. That costs a tenth of
what the module async_status costs, and the end of a short job is seen at once.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RUNNING, FINISHED, GONE = "running", "finished", "gone"
STEP_S = 0.1
SWEEP_MINUTES = 60

# While a job runs, async_wrapper's file of it begins with these words; after it, the module's result is in their place.
# The words are matched whole, since a result is long and may hold anything.
_FUNCTIONS = r"""
is_running() {
  read -r line < "$1" || [ -n "$line" ] || return 1
  case $line in
    '{"started": true, "finished": false, '*|'{"started": 1, "finished": 0, '*) return 0 ;;
  esac
  return 1
} 2>/dev/null
# async_wrapper's process has the first part of the name among its arguments; a reboot ends it.
is_alive() {
  name=${1##*/}; name=${name%%.*}
  grep -qszx "[j]${name#j}" /proc/[0-9]*/cmdline
  [ $? -ne 1 ]
}
"""

_LOOK = r"""
job=$1 progress=$2 steps=$3
while is_running "$job" && [ "$steps" -gt 0 ]; do sleep 0.1; steps=$((steps - 1)); done
alive=yes; is_alive "$job" || alive=no
if ! is_running "$job"; then echo finished; elif [ $alive = yes ]; then echo running; else echo gone; fi
if [ -f "$progress" ]; then
  own=$(tr '\n' ' ' < "$progress"); printf '%s\n' "$own"
  case $own in *'"waiting"'*)
    for other in "${job%/*}"/*.progress; do
      [ "$other" = "$progress" ] || { tr '\n' ' ' < "$other"; echo; }
    done ;;
  esac
fi 2>/dev/null
"""

# Beside this job's files, those of jobs that nobody asks about any more: their controller was interrupted.
_CLEAN = r"""
job=$1 progress=$2 minutes=$3
rm -f "$job" "$progress"
find "${job%/*}" -maxdepth 1 -type f -mmin "+$minutes" | while read -r old; do
  case $old in */j*.*) is_running "$old" && is_alive "$old" && continue ;; esac
  rm -f "$old"
done
"""


@dataclass(frozen=True)
class Look:
    """What the host said.

    state:    running, finished, or gone: it has no process any more and left no result
    progress: the content of the job's progress file, None before there is one
    others:   while the job waits for another one: the progress of the other jobs of this host
    """

    state: str
    progress: Mapping[str, Any] | None
    others: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ShellScript:
    """A program for /bin/sh and its arguments."""

    text: str
    arguments: Sequence[str]

    @property
    def reading(self) -> str:
        """The command that reads the text from its standard input."""
        return " ".join(["/bin/sh", "-s", "--", *map(shlex.quote, self.arguments)])

    @property
    def whole(self) -> str:
        """The command that holds the text, for a connection without a standard input."""
        return " ".join(["/bin/sh", "-c", *map(shlex.quote, (self.text, "job", *self.arguments))])


def look(job_file: str, progress_file: str, wait_s: float) -> ShellScript:
    """Takes at most a little more than `wait_s`; parse_look reads its output."""
    return ShellScript(_FUNCTIONS + _LOOK, (job_file, progress_file, str(round(wait_s / STEP_S))))


def clean(job_file: str, progress_file: str) -> ShellScript:
    """Removes the job's files."""
    return ShellScript(_FUNCTIONS + _CLEAN, (job_file, progress_file, str(SWEEP_MINUTES)))


def parse_look(output: str) -> Look | None:
    """The answer to `look`; None when it is none."""
    lines = output.strip().splitlines()
    while lines and lines[0].strip() not in (RUNNING, FINISHED, GONE):  # what a login prints
        lines.pop(0)
    if not lines:
        return None
    found = [_mapping(line) for line in lines[1:]]
    return Look(lines[0].strip(), found[0] if found else None, [other for other in found[1:] if other is not None])


def _mapping(line: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
