# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python3 -m simulation.host up|seed|down|status|clean`, run with PYTHONPATH=tests."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import HostError, State, clean, down, seed, status, up
from .commands import complain, say


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="simulation.host", description=__doc__)
    parser.add_argument("action", choices=("up", "seed", "down", "status", "clean"))
    parser.add_argument("--name", default="serving-demo")
    parser.add_argument("--ssh-port", type=int, default=22022)
    parser.add_argument("--shm-size", default="2g")
    parser.add_argument("--state-dir", type=Path, default=State().root)
    given = parser.parse_args(words)
    state = State(given.state_dir.resolve())
    try:
        if given.action == "up":
            up(given.name, given.ssh_port, given.shm_size, state)
        elif given.action == "seed":
            seed(given.name, state)
        elif given.action == "down":
            down(given.name, state)
        elif given.action == "status":
            say(json.dumps(status(given.name, state), indent=2))
        else:
            say(f"removed: {', '.join([*clean(state), str(state.root)])}")
    except HostError as error:
        complain(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
