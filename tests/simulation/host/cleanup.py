# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take everything away again: hosts, image, podman's storage, the state folder, and what podman left elsewhere."""

from __future__ import annotations

from pathlib import Path

from .commands import as_root, run
from .podman import CONTROL_GROUPS, Podman
from .state import State

SHARED_STORAGE = Path("/var/lib/containers/storage")  # there where somebody uses podman without a storage of his own


def clean(state: State | None = None) -> list[str]:
    """-> the names of the hosts that were removed."""
    state = state or State()
    names: list[str] = []
    podman = Podman(state)
    if podman.settings.exists():
        podman.prepare()
        names = podman.run("ps", "--all", "--format", "{{.Names}}", check=False).stdout.split()
        identities = podman.run("ps", "--all", "--quiet", "--no-trunc", check=False).stdout.split()
        podman.run("rm", "--all", "--force", "--time", "2", timeout=120, check=False)
        for identity in identities:
            podman.sweep(identity)
    for mount in sorted(_mounts_below(state.root), reverse=True):
        run(as_root(["umount", "--lazy", mount]), timeout=30, check=False)
    run(as_root(["rm", "-rf", str(state.root)]), timeout=300)
    _tidy()
    return names


def _tidy() -> None:
    """Folders that podman makes for itself; rmdir leaves those that another container is using."""
    folders = [*CONTROL_GROUPS.glob("libpod_parent"), *CONTROL_GROUPS.glob("*/libpod_parent"), Path("/run/runc")]
    if run(as_root(["test", "-e", str(SHARED_STORAGE)]), timeout=30, check=False).returncode != 0:
        run(as_root(["rm", "-rf", str(SHARED_STORAGE.with_name("cache"))]), timeout=30)
        folders.append(SHARED_STORAGE.parent)
    present = [str(folder) for folder in folders if folder.is_dir()]
    if present:
        run(as_root(["rmdir", *present]), timeout=30, check=False)


def _mounts_below(folder: Path) -> list[str]:
    fields = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    places = (field[1].replace("\\040", " ") for field in fields)
    return [place for place in places if place.startswith(f"{folder}/")]
