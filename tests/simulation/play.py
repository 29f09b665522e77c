# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play of ansible-playbook with the collection of this clone, over the local connection unless told otherwise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 180  # seconds
# Nobody is faster. A worker of Ansible that is killed while it hands over a line keeps the queue's lock, and the main
# process waits for it for ever.
HUMAN_S = 0.5

Task = dict[str, Any]


@contextmanager
def ended_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Play:
    """One run that is over. A task that fails does not end it.

    tasks:        {name: task}, the name being that of a variable; its result is kept
    hosts:        an inventory
    plugins:      folder with library, action_plugins and connection_plugins for the play
    connection:   name of the connection plugin
    interrupt_at: words in a line of the output that are answered with Ctrl-C
    """

    def __init__(
        self,
        folder: Path,
        tasks: Mapping[str, Task],
        *arguments: str,
        hosts: str = "gpu1,",
        strategy: str = "linear",
        connection: str = "local",
        become: bool = False,
        plugins: Path | None = None,
        environment: Mapping[str, str] | None = None,
        interrupt_at: str | None = None,
    ) -> None:
        self.folder, self.jobs = folder, folder / "jobs"
        named = [{"name": name, "register": name, "ignore_errors": True, **task} for name, task in tasks.items()]
        results = "{{ {" + ", ".join(f"'{name}': {name}" for name in tasks) + "} | to_json }}"
        keep = {
            "ansible.builtin.copy": {"content": results, "dest": f"{folder}/{{{{ inventory_hostname }}}}.json"},
            "delegate_to": "localhost",
            "become": False,
        }
        content = {"hosts": "all", "gather_facts": False, "strategy": strategy, "become": become}
        (folder / "play.yml").write_text(json.dumps([{**content, "tasks": [*named, keep]}]))
        program = Path(sys.executable).with_name("ansible-playbook")
        running = subprocess.Popen(
            [program, "play.yml", "-i", hosts, "-c", connection, *arguments],
            cwd=folder,
            env=self._environment(plugins, environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with running, ended_after(running, LIMIT):
            self.output = self._read(running, interrupt_at)
        if bool(running.returncode) == (interrupt_at is None):
            raise AssertionError(self.output)

    @staticmethod
    def _read(running: subprocess.Popen[str], interrupt_at: str | None) -> str:
        read = []
        for line in running.stdout or ():
            read.append(line)
            if interrupt_at is not None and interrupt_at in line:
                time.sleep(HUMAN_S)
                running.send_signal(signal.SIGINT)
                interrupt_at = None
        return "".join(read)

    def results(self, host: str = "gpu1") -> dict[str, dict[str, Any]]:
        content: dict[str, dict[str, Any]] = json.loads((self.folder / f"{host}.json").read_text())
        return content

    def lines(self, task: str | None = None, host: str = "gpu1") -> list[str]:
        """What was shown of the progress, of the whole play or while the task ran."""
        part = self.output.partition(f"TASK [{task}] ")[2].partition("TASK [")[0] if task else self.output
        return [line for line in part.splitlines() if line.startswith(f"{host}: ")]

    def left(self) -> list[str]:
        """Files of jobs that are still on the host."""
        return sorted(path.name for path in self.jobs.rglob("*") if path.is_file())

    def _environment(self, plugins: Path | None, more: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        if plugins is not None:
            own |= {
                "ANSIBLE_LIBRARY": str(plugins / "library"),
                "ANSIBLE_ACTION_PLUGINS": str(plugins / "action_plugins"),
                "ANSIBLE_CONNECTION_PLUGINS": str(plugins / "connection_plugins"),
            }
        return own | {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_ASYNC_DIR": str(self.jobs),
            "ANSIBLE_REMOTE_TMP": str(self.folder / "remote"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
            **more,
        }
