# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A venv with the pinned tools that run the playbooks, out of the same file that pins those of the tests."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from simulation.host.commands import HostError, run
from simulation.host.state import State, write

# ansible-core and what it needs; pip refuses the list when a name lacks its pin and hash
NAMES = (
    "ansible-core", "cffi", "cryptography", "jinja2", "markupsafe", "packaging", "pycparser", "pyyaml", "resolvelib",
)  # fmt: skip


def ensure(state: State, pins: Path) -> tuple[Path, bool]:
    """-> (the venv's folder, whether it was made now). One that a killed run left half made is made again."""
    wanted = selection(pins.read_text())
    folder, stamp = state.root / "venv", state.root / "venv" / ".complete"
    mark = hashlib.sha256(f"{sys.executable} {sys.version}\n{wanted}".encode()).hexdigest() + "\n"
    if stamp.exists() and stamp.read_text() == mark:
        return folder, False
    run(["rm", "-rf", str(folder)], timeout=60)
    run([sys.executable, "-m", "venv", str(folder)], timeout=120)
    listed = state.root / "requirements.txt"
    write(listed, wanted)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    try:
        run([*pip, "--require-hashes", "--requirement", str(listed)], timeout=600)
    except HostError as error:
        raise HostError(f"the playbook tools could not be installed, check pip's way to its index: {error}") from None
    write(stamp, mark)
    return folder, True


def selection(pins: str) -> str:
    """The entries of a compiled requirements file that NAMES lists, hashes and markers included."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", pins)
    chosen = [entry for entry in entries if re.split(r"[=<> ;\[]", entry, maxsplit=1)[0].lower() in NAMES]
    return "\n".join(re.sub(r"\n\s+#[^\n]*", "", entry).rstrip() for entry in chosen) + "\n"
