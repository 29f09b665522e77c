# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way in: one key pair for the clone, one host key per host, and known hosts that are known beforehand."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from .commands import HostError, run
from .state import State, write

USER = "ops"


def client_key(state: State) -> str:
    """Make the clone's key pair unless it is there; -> the public key."""
    with state.lock("ssh"):
        return _key_pair(state.key, "blackwell-serving demo")


def host_key(state: State, name: str, port: int) -> tuple[str, str]:
    """Make a host's key pair unless it is there and enter it as [127.0.0.1]:port; -> (private, public)."""
    path = state.host(name) / "ssh_host_ed25519_key"
    with state.lock("ssh"):
        public = _key_pair(path, name)
        place = f"[127.0.0.1]:{port}"
        kept = [line for line in _lines(state.known_hosts) if line.split(" ")[0] != place]
        kept.append(f"{place} {' '.join(public.split()[:2])}")
        write(state.known_hosts, "\n".join(kept) + "\n")
    return path.read_text(), public


def forget(state: State, name: str) -> None:
    """Take a host's key out of the known hosts."""
    public = state.host(name) / "ssh_host_ed25519_key.pub"
    with state.lock("ssh"):
        words = public.read_text().split() if public.exists() else []
        lines = _lines(state.known_hosts)
        kept = [line for line in lines if line.split(" ")[1:] != words[:2]]
        if kept != lines:
            write(state.known_hosts, "".join(line + "\n" for line in kept))


def argv(state: State, port: int, *words: str) -> list[str]:
    """The ssh command for a host, free of the user's own settings."""
    options = {
        "IdentitiesOnly": "yes", "UserKnownHostsFile": f'"{state.known_hosts}"', "StrictHostKeyChecking": "yes",
        "BatchMode": "yes", "ConnectTimeout": "5", "GlobalKnownHostsFile": "/dev/null",
    }  # fmt: skip
    flags = [flag for name, value in options.items() for flag in ("-o", f"{name}={value}")]
    return ["ssh", "-F", "/dev/null", "-i", str(state.key), *flags, "-p", str(port), f"{USER}@127.0.0.1", *words]


def command(
    state: State, port: int, line: str, *, timeout: float = 60, check: bool = True, data: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a shell line on the host as `ops`."""
    return run(argv(state, port, line), timeout=timeout, check=check, data=data)


def wait(state: State, port: int, limit: float) -> None:
    """Until a login as `ops` with sudo works, at most `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        done = command(state, port, "sudo -n true", timeout=20, check=False)
        if done.returncode == 0:
            return
        if time.monotonic() > end:
            words = (done.stderr or done.stdout).strip().splitlines()
            raise HostError(f"no login with sudo on port {port} within {limit:.0f} s: {(words or ['no answer'])[-1]}")
        time.sleep(0.2)


def _key_pair(path: Path, comment: str) -> str:
    public = path.with_name(path.name + ".pub")
    if not (path.exists() and public.exists()):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for half in (path, public):
            half.unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], timeout=30)
    return public.read_text().strip()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
