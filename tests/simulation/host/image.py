# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of a bare Debian 12 with systemd, sshd, sudo and Python; built once per recipe."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from .commands import HostError, as_root, run, say
from .controller import CODENAME, Registries
from .podman import Podman
from .state import State

REPOSITORY = "localhost/blackwell-serving-host"
BUILD_LIMIT = 900  # seconds
STALE_LIMIT = 60  # seconds for the programs of a killed build to end
CUSTOMIZE = Path(__file__).parent / "inside" / "customize.sh"
# Not g++, Python's headers or libnuma1: a deployment has to bring what its engine needs.
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "python3", "python3-apt", "python3-venv", "procps",
    "iproute2", "ca-certificates",
)  # fmt: skip
# Kept in the image, so that the host's own installs are as quick: it is thrown away, and nobody reads manuals there.
DPKG_OPTIONS = (
    "force-unsafe-io", "path-exclude=/usr/share/man/*", "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/locale/*",
)  # fmt: skip


def reference() -> str:
    """The image's name: its tag is a hash of the recipe, so another recipe is another image."""
    recipe = [CODENAME, PACKAGES, DPKG_OPTIONS, CUSTOMIZE.read_text()]
    return f"{REPOSITORY}:" + hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]


def ensure(state: State, podman: Podman, registries: Registries) -> tuple[str, bool]:
    """-> (image, whether it was built now). One build at a time; a killed one leaves nothing that has the name."""
    name = reference()
    with state.lock("image"):
        if podman.run("image", "exists", name, check=False).returncode == 0:
            return name, False
        _build(state, podman, registries, name)
    return name, True


def _build(state: State, podman: Podman, registries: Registries, name: str) -> None:
    for stale in state.root.glob("build.*"):
        _remove_stale(stale)
    podman.run("image", "prune", "--force", timeout=120)
    folder = Path(tempfile.mkdtemp(prefix="build.", dir=state.root))
    folder.chmod(0o755)  # apt's own user downloads below it
    say(f"image: building Debian {CODENAME} with {len(PACKAGES)} packages and what they need (about a minute)")
    try:
        podman.run("tag", _import(podman, folder, registries), name)
        listed = podman.run("images", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY).stdout.split()
        for other in set(listed) - {name}:  # of earlier recipes; one that a host still uses stays
            podman.run("rmi", other, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_stale(folder: Path) -> None:
    """Remove what a killed build left. Its programs may be at work for a moment yet, and end for want of their files;
    what they have mounted below is not followed."""
    end = time.monotonic() + STALE_LIMIT
    while folder.exists():
        done = run(as_root(["rm", "-rf", "--one-file-system", str(folder)]), timeout=120, check=False)
        if done.returncode != 0 and time.monotonic() > end:
            raise HostError(f"an earlier build is still at work in {folder}: end it, then remove that folder")
        time.sleep(0.2)


def _import(podman: Podman, folder: Path, registries: Registries) -> str:
    """Stream the root file system into podman; -> the untagged image's ID, once both sides ended well."""
    sources = folder / "sources.list"
    sources.write_text(registries.apt_sources)
    log = folder / "mmdebstrap.log"
    with log.open("wb") as words:
        maker = subprocess.Popen(
            as_root(["env", f"TMPDIR={folder}", *mmdebstrap(sources, registries)]),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words,
        )  # fmt: skip
        try:
            taken = subprocess.run(
                podman.argv("import", "--quiet", "-"), stdin=maker.stdout, capture_output=True, timeout=BUILD_LIMIT,
                check=False,
            )  # fmt: skip
            made = maker.wait(timeout=60)
        except subprocess.TimeoutExpired:
            raise HostError(f"the image was not ready within {BUILD_LIMIT} s") from None
        finally:
            if maker.poll() is None:
                maker.terminate()
                maker.wait(timeout=60)
    if made != 0 or taken.returncode != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("I: ")]
        lines += taken.stderr.decode(errors="replace").splitlines()
        raise HostError("the image could not be built: " + " | ".join(lines[-5:]))
    return taken.stdout.decode().strip().splitlines()[-1]


def mmdebstrap(sources: Path, registries: Registries) -> list[str]:
    """The command that writes the root file system as a tar archive to standard output."""
    argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar", f"--include={','.join(PACKAGES)}"]
    argv += [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    argv += [f"--aptopt={line}" for line in registries.apt_options.splitlines() if "/etc/controller/" not in line]
    credentials = [path for path in registries.apt_files if path.name.startswith("auth.conf")]
    argv += [f"--setup-hook=copy-in {shlex.quote(str(path))} /etc/apt" for path in credentials]
    argv += [f'--customize-hook=rm -rf "$1"/etc/apt/{path.name}' for path in credentials]
    argv += [f'--customize-hook=sh {shlex.quote(str(CUSTOMIZE))} "$1"']
    return [*argv, CODENAME, "-", *([str(sources)] if registries.apt_sources else [])]
