# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""podman with storage, runtime folder and settings of the clone's own."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

from .commands import as_root, run
from .state import State, write

CONTROL_GROUPS = Path("/sys/fs/cgroup")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Podman:
    """Commands against one storage. Debian 12's podman needs runc (its crun refuses hybrid cgroups), cgroupfs (there
    may be no systemd on the controller) and limits that are not above the caller's own."""

    def __init__(self, state: State) -> None:
        self.folder = state.podman
        self.settings = self.folder / "containers.conf"

    def prepare(self) -> None:
        """Write the settings; forget the runtime folder of an earlier boot, or podman believes its containers run."""
        folders = {
            name: self.folder / name for name in ("storage", "run", "tmp", "scratch", "libpod", "volumes", "networks")
        }
        boot, seen = BOOT_ID.read_text().strip(), self.folder / "boot_id"
        if not seen.exists() or seen.read_text().strip() != boot:
            run(as_root(["rm", "-rf", str(folders["run"]), str(folders["tmp"])]), timeout=60)
            write(seen, boot + "\n")
        for folder in folders.values():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(self.settings, _settings(folders), mode=0o644)

    def argv(self, *words: str) -> list[str]:
        storage = ["--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run")]
        places = [*storage, "--tmpdir", str(self.folder / "tmp")]
        # TMPDIR: `podman cp` and `podman import` leave copies of their input there
        environment = [f"CONTAINERS_CONF={self.settings}", f"TMPDIR={self.folder / 'scratch'}"]
        return as_root(["env", *environment, "podman", *places, *words])

    def run(
        self, *words: str, timeout: float = 60, data: bytes | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return run(self.argv(*words), timeout=timeout, data=data, check=check, shown=" ".join(["podman", *words]))

    def inspect(self, name: str, template: str) -> str | None:
        """One value of a container, None where there is no such container."""
        done = self.run("container", "inspect", "--format", template, name, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def execute(self, name: str, *words: str, timeout: float = 60, check: bool = True) -> str:
        """A command inside a container, as its root; the output's text."""
        return self.run("exec", name, *words, timeout=timeout, check=check).stdout.strip()

    def sweep(self, identity: str) -> None:
        """What stays of a removed container when its monitor was killed: runc's record and the control groups."""
        patterns = (f"libpod_parent/libpod-{identity}", f"*/libpod_parent/libpod-{identity}")
        groups = [str(path) for pattern in patterns for path in CONTROL_GROUPS.glob(pattern)]
        if groups:
            path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
            run(as_root(["env", path, "runc", "delete", "--force", identity]), timeout=30, check=False)
            run(
                as_root(["find", *groups, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"]), timeout=30, check=False
            )


def _settings(folders: dict[str, Path]) -> str:
    limits = [
        f"nofile={_at_most(resource.RLIMIT_NOFILE, 1048576)}",
        f"nproc={_at_most(resource.RLIMIT_NPROC, 32768)}",  # podman lowers its own to the kernel's pid_max
    ]
    return "\n".join(
        [
            "[containers]",
            f"default_ulimits = [{', '.join(_quoted(limit) for limit in limits)}]",
            "log_size_max = 1048576",
            "[engine]",
            'runtime = "runc"',
            'cgroup_manager = "cgroupfs"',
            'events_logger = "none"',
            'lock_type = "file"',
            f"static_dir = {_quoted(str(folders['libpod']))}",
            f"tmp_dir = {_quoted(str(folders['tmp']))}",
            f"volume_path = {_quoted(str(folders['volumes']))}",
            "[network]",
            f"network_config_dir = {_quoted(str(folders['networks']))}",
            "",
        ]
    )


def _at_most(kind: int, highest: int) -> str:
    """soft:hard of a limit for the container: never above the caller's, who may not be allowed to raise it."""
    own = resource.getrlimit(kind)[1]
    value = highest if own == resource.RLIM_INFINITY else min(own, highest)
    return f"{value}:{value}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
