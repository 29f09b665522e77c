# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiers that look at the collection as users get it: built, installed, cut down, linted, through ansible-test."""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .running import BIN, CACHE, Argv, Done, Result, Tier, install_packages

# What a published collection may rely on; everything else may be missing.
RELIED_ON = {"meta", "plugins", "roles", "playbooks", "MANIFEST.json", "FILES.json"}
UNWANTED = re.compile(
    r"^(tests/(simulation|e2e|benchmarks|output)|inventories|molecule|\.[^/]+)(/|$)|\.pyc$|(^|/)__pycache__(/|$)"
)
LARGEST_FILE = 1 << 20  # bytes
# ansible-test bootstraps pip with a script from a server of its own. Python has a pip inside, ensurepip; it runs in a
# process of its own, because it switches pip's settings off.
GET_PIP = """\
import runpy, subprocess, sys
subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
sys.argv = ["pip", "install", *[a for a in sys.argv[1:] if a not in ("--no-setuptools", "--no-wheel")]]
runpy.run_module("pip", run_name="__main__")
"""
GET_PIP_NAMES = ("get_pip_24_2.py", "get_pip_25_2.py")  # of ansible-core 2.19 and 2.21


def install(tier: Tier, tree: Path) -> tuple[Result, Path]:
    """Build the collection and install it below the tree; -> (how that went, the folder of the installed copy)."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    copy = tree / "ansible_collections" / "blackwell" / "serving"
    galaxy: Argv = [BIN / "ansible-galaxy", "collection"]
    done = tier.run([*galaxy, "build", "--output-path", tree, "."])
    for tarball in tree.glob("*.tar.gz"):
        target = {"ANSIBLE_COLLECTIONS_PATH": str(tree)}
        done = tier.run([*galaxy, "install", "--offline", "-p", tree, tarball], environment=target)
    result = done.result("build and install")
    return (result if copy.is_dir() else replace(result, passed=0, failed=1)), copy


def build(tier: Tier) -> Iterator[Result]:
    """The tarball holds what it should, and works when only what may be relied on is left of it."""
    tree = CACHE / "build"
    installed, copy = install(tier, tree)
    yield installed
    if installed.failed:
        return
    (tarball,) = tree.glob("*.tar.gz")
    unwanted = unwanted_members(tarball)
    yield Result("content of the tarball", int(not unwanted), int(bool(unwanted)), 0.0, "\n".join(unwanted))
    for path in copy.iterdir():
        if path.name not in RELIED_ON:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for playbook in sorted(copy.glob("playbooks/*.yml")):
        name = f"blackwell.serving.{playbook.stem}"
        argv: Argv = [BIN / "ansible-playbook", "--syntax-check", "--inventory", "localhost,", name]
        checked = tier.run(argv, environment={"ANSIBLE_COLLECTIONS_PATH": str(tree)}, folder=tree)
        yield checked.result(f"{name} without the rest of the collection")


def unwanted_members(tarball: Path) -> list[str]:
    """One line for each member that a published collection should not have."""
    with tarfile.open(tarball) as archive:
        members = archive.getmembers()
    unwanted = {member.name for member in members if UNWANTED.search(member.name)}
    found = [f"{name} should not be published" for name in sorted(unwanted) if str(Path(name).parent) not in unwanted]
    return found + [f"{member.name} is over 1 MiB" for member in members if member.size > LARGEST_FILE]


def lint(tier: Tier) -> Iterator[Result]:
    """ansible-lint with the profile production, over the repository."""
    yield tier.run([BIN / "ansible-lint", "--offline", "--strict", "--nocolor"], limit=600).result("ansible-lint")


def sanity(tier: Tier) -> Iterator[Result]:
    """ansible-test sanity in an installed copy that is a git repository of its own; there is no ignore file."""
    if failure := install_packages(tier, {"shellcheck": "shellcheck", "git": "git"}):
        yield failure
        return
    installed, copy = install(tier, CACHE / "sanity")
    if installed.failed:
        yield installed
        return
    (copy / ".gitignore").write_text("tests/output/\n")
    tier.run(["git", "init", "--quiet"], folder=copy)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    done = tier.run(
        [BIN / "ansible-test", "sanity", "--local", "--python", version, "--color", "no"],
        limit=1800,
        environment={"HOME": str(_home()), "ANSIBLE_COLLECTIONS_PATH": ""},
        folder=copy,
    )
    yield count_sanity(done)


def _home() -> Path:
    """A home folder for ansible-test, kept with its virtual environments; pip's settings are the user's."""
    home = CACHE / "home"
    stand_ins = home / ".ansible" / "test" / "cache"
    stand_ins.mkdir(parents=True, exist_ok=True)
    for name in GET_PIP_NAMES:
        (stand_ins / name).write_text(GET_PIP)
    for settings in (".config/pip", ".pip"):
        link = home / settings
        link.unlink(missing_ok=True)
        if (Path.home() / settings).is_dir():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path.home() / settings)
    return home


def count_sanity(done: Done) -> Result:
    """The numbers of its tests; one that it names as failed counts, and an end in failure counts at least once."""
    whole = done.result("ansible-test sanity")
    ran = len(re.findall(r'^Running sanity test "', done.output, re.MULTILINE))
    fatal = re.search(r"^FATAL: The (\d+) sanity test", done.output, re.MULTILINE)
    failed = max(int(fatal.group(1)) if fatal else 0, whole.failed)
    complaints = [line for line in done.output.splitlines() if line.startswith(("ERROR", "FATAL", "WARNING: Skipping"))]
    return replace(whole, passed=max(ran - failed, 0), failed=failed, output="\n".join(complaints) or done.told())
