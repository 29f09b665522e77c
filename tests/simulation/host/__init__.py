# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Throw-away Debian 12 hosts for the demo and the scenarios: systemd as PID 1, sshd on a loopback port, sudo.

from simulation.host import up, down
host = up("serving-demo", 22022)      # idempotent
down("serving-demo")
"""

from __future__ import annotations

from .cleanup import clean
from .commands import HostError
from .container import Host, down, seed, status, up
from .state import State

__all__ = ["Host", "HostError", "State", "clean", "down", "seed", "status", "up"]
