# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The journal of one invocation of a unit."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .commands import Runner
from .log_lines import LogLine, split

TAIL_LINES = 4000
# The lines of a start that a long-lived service has pushed out of the tail.
_START_LINES = (
    "KV cache|Maximum concurrency|Model loading took|CUDA graph|Graph capturing|backend|for .* GEMM"
    "|mixed-precision linear|Starting to load model|Application startup complete|Initializing a V"
)


@dataclass(frozen=True)
class Log:
    """lines: oldest first. complete: nothing of the invocation is missing. problem: why it could not be read."""

    lines: list[LogLine]
    complete: bool = True
    problem: str | None = None


def last_invocation(unit: str, run: Runner) -> str:
    """The invocation that last wrote to the journal, or "".

    systemd forgets a unit that ended well and that nothing refers to, its invocation included; and an engine that dies
    after its start ends well.
    """
    field = "_SYSTEMD_INVOCATION_ID"
    options = ["--no-pager", "--quiet", "--output=json", f"--output-fields={field}", "--lines=1"]
    code, out, _err = run(["journalctl", *options, f"_SYSTEMD_UNIT={unit}"])
    try:
        found = json.loads(out) if code == 0 and out.strip() else {}
    except ValueError:
        return ""
    return str(found.get(field, "")) if isinstance(found, dict) else ""


def read(invocation_id: str, run: Runner, *, tail_lines: int = TAIL_LINES) -> Log:
    """The last `tail_lines` lines of the invocation, and before them the telling lines of its start.

    `--all` because progress bars hold carriage returns and colours, which journalctl otherwise replaces by
    "[123B blob data]". The second match adds what systemd itself said about this invocation.
    """
    if not invocation_id:
        return Log([])
    base = [
        "journalctl",
        "--no-pager",
        "--quiet",
        "--output=cat",
        "--all",
        f"_SYSTEMD_INVOCATION_ID={invocation_id}",
        "+",
        f"INVOCATION_ID={invocation_id}",
    ]
    code, out, err = run([*base, f"--lines={tail_lines}"])
    if code != 0:
        return Log(
            [], complete=False, problem=f"the journal cannot be read: {err.strip() or f'journalctl ended with {code}'}"
        )
    if not out.strip():
        return Log([], complete=False, problem="the journal holds nothing of this invocation; read it as root")
    if out.count("\n") < tail_lines:
        return Log(split(out))
    code, start, _err = run([*base, f"--lines={tail_lines}", f"--grep={_START_LINES}"])
    return Log(split(start if code == 0 else "") + split(out), complete=False)
