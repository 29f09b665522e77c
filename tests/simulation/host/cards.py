# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated cards of a host: which files they are, and how a running host gets newer ones."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from .commands import HostError
from .podman import Podman

SOURCE = Path(__file__).resolve().parent.parent / "cards"
UNIT = "simulated-cards.service"
FILES = {
    "nvidia-smi": ("usr/bin/nvidia-smi", 0o755),
    "cards-daemon": ("usr/lib/simulated-cards/cards-daemon", 0o755),
    "cards.json": ("etc/simulated-cards.json", 0o644),
    UNIT: (f"etc/systemd/system/{UNIT}", 0o644),
}


def content(source: Path = SOURCE) -> dict[str, tuple[bytes, int]]:
    """{path in the host: (bytes, mode)}."""
    missing = [name for name in FILES if not (source / name).is_file()]
    if missing:
        raise HostError(f"{source} lacks {', '.join(missing)}: the clone is incomplete, restore it from git")
    return {place: ((source / name).read_bytes(), mode) for name, (place, mode) in FILES.items()}


def add(tar: tarfile.TarFile, source: Path = SOURCE) -> None:
    """Put the files and the unit's enablement into an archive for the host's root folder."""
    for place, (data, mode) in content(source).items():
        entry = tarfile.TarInfo(place)
        entry.size, entry.mode = len(data), mode
        tar.addfile(entry, io.BytesIO(data))
    link = tarfile.TarInfo(f"etc/systemd/system/multi-user.target.wants/{UNIT}")
    link.type, link.linkname = tarfile.SYMTYPE, f"/etc/systemd/system/{UNIT}"
    tar.addfile(link)


def digest(source: Path = SOURCE) -> str:
    """Changes whenever one of the files does."""
    total = hashlib.sha256()
    for place, (data, mode) in sorted(content(source).items()):
        total.update(f"{place} {mode} {len(data)} ".encode() + data)
    return total.hexdigest()


def refresh(podman: Podman, name: str) -> None:
    """Replace the files in a running host and restart the daemon."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        add(tar)
    podman.run("cp", "-", f"{name}:/", data=buffer.getvalue())
    podman.execute(name, "systemctl", "daemon-reload")
    podman.execute(name, "systemctl", "restart", UNIT)
