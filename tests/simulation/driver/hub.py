# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The local Hub in the background, as long as the demo exists."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from simulation.host.commands import HostError, run
from simulation.host.state import CLONE, State, read_json, write

REPOSITORY = "nvidia/Kimi-K2.5-NVFP4"
CHECKPOINT = Path(os.environ.get("DEMO_CHECKPOINT", CLONE / "tests/simulation/model/checkpoint"))
START_LIMIT = 20  # seconds


def lacks() -> list[str]:
    """What is missing before a Hub can be started."""
    if (CHECKPOINT / "config.json").is_file():
        return []
    return [f"the checkpoint {CHECKPOINT} is missing: restore it from git"]


def ensure(state: State, port: int) -> tuple[str, bool]:
    """-> (commit that it serves, whether it was started now). Started again when it is dead, on another port, or when
    the checkpoint has changed."""
    commit = run([*_command(), "--print-commit", str(CHECKPOINT)], timeout=60).stdout.strip()
    record = read_json(_record(state))
    if _alive(record) and record.get("port") == port and _served(port) == commit:
        return commit, False
    stop(state)
    folder = _record(state).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "output.log").open("wb") as output:
        words = ["--repository", f"{REPOSITORY}={CHECKPOINT}", "--port", str(port)]
        hub = subprocess.Popen(
            [*_command(), *words, "--log", str(folder / "requests.log")],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    write(_record(state), json.dumps({"pid": hub.pid, "start_time": _start_time(hub.pid), "port": port}) + "\n")
    end = time.monotonic() + START_LIMIT
    while _served(port) != commit:
        if hub.poll() is not None or time.monotonic() > end:
            stop(state)
            words = (folder / "output.log").read_text(errors="replace").strip().splitlines()
            raise HostError(f"the Hub did not start on port {port}: {(words or ['no output'])[-1]}")
        time.sleep(0.1)
    return commit, True


def stop(state: State) -> bool:
    """End the Hub that this clone started; -> whether there was one."""
    record = read_json(_record(state))
    if not _alive(record):
        return False
    pid = int(record["pid"])
    for number, limit in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        os.kill(pid, number)
        end = time.monotonic() + limit
        while _alive(record) and time.monotonic() < end:
            time.sleep(0.05)
        if not _alive(record):
            break
    _record(state).unlink(missing_ok=True)
    return True


def _command() -> list[str]:
    return ["env", f"PYTHONPATH={CLONE / 'tests'}", sys.executable, "-m", "simulation.hub"]


def _record(state: State) -> Path:
    return state.root / "hub" / "process.json"


def _alive(record: dict[str, Any]) -> bool:
    """Whether the recorded process lives: the same pid may long be somebody else's."""
    start = _start_time(int(record.get("pid", 0)))
    return start is not None and start == record.get("start_time")


def _start_time(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _served(port: int) -> str | None:
    """The commit of `main` that answers on the port."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"http://127.0.0.1:{port}/api/models/{REPOSITORY}/revision/main", timeout=5) as answer:
            return str(json.load(answer).get("sha"))
    except (OSError, ValueError):
        return None
