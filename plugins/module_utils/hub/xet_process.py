# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One file by hf_xet, in a process of its own that is killed when it stalls, and that ends with the one that began it.

hf_xet keeps threads and buffers that nobody can stop from outside, and it is known to hang. It is never loaded here.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .retry import Retry
from .transport import ConnectionTrouble, HubAnswer

LOOK_EVERY_S = 0.2

# What comes on standard input is {parent, environment, file}; without `file` it only says whether it could work.
CHILD = """
import ctypes, json, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
order = json.load(sys.stdin)
if os.getppid() != order["parent"]:
    sys.exit("the process that began this one is gone")
os.environ.update(order["environment"])
try:
    import hf_xet, huggingface_hub
    if order["file"]:
        huggingface_hub.hf_hub_download(**order["file"])
except Exception as error:
    response = getattr(error, "response", None)
    print(json.dumps({
        "type": type(error).__name__,
        "text": str(error),
        "status": getattr(response, "status_code", None),
        "headers": {name: value for name, value in (response.headers.items() if response is not None else ())
                    if name.lower() in ("x-error-code", "x-error-message", "retry-after", "ratelimit")},
    }))
    sys.exit(3)
"""

# (arguments, standard input, called with the process when it runs) -> status, output, error output
Run = Callable[[list[str], str, Callable[[Any], None]], tuple[int, str, str]]


@dataclass(frozen=True)
class XetProcess:
    """run: starts a process and waits for it; python: the interpreter that has hf_xet."""

    run: Run
    python: str
    stall_s: float
    retry: Retry

    def is_able(self) -> bool:
        """Whether hf_xet and huggingface_hub can be loaded there."""
        status, _out, _error = self.run([self.python, "-c", CHILD], self._order({}, None), lambda process: None)
        return status == 0

    def fetch(self, file: dict[str, object], staging: Path, moved: Callable[[int], None]) -> None:
        """Have hf_hub_download(**file) bring a file below `staging`; `moved` is told the bytes on disk there.

        Raises HubAnswer and ConnectionTrouble, also for a stall, and what `retry.check` raises.
        """
        environment = {
            "HF_ENDPOINT": str(file["endpoint"]),
            "HF_HOME": str(staging / "home"),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "0",
            "HF_XET_CACHE": str(staging / "home" / "xet"),
        }
        watch = _Watch(staging, self.stall_s, self.retry, moved)
        try:
            status, out, error = self.run([self.python, "-c", CHILD], self._order(environment, file), watch.begin)
        finally:
            watch.end()
        self.retry.check()
        if watch.stalled:
            raise ConnectionTrouble(f"hf_xet wrote nothing for {self.stall_s:.0f} s and was killed", answered=True)
        if status != 0:
            raise _trouble(status, out, error)

    def _order(self, environment: dict[str, str], file: dict[str, object] | None) -> str:
        """The token travels here, never in arguments or in an environment that others can read."""
        return json.dumps({"parent": os.getpid(), "environment": environment, "file": file})


class _Watch:
    """Kills the process when nothing below the folder grows for too long, or when the run is over."""

    def __init__(self, folder: Path, stall_s: float, retry: Retry, moved: Callable[[int], None]) -> None:
        self._folder, self._stall_s, self._retry, self._moved = folder, stall_s, retry, moved
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.stalled = False

    def begin(self, process: Any) -> None:
        self._thread = threading.Thread(target=self._look, args=(process,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self, process: Any) -> None:
        before, since = -1, time.monotonic()
        while not self._over.wait(LOOK_EVERY_S):
            used = bytes_below(self._folder)
            if used != before:
                before, since = used, time.monotonic()
                self._moved(used)
            self.stalled = time.monotonic() - since > self._stall_s
            if self.stalled or self._run_is_over():
                process.kill()
                return

    def _run_is_over(self) -> bool:
        try:
            self._retry.check()
        except Exception:
            return True
        return False


def bytes_below(folder: Path) -> int:
    """Space that the files take on disk; what is only reserved does not count."""
    total = 0
    for root, _folders, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
    return total


def _trouble(status: int, out: str, error: str) -> HubAnswer | ConnectionTrouble:
    try:
        told = json.loads(out.splitlines()[-1])
        if told["status"]:
            headers = {name.title(): value for name, value in told["headers"].items()}
            return HubAnswer(told["status"], {**headers, "RateLimit": headers.get("Ratelimit")})
        return ConnectionTrouble(f"hf_xet: {told['type']}: {told['text']}", answered=True)
    except (ValueError, KeyError, IndexError, TypeError):
        last = (error.strip().splitlines() or [""])[-1]
        return ConnectionTrouble(f"hf_xet ended with status {status} {last}".strip(), answered=True)
