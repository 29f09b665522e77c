# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a host into the situation of the day (inside/seed.py does it, inside the host)."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from .commands import HostError, say
from .podman import Podman

INSIDE = Path(__file__).parent / "inside"
PLACE = "usr/lib/simulation"


def seed(podman: Podman, name: str) -> bool:
    """-> whether anything was done; a host is seeded once, and a killed seeding is finished by the next."""
    if podman.inspect(name, "{{.State.Running}}") != "true":
        raise HostError(f"{name} is not running: `up` comes first")
    if podman.run("exec", name, "test", "-e", "/var/lib/simulation/seeded", check=False).returncode == 0:
        say(f"{name}: was seeded before, nothing to do")
        return False
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(INSIDE.iterdir()):
            if path.suffix in (".py", ".service"):
                entry = tarfile.TarInfo(f"{PLACE}/{path.name}")
                entry.size, entry.mode = path.stat().st_size, 0o644
                tar.addfile(entry, io.BytesIO(path.read_bytes()))
    podman.run("cp", "-", f"{name}:/", data=buffer.getvalue())
    podman.execute(name, "python3", f"/{PLACE}/seed.py", timeout=120)
    say(f"{name}: seeded, vllm-glm5.service holds all cards")
    return True
