# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role says the same of its variables wherever it speaks of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = sorted(path for path in (Path(__file__).resolve().parents[2] / "roles").iterdir() if path.is_dir())
every_role = pytest.mark.parametrize("role", ROLES, ids=[role.name for role in ROLES])


def options(role: Path) -> dict[str, Any]:
    """The options of all entry points by name; one that several have must be the same in each."""
    entry_points = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    found: dict[str, Any] = {}
    for entry_point in entry_points.values():
        for name, option in (entry_point.get("options") or {}).items():
            assert found.setdefault(name, option) == option, f"{name} differs between entry points"
    return found


@every_role
def test_defaults_and_argument_specs_agree(role: Path) -> None:
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text()) or {}
    specified = options(role)
    assert set(defaults) <= set(specified)
    for name, option in specified.items():
        assert option.get("required") or name in defaults, f"{name} is neither required nor has it a default"
        if "default" in option:
            assert defaults[name] == option["default"], name


@every_role
def test_names_carry_the_role_and_every_option_is_described_and_typed(role: Path) -> None:
    for name, option in options(role).items():
        assert name.startswith(f"{role.name}_")
        assert option.get("description"), name
        assert option.get("type"), name
        assert option["type"] != "list" or option.get("elements"), name


@every_role
def test_the_role_introduces_itself(role: Path) -> None:
    readme = role / "README.md"
    assert readme.is_file(), "the role has no README.md"
    assert readme.read_text().startswith(f"# {role.name}\n")
