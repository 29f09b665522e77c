# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host: create, boot, repair, end. `up` is the only way in, and it may be called again at any moment."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from . import cards, image, provision, requirements, situation, ssh
from .commands import HostError, run, say
from .controller import registries
from .podman import Podman
from .state import State, read_json, write

BOOT_LIMIT = 60  # seconds until systemd says running or degraded, and as long again for ssh
NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,39}$")


@dataclass(frozen=True)
class Host:
    """A running host and how to reach it."""

    name: str
    port: int
    key: Path
    known_hosts: Path
    changed: bool
    user: str = ssh.USER


def up(name: str, port: int, shm_size: str = "2g", state: State | None = None) -> Host:
    """Bring the host to running, from whatever is there: nothing, a half-built image, a half-made or stopped
    container. On a running one nothing happens. `port` is sshd's, on 127.0.0.1."""
    state, podman = _tools(name, state)
    wanted = {"port": port, "shm_size": shm_size}
    with state.lock(f"host-{name}"):
        current = _ready(state, podman, name)
        if current and current.get("wanted") != wanted:
            raise HostError(
                f"{name} exists with {_words(current['wanted'])}, not {_words(wanted)}: ask for the same, or remove it "
                "first (`down`, make demo-clean)"
            )
        changed = True
        if current and _answers(state, podman, name, port):
            changed = current.get("cards") != cards.digest()
            if changed:
                cards.refresh(podman, name)
            say(f"{name}: already running, ssh on 127.0.0.1:{port}" + (", newer cards installed" if changed else ""))
        elif current and _restart(state, podman, name, port):
            say(f"{name}: had stopped, started again")
        else:
            _create(state, podman, name, port, shm_size)
        record = {"id": podman.inspect(name, "{{.Id}}"), "wanted": wanted, "cards": cards.digest()}
        if record != current:
            write(state.host(name) / "ready.json", json.dumps(record) + "\n")
    return Host(name, port, state.key, state.known_hosts, changed)


def seed(name: str, state: State | None = None) -> bool:
    """Put a running host into the situation of the day, once; -> whether that happened now."""
    state, podman = _tools(name, state)
    with state.lock(f"host-{name}"):
        return situation.seed(podman, name)


def _words(wanted: object) -> str:
    return ", ".join(f"{name} {value}" for name, value in wanted.items()) if isinstance(wanted, dict) else str(wanted)


def down(name: str, state: State | None = None) -> bool:
    """End the host and forget it; -> whether there was one. The image stays for the next `up`."""
    state, podman = _tools(name, state)
    with state.lock(f"host-{name}"):
        found = podman.inspect(name, "{{.Id}}") is not None
        _remove(podman, name)
        ssh.forget(state, name)
        run(["rm", "-rf", str(state.host(name))], timeout=30)
    say(f"{name}: {'removed' if found else 'was not there'}")
    return found


def status(name: str, state: State | None = None) -> dict[str, object]:
    """What is known of the host now."""
    state, podman = _tools(name, state)
    ready = _ready(state, podman, name)
    running = _running(podman, name)
    answer: dict[str, object] = {
        "name": name, "image": image.reference(), "container": podman.inspect(name, "{{.State.Status}}") or "none",
        "complete": bool(ready), "wanted": (ready or {}).get("wanted"),
    }  # fmt: skip
    if running:
        answer["system"] = podman.execute(name, "systemctl", "is-system-running", check=False)
        answer["failed_units"] = _failed_units(podman, name)
    return answer


def _tools(name: str, state: State | None) -> tuple[State, Podman]:
    if not NAME.match(name):
        raise HostError(f"{name!r} is no name for a host: small letters, digits and dashes, at most 40")
    state = state or State()
    with state.lock("podman"):
        podman = Podman(state)
        podman.prepare()
    return state, podman


def _ready(state: State, podman: Podman, name: str) -> dict[str, object] | None:
    """What was recorded when this very container came up; None for a half-made one."""
    record = read_json(state.host(name) / "ready.json")
    return record if record and record.get("id") == podman.inspect(name, "{{.Id}}") else None


def _running(podman: Podman, name: str) -> bool:
    if podman.inspect(name, "{{.State.Running}}") != "true":
        return False
    return podman.run("exec", name, "true", check=False).returncode == 0


def _answers(state: State, podman: Podman, name: str, port: int) -> bool:
    return _running(podman, name) and ssh.command(state, port, "true", timeout=20, check=False).returncode == 0


def _restart(state: State, podman: Podman, name: str, port: int) -> bool:
    """Start a complete host that has stopped or does not answer; -> whether it came back."""
    try:
        podman.run("stop", "--time", "10", name, check=False)
        podman.run("start", name)
        _boot(state, podman, name, port)
    except HostError as error:
        say(f"{name}: is broken and is made again ({error})")
        return False
    return True


def _create(state: State, podman: Podman, name: str, port: int, shm_size: str) -> None:
    _remove(podman, name)
    if busy := requirements.port(port):
        raise HostError(busy)
    start = time.monotonic()
    way = registries()
    reference, built = image.ensure(state, podman, way)
    if built:
        say(f"image: {reference} ready in {time.monotonic() - start:.1f} s")
    start = time.monotonic()
    mounts = [f"--mount=type=bind,source={here},target={there},ro=true" for here, there in way.mounts.items()]
    podman.run(
        "create", "--name", name, "--hostname", name, "--add-host", f"{name}:127.0.1.1", "--network", "host",
        "--privileged", "--systemd=always",
        "--pull=never", "--shm-size", shm_size, *mounts, reference, "/sbin/init",
    )  # fmt: skip
    files = provision.archive(port, ssh.client_key(state), ssh.host_key(state, name, port), way)
    podman.run("cp", "-", f"{name}:/", data=files)
    podman.run("start", name)
    _boot(state, podman, name, port)
    say(f"{name}: booted in {time.monotonic() - start:.1f} s, ssh on 127.0.0.1:{port}")


def _boot(state: State, podman: Podman, name: str, port: int) -> None:
    """Wait until systemd has started everything and ssh lets `ops` in."""
    end = time.monotonic() + BOOT_LIMIT
    while True:
        system = podman.execute(name, "systemctl", "is-system-running", check=False)
        if system in ("running", "degraded"):
            break
        if time.monotonic() > end:
            raise HostError(
                f"systemd in {name} is {system or 'silent'} after {BOOT_LIMIT} s: {_last_words(podman, name)}"
            )
        time.sleep(0.2)
    if system == "degraded":
        say(f"{name}: degraded, failed units: {', '.join(_failed_units(podman, name))}")
    ssh.wait(state, port, BOOT_LIMIT)


def _failed_units(podman: Podman, name: str) -> list[str]:
    lines = podman.execute(name, "systemctl", "list-units", "--failed", "--plain", "--no-legend", check=False)
    return [line.split()[0] for line in lines.splitlines() if line.split()]


def _last_words(podman: Podman, name: str) -> str:
    done = podman.run("logs", "--tail", "5", name, check=False)
    return " | ".join((done.stdout + done.stderr).strip().splitlines()) or "no console output"


def _remove(podman: Podman, name: str) -> None:
    identity = podman.inspect(name, "{{.Id}}")
    podman.run("rm", "--force", "--ignore", "--time", "2", name, timeout=60)
    if identity:
        podman.sweep(identity)
