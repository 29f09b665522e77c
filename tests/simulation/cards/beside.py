# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated cards beside a test: own settings, own daemon, own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STUBBORN = (
    "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(120)"
)


class SimulatedCards:
    """Eight cards below `folder`; holders are processes whose title begins with `prefix` instead of "VLLM::".

    The prefix is the test's own, so that nothing else that runs on the machine counts.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.prefix = f"T{os.getpid()}x{time.monotonic_ns() % 1_000_000}::"
        self.config_path, self.state_path = folder / "cards.json", folder / "state.json"
        self.environment = {
            "SIMULATED_CARDS_CONFIG": str(self.config_path),
            "SIMULATED_CARDS_STATE": str(self.state_path),
        }
        text = (HERE / "cards.json").read_text().replace("VLLM::", self.prefix)
        quick = {"poll_s": 0.05, "release": {"hold_s": 0.2, "step_s": 0.1, "steps": 2}}
        self.config: dict[str, Any] = {**json.loads(text), **quick}
        self.children: list[subprocess.Popen[bytes]] = []
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        """Change settings of cards.json, as faults={"lost_card": 6}."""
        self.config.update(settings)
        temporary = self.config_path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.config))
        temporary.replace(self.config_path)

    def look(self) -> None:
        """One look of the daemon, instead of a running one."""
        subprocess.run(
            [HERE / "cards-daemon", "--once"], env={**os.environ, **self.environment}, check=True, timeout=30
        )

    def start(self) -> None:
        """Run the daemon until stop()."""
        self.children.append(subprocess.Popen([HERE / "cards-daemon"], env={**os.environ, **self.environment}))
        wait_for(self.state_path.exists)

    def hold(self, title: str, *, stubborn: bool = False, **environment: str) -> subprocess.Popen[bytes]:
        """A process titled <prefix><title>; a stubborn one ignores SIGTERM."""
        arguments = ["-c", STUBBORN] if stubborn else ["120"]
        child = subprocess.Popen(
            [self.prefix + title, *arguments],
            executable=sys.executable if stubborn else "/bin/sleep",
            env={**os.environ, **environment},
            stdout=subprocess.PIPE if stubborn else None,
        )
        self.children.append(child)
        if child.stdout:
            child.stdout.readline()
        return child

    def wait_held(self, *pids: int) -> None:
        """Until the running daemon has seen these processes."""
        wait_for(lambda: set(pids) <= {process["pid"] for card in self.state() for process in card["processes"]})

    def state(self) -> list[dict[str, Any]]:
        cards: list[dict[str, Any]] = json.loads(self.state_path.read_text())["cards"]
        return cards

    def smi(self, *arguments: str) -> tuple[int, str]:
        """Exit code and stdout of nvidia-smi."""
        answer = self.run(["nvidia-smi", *arguments], 30)
        return answer[0], answer[1]

    def run(self, arguments: Sequence[str], seconds: float) -> tuple[int, str, str]:
        """A runner for module_utils.gpu; exit code 124 when the time is over."""
        command = [str(HERE / arguments[0]), *arguments[1:]]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **self.environment},
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, "", ""
        return done.returncode, done.stdout, done.stderr

    def stop(self) -> None:
        for child in self.children:
            child.kill()
        for child in self.children:
            child.wait(timeout=10)
            if child.stdout:
                child.stdout.close()


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)
