# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the memory of one card as a bar of letters."""

from __future__ import annotations

DOCUMENTATION = r"""
name: memory_bar
short_description: Draw the memory of one card as a bar of letters
version_added: "0.1.0"
author:
  - blackwell.serving contributors (@blackwell-serving)
description:
  - Makes the lines of a bar and its legend with what a card's memory is used for, which is weights, overhead, CUDA
    graphs, the KV cache of one request of the served length, the rest of the KV cache, and what lies outside
    C(gpu_memory_utilization).
  - Of a prediction without a card's memory, the KV cache alone is drawn. Of one that says nothing, there is no line.
options:
  _input:
    description:
      - The prediction, as the section C(predicted) of a deployment record has it.
    type: dict
    required: true
  measured:
    description:
      - The engine's own numbers, as the section C(measured) of a deployment record has them. They replace predicted
        ones.
    type: dict
"""

EXAMPLES = r"""
- name: Show the memory of one card
  ansible.builtin.debug:
    msg: "{{ record.predicted | blackwell.serving.memory_bar(record.measured | default({})) }}"
"""

RETURN = r"""
_value:
  description: The lines, the bar first.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.picture import parts_of, text_lines


def memory_bar(predicted: Mapping[str, Any], measured: Mapping[str, Any] | None = None) -> list[str]:
    """The lines; raises AnsibleFilterError when the input is no mapping."""
    if not isinstance(predicted, Mapping) or not isinstance(measured, Mapping | None):
        raise AnsibleFilterError("memory_bar: the input is no mapping")
    return text_lines(parts_of(predicted, measured or None))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"memory_bar": memory_bar}
