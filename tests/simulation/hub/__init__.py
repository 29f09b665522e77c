# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Hub on loopback that the real huggingface_hub client accepts, with faults on demand.

In a test:      with Hub() as hub: hub.add_repository("org/name", folder); ... hub.endpoint ...
As a program:   PYTHONPATH=tests python3 -m simulation.hub --repository org/name=FOLDER --port 18080
Only the standard library is used, so that any Python of any host runs it.
"""

from __future__ import annotations

from .client import client_environment
from .faults import Fault
from .repository import Snapshot
from .server import Hub

__all__ = ["Fault", "Hub", "Snapshot", "client_environment"]
