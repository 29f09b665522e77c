# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The world of a molecule scenario: `python3 -m simulation.scenario up|down`, run with PYTHONPATH=tests.

A throw-away host in the situation that the road finds, and a Hub. Ports are those of inventories/demo, from
DEMO_SSH_PORT and DEMO_HUB_PORT, so that the scenario uses that inventory as it is. The host's image is shared with
`make demo`, the rest is not.
"""

from __future__ import annotations

import os
import sys

from . import host
from .driver import hub
from .host.commands import HostError, complain, say
from .host.ssh import USER
from .host.state import CLONE, State, write

NAME = "serving-molecule"
LOGS = CLONE / ".cache/molecule"  # where .config/molecule/config.yml lets Ansible write what it shows


def ssh_config(state: State, port: int) -> str:
    """What testinfra's ssh needs to reach the host by its inventory name."""
    return (
        f"Host demo-host\n  HostName 127.0.0.1\n  Port {port}\n  User {USER}\n  IdentityFile {state.key}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {state.known_hosts}\n  StrictHostKeyChecking yes\n"
    )


def main() -> int:
    state = State()
    own = State(state.root / "molecule")
    ssh_port, hub_port = int(os.environ["DEMO_SSH_PORT"]), int(os.environ["DEMO_HUB_PORT"])
    try:
        if sys.argv[1:] == ["up"]:
            LOGS.mkdir(parents=True, exist_ok=True)
            host.up(NAME, ssh_port, state=state)
            host.seed(NAME, state)
            commit, _started = hub.ensure(own, hub_port)
            write(own.root / "ssh_config", ssh_config(state, ssh_port))
            say(f"scenario: host on 127.0.0.1:{ssh_port}, Hub on 127.0.0.1:{hub_port} at {commit}")
        elif sys.argv[1:] == ["down"]:
            hub.stop(own)
            host.down(NAME, state)
        else:
            raise HostError("say up or down")
    except HostError as error:
        complain(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
