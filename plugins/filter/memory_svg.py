# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the memory of one card as SVG."""

from __future__ import annotations

DOCUMENTATION = r"""
name: memory_svg
short_description: Draw the memory of one card as SVG
version_added: "0.1.0"
author:
  - blackwell.serving contributors (@blackwell-serving)
description:
  - Makes the text of an SVG file with a stacked bar of what a card's memory is used for, as predicted and, where the
    engine has said it, as measured, and a legend with the numbers.
  - The same input gives the same text. Of a prediction that says nothing, the text is empty.
options:
  _input:
    description:
      - The prediction, as the section C(predicted) of a deployment record has it.
    type: dict
    required: true
  measured:
    description:
      - The engine's own numbers, as the section C(measured) of a deployment record has them. They get a bar of their
        own.
    type: dict
  title:
    description: The heading of the picture.
    type: str
    default: Memory of one card
"""

EXAMPLES = r"""
- name: Write the picture
  ansible.builtin.copy:
    content: "{{ record.predicted | blackwell.serving.memory_svg(record.measured, title='Memory of one card') }}"
    dest: /srv/reports/memory.svg
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.picture import parts_of, svg


def memory_svg(
    predicted: Mapping[str, Any], measured: Mapping[str, Any] | None = None, title: str = "Memory of one card"
) -> str:
    """The text; raises AnsibleFilterError when the input is no mapping."""
    if not isinstance(predicted, Mapping) or not isinstance(measured, Mapping | None):
        raise AnsibleFilterError("memory_svg: the input is no mapping")
    bars = [("predicted", parts_of(predicted))]
    if measured and measured.get("available_bytes") is not None:
        bars.append(("measured", parts_of(predicted, measured)))
    return svg(bars, title)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"memory_svg": memory_svg}
