# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this machine must offer before a host is made on it.

Looking changes nothing; each lack is one line with its fix.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from . import image
from .commands import HostError, as_root, run
from .podman import Podman
from .state import State, read_json

GIB = 1 << 30
MEMORY_BYTES = 6 * GIB
DISK_BYTES = 15 * GIB
DISK_BYTES_LATER = 2 * GIB  # once a host is there
CAP_SYS_ADMIN = 21
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# program -> Debian's package
PROGRAMS = {
    "podman": "podman", "runc": "runc", "mmdebstrap": "mmdebstrap", "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}  # fmt: skip


def missing_packages() -> list[str]:
    """Debian packages to install first."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    packages = {package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)}
    if importlib.util.find_spec("ensurepip") is None:
        packages.add(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")
    if not KEYRING.exists():
        packages.add("debian-archive-keyring")
    return sorted(packages)


def install_packages(packages: list[str]) -> None:
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    run(as_root([*quiet, "update"]), timeout=300)
    run(as_root([*quiet, "install", "-y", "--no-install-recommends", *packages]), timeout=900)


def lacks(state: State, name: str, ports: Iterable[int]) -> list[str]:
    """Everything that would stop `up`, in the order in which one would mend it; empty when all is there. `ports` are
    needed free on 127.0.0.1; they are not looked at when the host `name` is there already, even half made."""
    if sys.platform != "linux":
        return [f"this is {platform.system()}: a Linux machine is needed (Debian 12 or Ubuntu 24.04)"]
    made = bool(read_json(state.host(name) / "ready.json"))
    lines = [privileges(), shared_memory(), control_groups(), memory(), disk(state.root, made)]
    if not state.host(name).exists():
        lines += [port(number) for number in ports]
    if missing_packages() or not image_is_built(state):
        lines.append(archive())
    return [line for line in lines if line]


def privileges() -> str | None:
    if os.geteuid() != 0:
        if not shutil.which("sudo"):
            return "neither root nor sudo: install sudo for this user or become root"
        if run(["sudo", "-n", "true"], timeout=20, check=False).returncode and not sys.stdin.isatty():
            return "sudo asks for a password and there is no terminal: run `sudo -v` first or become root"
        return None
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.M)
    if effective and not int(effective[1], 16) >> CAP_SYS_ADMIN & 1:
        return "root may not mount here (no CAP_SYS_ADMIN): use a virtual machine or a container with --privileged"
    return None


def shared_memory(path: Path = Path("/dev/shm")) -> str | None:
    if not (path.is_dir() and os.access(path, os.W_OK)):
        return f"{path} cannot be written: mount -t tmpfs -o mode=1777 tmpfs {path}"
    return None


def control_groups(mounts: Path = Path("/proc/mounts")) -> str | None:
    for line in mounts.read_text().splitlines():
        place, kind, options = line.split()[1:4]
        unified = kind == "cgroup2" and place == "/sys/fs/cgroup"
        legacy = kind == "cgroup" and "name=systemd" in options
        if (unified or legacy) and "rw" in options.split(","):
            return None
    return "no writable control groups, which systemd needs: mount -t cgroup2 cgroup2 /sys/fs/cgroup"


def memory(meminfo: Path = Path("/proc/meminfo")) -> str | None:
    total = re.search(r"^MemTotal:\s+(\d+) kB", meminfo.read_text(), re.M)
    have = int(total[1]) * 1024 if total else 0
    if have < MEMORY_BYTES:
        return (
            f"{have / GIB:.1f} GiB of memory, {MEMORY_BYTES // GIB} GiB are needed by the engine: use a larger machine"
        )
    return None


def disk(folder: Path, made: bool = False) -> str | None:
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    need, have = DISK_BYTES_LATER if made else DISK_BYTES, shutil.disk_usage(place).free
    if have < need:
        return f"{have / GIB:.1f} GiB free on the disk of {place}, {need // GIB} GiB are needed: free some"
    return None


def port(number: int) -> str | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            return f"port {number} on 127.0.0.1 cannot be used ({error.strerror}): end its owner or choose another port"
    return None


def archive() -> str | None:
    """Fetch one small file through apt's own settings (proxy, credentials, certificates)."""
    if not shutil.which("apt-get"):
        return "no apt-get: this machine is neither Debian nor Ubuntu, use one that is"
    plan = run(["apt-get", "--print-uris", "update"], timeout=60, check=False).stdout
    listed = re.findall(r"^'(\S+/InRelease)' ", plan, re.M)
    if not listed:
        return "apt knows no package archive: write one into /etc/apt/sources.list"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        try:
            done = run(["/usr/lib/apt/apt-helper", "-o", "Acquire::Retries=1", "download-file", listed[0],
                        f"{folder}/InRelease"], timeout=60, check=False)  # fmt: skip
            words = (done.stderr or done.stdout).strip().splitlines() if done.returncode else []
        except HostError as error:
            words = [str(error)]
    if words:
        return f"apt cannot reach {listed[0]} ({words[-1]}): check the network and apt's proxy settings"
    return None


def image_is_built(state: State) -> bool:
    if not (state.podman.exists() and shutil.which("podman")):
        return False
    podman = Podman(state)
    podman.prepare()
    return podman.run("image", "exists", image.reference(), check=False).returncode == 0
