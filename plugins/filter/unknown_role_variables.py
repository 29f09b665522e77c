# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find variables that carry a role's prefix and that the role does not know: typing errors."""

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_role_variables
short_description: Find misspelt role variables
version_added: "0.1.0"
author:
  - blackwell.serving contributors (@blackwell-serving)
description:
  - A variable that begins with the name of a role, and that the role does not know, has no effect and no error. This
    filter finds such variables, wherever they were set, and names the nearest known one.
  - Names that begin with two underscores are the roles' own and are ignored.
options:
  _input:
    description: The names of all variables, for example from the lookup P(ansible.builtin.varnames#lookup).
    type: list
    elements: str
    required: true
  specs:
    description:
      - The parsed C(meta/argument_specs.yml) of each role, by role name. The options of all entry points are known.
    type: dict
    required: true
  allowed:
    description: Further names that are known, for example the facts that roles set.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Refuse variables that no role knows
  ansible.builtin.assert:
    that: unknown | length == 0
    fail_msg: "Unknown variables: {{ unknown }}"
  vars:
    unknown: >-
      {{ query('ansible.builtin.varnames', '.+') | blackwell.serving.unknown_role_variables(
         {'vllm_service': lookup('ansible.builtin.file', '../roles/vllm_service/meta/argument_specs.yml') | from_yaml},
         allowed=['vllm_service_result']) }}
"""

RETURN = r"""
_value:
  description: The unknown variables, sorted by name.
  type: list
  elements: dict
  contains:
    name:
      description: The name of the variable.
      type: str
    nearest:
      description: The known name that is most like it, or null when none is.
      type: str
  sample:
    - name: vllm_service_prot
      nearest: vllm_service_port
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError


def _options(role: str, spec: Mapping[str, Any]) -> set[str]:
    """The option names of every entry point in one parsed argument_specs.yml."""
    try:
        entry_points = spec["argument_specs"].values()
        return {name for entry_point in entry_points for name in entry_point.get("options") or {}}
    except (KeyError, AttributeError, TypeError) as error:
        raise AnsibleFilterError(
            f"unknown_role_variables: what is given for {role} is no parsed argument_specs.yml"
        ) from error


def unknown_role_variables(
    names: Iterable[str], specs: Mapping[str, Mapping[str, Any]], allowed: Iterable[str] = ()
) -> list[dict[str, str | None]]:
    """["a_prot"], {"a": spec with a_port} -> [{"name": "a_prot", "nearest": "a_port"}]"""
    known = set(allowed)
    for role, spec in specs.items():
        known |= _options(role, spec)
    prefixes = tuple(f"{role}_" for role in specs)
    candidates = sorted(known)
    return [
        {"name": name, "nearest": next(iter(difflib.get_close_matches(name, candidates, n=1)), None)}
        for name in sorted(set(names))
        if name.startswith(prefixes) and name not in known
    ]


class FilterModule:
    """The filter by its name."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"unknown_role_variables": unknown_role_variables}
