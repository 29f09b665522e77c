# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guides in docs/ say what is so: messages, variables, files and tasks that they name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import readmes
import yaml

ROOT = readmes.ROLES.parent
GUIDES = sorted((ROOT / "docs").glob("*.md"))
every_guide = pytest.mark.parametrize("guide", GUIDES, ids=[guide.name for guide in GUIDES])
VARIABLE = re.compile(rf"\b(?:{'|'.join(role.parent.name for role in readmes.ROLES.glob('*/README.md'))})_\w+")
# Facts that roles hand on; no specification names them.
FACT = re.compile(r"_(?:look|retired|plan|result|checkpoint)$")


@pytest.fixture(scope="module")
def said() -> list[str]:
    """All texts that the code can say: strings of Python, and YAML of roles and playbooks in one line each."""
    found = []
    for path in (ROOT / "plugins").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        found += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    for folder in ("roles", "playbooks"):
        found += [" ".join(path.read_text().split()) for path in (ROOT / folder).rglob("*.yml")]
    return found


def spoken_parts(guide: Path) -> list[str]:
    """The words between the values of each message, which stand in blocks of the kind `text`, one on a line."""
    blocks = re.findall(r"^```text\n(.*?)^```$", guide.read_text(), re.M | re.S)
    parts = [part for block in blocks for line in block.splitlines() for part in re.split(r"…|[()]|\. (?=[A-Z])", line)]
    return [bare for part in parts if len(bare := part.strip(' ().,;:?"')) > 3]


@every_guide
def test_messages_are_those_of_the_code(guide: Path, said: list[str]) -> None:
    assert [part for part in spoken_parts(guide) if not any(part in text for text in said)] == []


def test_there_are_messages_to_look_for() -> None:
    assert sum(len(spoken_parts(guide)) for guide in GUIDES) > 50


@every_guide
def test_variables_are_known(guide: Path) -> None:
    known = {name for role in readmes.ROLES.iterdir() if role.is_dir() for name in readmes.options(role)}
    named = set(VARIABLE.findall(guide.read_text()))
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    assert {name for name in named - known - modules if not FACT.search(name)} == set()


@every_guide
def test_links_and_files_are_there(guide: Path) -> None:
    text = guide.read_text()
    links = [guide.parent / target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text)]
    named = re.findall(r"\b((?:roles|playbooks|inventories|docs|tests)/[\w/.]*\w)", text)
    named = [name for name in named if not name.endswith("/vault.yml")]  # the reader makes it
    assert [path for path in [*links, *(ROOT / name for name in named)] if not path.exists()] == []


def test_the_road_names_every_task_of_site_yml_in_its_order() -> None:
    (play,) = yaml.safe_load((ROOT / "playbooks/site.yml").read_text())
    road = (ROOT / "docs/road.md").read_text()
    places = [road.find(f"`{task['name']}`") for task in play["tasks"]]
    assert -1 not in places
    assert places == sorted(places)


def test_the_real_host_explains_every_value_of_its_inventory() -> None:
    inventory = ROOT / "inventories/blackwell"
    guide = (ROOT / "docs/real_host.md").read_text()
    (host,) = yaml.safe_load((inventory / "hosts.yml").read_text())["llm_hosts"]["hosts"].values()
    deployment = (inventory / "group_vars/llm_hosts/deployment.yml").read_text()
    values = {*host, *re.findall(r"^(?:# )?(\w+):", deployment, re.M)}
    assert len(values) > 20
    assert {name for name in values if f"`{name}`" not in guide} == set()
