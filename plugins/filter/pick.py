# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take named values out of each mapping of a list."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pick
short_description: Take named values out of each mapping of a list
version_added: "0.1.0"
author:
  - blackwell.serving contributors (@blackwell-serving)
description:
  - Makes a list of new mappings, each with the keys that are asked for and nothing else.
  - A part of a record is stored this way without the values that differ from run to run.
options:
  _input:
    description: Mappings to take from.
    type: list
    elements: dict
    required: true
  keys:
    description:
      - For each key of the new mappings, the place of its value, with dots between nested keys.
      - Given as keyword arguments. A place that does not exist gives no key.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Keep what identifies a card
  ansible.builtin.set_fact:
    cards: "{{ gpus | blackwell.serving.pick(index='index', uuid='uuid', memory_total_bytes='memory.total_bytes') }}"
"""

RETURN = r"""
_value:
  description: The new mappings, in the order of the input.
  type: list
  elements: dict
  sample:
    - index: 0
      uuid: GPU-7c1e90b4-35da-4f82-91b6-0d2a84c7e5f3
      memory_total_bytes: 102642679808
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

_MISSING = object()


def _at(value: Any, place: str) -> Any:
    for part in place.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def pick(items: Sequence[Mapping[str, Any]], **keys: str) -> list[dict[str, Any]]:
    """Each item as a mapping with the asked keys; raises AnsibleFilterError when an item is no mapping."""
    if isinstance(items, str | Mapping) or not isinstance(items, Sequence):
        raise AnsibleFilterError("pick: the input is no list of mappings")
    picked = []
    for item in items:
        if not isinstance(item, Mapping):
            raise AnsibleFilterError(f"pick: {item!r} is no mapping")
        values = {key: _at(item, place) for key, place in keys.items()}
        picked.append({key: value for key, value in values.items() if value is not _MISSING})
    return picked


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"pick": pick}
