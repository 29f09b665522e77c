# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module of the collection in a process of its own, run as Ansible's wrapper runs it: it can be killed and raced."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# The module runs as the main program. A held one has imported what it needs, and goes on when its standard input ends.
# The peak memory goes to standard error, in KiB, from the kernel's own count: not ru_maxrss, which Linux carries over
# from the process that started this one.
PROGRAM = """
import importlib, json, runpy, sys
from ansible.module_utils import testing
module = f"ansible_collections.blackwell.serving.plugins.modules.{sys.argv[1]}"
if sys.argv[3:]:
    for name in [module, *sys.argv[3:]]:
        importlib.import_module(name)
    print("ready", flush=True)
    sys.stdin.read()
with testing.patch_module_args(json.loads(sys.argv[2])):
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        with open("/proc/self/status") as status:
            (peak,) = [line.split()[1] for line in status if line.startswith("VmHWM:")]
        print(f"peak_kib={peak}", file=sys.stderr)
"""


class Task:
    """One running task; `result` waits for it. `peak_bytes` is known when it has ended by itself."""

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        check: bool = False,
        diff: bool = False,
        held: Sequence[str] = (),
    ) -> None:
        """held: imports that the process makes before it waits for `go`; without any it does not wait."""
        settings = {**arguments, "_ansible_check_mode": check, "_ansible_diff": diff, "_ansible_remote_tmp": "/tmp"}
        self.peak_bytes = 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, name, json.dumps(settings), *held],
            env={**environment, "PYTHONPATH": str(ROOT / ".collections")},
            stdin=subprocess.PIPE if held else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def go(tasks: Sequence[Task]) -> None:
        """Let held tasks go on, all in the same moment."""
        for task in tasks:
            if task.process.stdout is None or task.process.stdout.readline() != "ready\n":
                raise AssertionError(f"the module did not start: {task.process.communicate()[1]}")
        for task in tasks:
            if task.process.stdin is not None:
                task.process.stdin.close()
                task.process.stdin = None

    def kill(self) -> bool:
        """kill -9; whether it still ran."""
        running = self.process.poll() is None
        self.process.kill()
        self.process.communicate()
        return running

    def result(self, timeout_s: float = 60.0) -> dict[str, Any]:
        try:
            out, error = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        if not out:
            raise AssertionError(f"the module gave no result:\n{error}")
        self.peak_bytes = 1024 * int(error.rpartition("peak_kib=")[2])
        result: dict[str, Any] = json.loads(out.splitlines()[-1])
        return result


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("what was waited for has not happened")
        time.sleep(0.005)
