# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The literal command of the README resolves every name from a bare clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).resolve().parents[2]
STAGES = ["Look", "Plan", "Install", "Fetch and adapt", "Budget", "Switch", "Prove", "Retire", "Report"]


def ansible_playbook(*arguments: str, folder: Path) -> str:
    """Run in the clone, with nothing configured but what the clone brings."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", *arguments],
        cwd=CLONE,
        env={**environment, "HOME": str(folder), "ANSIBLE_LOCAL_TEMP": str(folder), "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("inventory", ["blackwell", "demo"])
def test_every_playbook_is_understood_with_every_inventory(tmp_path: Path, inventory: str) -> None:
    playbooks = sorted(f"playbooks/{path.name}" for path in (CLONE / "playbooks").glob("*.yml"))
    output = ansible_playbook(*playbooks, "-i", f"inventories/{inventory}", "--syntax-check", folder=tmp_path)
    assert "WARNING" not in output
    assert re.findall(r"^playbook: (\S+)$", output, re.M) == playbooks


def test_the_road_lists_its_stages_in_their_order(tmp_path: Path) -> None:
    output = ansible_playbook("playbooks/site.yml", "-i", "inventories/blackwell", "--list-tasks", folder=tmp_path)
    stages = [match[1] for line in output.splitlines() if (match := re.match(r" +([A-Z][a-z ]+):", line))]
    assert list(dict.fromkeys(stages)) == STAGES


def test_the_roles_names_resolve_from_the_clone(tmp_path: Path) -> None:
    """include_role looks its role up when it runs, so the names are looked up here as ansible-doc does."""
    names = set(re.findall(r"blackwell\.serving\.(\w+)", (CLONE / "playbooks/site.yml").read_text()))
    assert names == {path.name for path in (CLONE / "roles").iterdir()}
