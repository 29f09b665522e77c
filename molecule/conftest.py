# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the scenario's own playbook once more, with other variables, as a person would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
LIMIT = 600  # seconds
sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT / ".collections")]


@dataclass(frozen=True)
class Run:
    """What one run of ansible-playbook said: its status, its output and the tasks that it called changed."""

    status: int
    output: str

    @property
    def changed(self) -> list[str]:
        task = ""
        found: list[str] = []
        for line in self.output.splitlines():
            if match := re.match(r"TASK \[(.*)\] \*", line):
                task = match[1]
            elif line.startswith("changed:") and (not found or found[-1] != task):
                found.append(task)
        return found

    @property
    def error(self) -> str:
        """The one error: the message of the task that failed."""
        return "\n".join(line for line in self.output.splitlines() if line.startswith(("fatal:", "[ERROR]")))


Converge = Callable[..., Run]


@pytest.fixture(scope="module")
def converge(request: pytest.FixtureRequest) -> Converge:
    """converge("-e", "vllm_service_port=1", playbook=...) -> Run, by the Ansible of these tests or of `venv`."""
    scenario = Path(request.path).parents[1]

    def run(
        *arguments: str,
        playbook: Path | None = None,
        environment: dict[str, str] | None = None,
        venv: Path = Path(sys.prefix),
    ) -> Run:
        command = venv / "bin/ansible-playbook"
        inventory = [] if "-i" in arguments else ["-i", str(PROJECT / "inventories/demo")]
        colour = ("ANSIBLE_FORCE_COLOR", "PY_COLORS")
        own = {name: value for name, value in os.environ.items() if name not in colour}
        settings = {"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(
            [command, playbook or scenario / "converge.yml", *inventory, *arguments],
            cwd=PROJECT,
            env={**own, **settings, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return Run(done.returncode, done.stdout)

    return run
