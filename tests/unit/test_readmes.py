# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README of each role: its table of variables is the specification's, and its example can be run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import readmes
import yaml

ROOT = readmes.ROLES.parent
READMES = sorted(readmes.ROLES.glob("*/README.md"))
PREFIX = re.compile(rf"(?:{'|'.join(readme.parent.name for readme in READMES)})_")
SPECIFICATION = {
    "argument_specs": {
        "main": {
            "options": {
                "a_state": {
                    "type": "str",
                    "choices": ["present", "absent"],
                    "default": "present",
                    "description": ["With V(absent), O(a_size) | V(x\\)y).", "See M(blackwell.serving.gpu_info)."],
                },
                "a_names": {"type": "list", "elements": "str", "required": True, "description": "Names, C(a|b)."},
                "a_gpus": {"type": "list", "elements": "int", "description": "Cards."},
            }
        }
    }
}


def examples(readme: Path) -> list[str]:
    """The YAML of the README, fenced or indented."""
    text = readme.read_text()
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S) or re.findall(r"(?:^ {4}.*\n)+", text, re.M)


@pytest.fixture
def role(tmp_path: Path) -> Path:
    folder = tmp_path / "a"
    (folder / "meta").mkdir(parents=True)
    (folder / "meta/argument_specs.yml").write_text(yaml.safe_dump(SPECIFICATION, sort_keys=False))
    (folder / "defaults").mkdir()
    (folder / "defaults/main.yml").write_text("a_state: present\na_gpus: [0, 1]\n")
    (folder / "README.md").write_text(f"# a\n\n{readmes.BEGIN}\nold\n{readmes.END}\n\nafter\n")
    return folder


def test_every_role_has_the_table_of_its_specification(capsys: pytest.CaptureFixture[str]) -> None:
    assert readmes.main(["--check"]) == 0, capsys.readouterr().out


def test_a_stale_table_is_named_and_then_written(role: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (role / "README.md").read_text()
    assert readmes.main(["--check"], role.parent) == 1
    assert (role / "README.md").read_text() == before
    assert readmes.main([], role.parent) == 0
    assert readmes.main(["--check"], role.parent) == 0
    assert capsys.readouterr().out.count(f"{role / 'README.md'}") == 2
    assert (role / "README.md").read_text().splitlines() == [
        "# a",
        "",
        readmes.BEGIN,
        "",
        "| variable | type | default | meaning |",
        "| --- | --- | --- | --- |",
        "| `a_state` | str: `present`, `absent` | `present` | With `absent`, `a_size` \\| `x)y`. "
        "See `blackwell.serving.gpu_info`. |",
        "| `a_names` | list of str | required | Names, `a\\|b`. |",
        "| `a_gpus` | list of int | `[0, 1]` | Cards. |",
        "",
        readmes.END,
        "",
        "after",
    ]


def test_a_readme_without_markers_is_refused(role: Path) -> None:
    (role / "README.md").write_text("# a\n")
    with pytest.raises(SystemExit, match="belongs between"):
        readmes.main(["--check"], role.parent)


@pytest.mark.parametrize("readme", READMES, ids=[readme.parent.name for readme in READMES])
def test_the_example_sets_only_variables_that_roles_know(readme: Path) -> None:
    known = {name for other in READMES for name in readmes.options(other.parent)}
    found = examples(readme)
    assert found, "the README has no example"
    for text in found:
        for play in yaml.safe_load(text):
            used = [name for name in names(play) if PREFIX.match(name)]
            assert used
            assert set(used) <= known


def names(value: Any) -> list[str]:
    """All keys of nested YAML."""
    if isinstance(value, list):
        return [name for item in value for name in names(item)]
    if isinstance(value, dict):
        return [*value, *names(list(value.values()))]
    return []


def test_ansible_accepts_the_examples(tmp_path: Path) -> None:
    playbooks = []
    for readme in READMES:
        for number, text in enumerate(examples(readme)):
            playbooks.append(tmp_path / f"{readme.parent.name}-{number}.yml")
            playbooks[-1].write_text(text if text.startswith("-") else re.sub(r"^ {4}", "", text, flags=re.M))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "--syntax-check", "--inventory", "localhost,"]
    done = subprocess.run([*command, *playbooks], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
