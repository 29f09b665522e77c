# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo`: from a bare machine to a verified service on a throw-away host, and the report about it.

    python3 tests/simulation/demo.py up [ARGUMENT OF ansible-playbook ...]
    python3 tests/simulation/demo.py clean

`up` may be repeated; each step does only what is not done yet. Ports: DEMO_SSH_PORT, DEMO_HUB_PORT, DEMO_SERVICE_PORT.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # the interpreter of a machine that nothing has prepared yet
    sys.exit("error: Python 3.11 or later is needed: apt-get install python3 on Debian 12 or Ubuntu 24.04")

import fcntl
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from simulation import host
from simulation.driver import hub, playbook, tools
from simulation.host import requirements, ssh
from simulation.host.commands import HostError, complain, say
from simulation.host.state import CLONE, State, write

NAME = "serving-demo"
SSH_PORT = int(os.environ.get("DEMO_SSH_PORT", "22022"))
HUB_PORT = int(os.environ.get("DEMO_HUB_PORT", "18080"))
SERVICE_PORT = int(os.environ.get("DEMO_SERVICE_PORT", "18000"))
PLAYBOOK_LIMIT = 3600  # seconds
REPORT = "/var/lib/blackwell-serving/vllm-kimi/report.md"


class Clock:
    """What each step took."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.steps.append((title, time.monotonic() - start))

    def table(self) -> str:
        rows = [*self.steps, ("total", time.monotonic() - self.start)]
        return "\n".join(f"  {title:<42} {seconds:7.1f} s" for title, seconds in rows)


def up(state: State, arguments: list[str]) -> int:
    clock = Clock()
    with clock.step("prerequisites"):
        check(state)
        packages = requirements.missing_packages()
        if packages:
            say(f"installing Debian's packages {', '.join(packages)}")
            remember(state, packages)
            requirements.install_packages(packages)
    with clock.step("tools (venv)"):
        venv, made = tools.ensure(state, CLONE / "requirements-test.txt")
        say(f"tools: {'installed into' if made else 'complete in'} {venv}")
    with clock.step("host"):
        host.up(NAME, SSH_PORT, state=state)
    with clock.step("situation"):
        host.seed(NAME, state)
    with clock.step("Hub"):
        commit, started = hub.ensure(state, HUB_PORT)
        say(f"Hub: {'started' if started else 'running'} on 127.0.0.1:{HUB_PORT}, {hub.REPOSITORY} at {commit[:12]}")
    with clock.step("playbook"):
        outcome = play(state, venv, arguments)
    show_report(state)
    say(f"\nTimes\n{clock.table()}\n")
    for name, counts in outcome.recap.items():
        say(f"{name}: {counts}")
    if outcome.timed_out:
        complain(f"error: the playbook was ended after {PLAYBOOK_LIMIT} s")
    elif outcome.status:
        complain(f"error: the playbook ended with {outcome.status}; its output is in {state.root / 'playbook.log'}")
    return outcome.status


def check(state: State) -> None:
    lines = requirements.lacks(state, NAME, (SSH_PORT, HUB_PORT, SERVICE_PORT)) + hub.lacks()
    if lines:
        raise HostError("this machine lacks:\n" + "\n".join(f"  - {line}" for line in lines))


def play(state: State, venv: Path, arguments: list[str]) -> playbook.Outcome:
    environ = {**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "VLLM_API_KEY": api_key(state)}
    environ |= {"DEMO_SSH_PORT": str(SSH_PORT), "DEMO_HUB_PORT": str(HUB_PORT), "DEMO_SERVICE_PORT": str(SERVICE_PORT)}
    environ |= {"ANSIBLE_HOME": str(state.root / "ansible")}
    argv = [str(venv / "bin/ansible-playbook"), "playbooks/site.yml", "-i", "inventories/demo", *arguments]
    say("\n" + " ".join(["ansible-playbook", *argv[1:]]) + "\n")
    # ssh's control sockets need a short path, which the clone's may not be
    with tempfile.TemporaryDirectory(prefix="demo-", ignore_cleanup_errors=True) as sockets:
        environ["ANSIBLE_SSH_CONTROL_PATH_DIR"] = sockets
        return playbook.run(argv, environ, CLONE, state.root / "playbook.log", PLAYBOOK_LIMIT)


def api_key(state: State) -> str:
    """Made once; a file and a variable, never an argument."""
    path = state.root / "secrets" / "api_key"
    if not path.exists():
        write(path, secrets.token_urlsafe(32) + "\n")
    return path.read_text().strip()


def show_report(state: State) -> None:
    local = state.root / "report.md"
    if local.exists():
        say("\n" + local.read_text())
        return
    done = ssh.command(state, SSH_PORT, f"sudo -n cat {REPORT}", check=False)
    say("\n" + (done.stdout if done.returncode == 0 else "There is no deployment report yet."))


def remember(state: State, packages: list[str]) -> None:
    path = state.root / "packages"
    before = path.read_text().split() if path.exists() else []
    write(path, "\n".join(sorted({*before, *packages})) + "\n")


def clean(state: State) -> int:
    packages = state.root / "packages"
    stays = packages.read_text().split() if packages.exists() else []
    had_hub = hub.stop(state)
    removed = host.clean(state)
    say(f"removed: {', '.join([*removed, *(['Hub'] if had_hub else []), str(state.root)])}")
    if stays:
        say(f"stays: Debian's packages that were installed for the demo: {' '.join(stays)}")
    return 0


@contextmanager
def alone(state: State) -> Iterator[None]:
    """One `make demo` or `make demo-clean` per clone at a time."""
    state.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (state.root / "demo.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HostError(f"another demo command is at work in {state.root}: wait until it has ended") from None
        yield


def main(words: list[str]) -> int:
    state = State()
    try:
        if words[:1] == ["up"]:
            with alone(state):
                return up(state, words[1:])
        if words == ["clean"]:
            if not state.root.exists():
                say("nothing to remove")
                return 0
            with alone(state):
                return clean(state)
    except HostError as error:
        complain(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        complain("\nstopped; the next `make demo` goes on from here")
        return 130
    complain(str(__doc__))
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
