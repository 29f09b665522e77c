# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a KV budget with what the engine printed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: budget_difference
short_description: Compare a KV budget with what the engine printed
version_added: "0.1.0"
author:
  - blackwell.serving contributors (@blackwell-serving)
description:
  - Says by how many tokens a prediction was off, and which term was off most, be it the weights, the CUDA graphs, the
    overhead, the memory for the KV cache, or the tokens of the same memory.
options:
  _input:
    description:
      - The prediction, as the section C(predicted) of a deployment record has it.
    type: dict
    required: true
  measured:
    description: The engine's own numbers, as RV(blackwell.serving.vllm_service_info#module:kv_cache) has them.
    type: dict
"""

EXAMPLES = r"""
- name: Say how good the prediction was
  ansible.builtin.debug:
    msg: "{{ (record.predicted | blackwell.serving.budget_difference(service.kv_cache)).text }}"
"""

RETURN = r"""
_value:
  description:
    - C(tokens) is measured less predicted and C(percent) its share of the prediction, C(term) names what was off most,
      or is null when nothing was, C(terms) lists predicted and measured bytes of each known term, C(text) is a
      sentence.
    - null while one of the two token counts is not known.
  type: dict
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.comparison import difference


def budget_difference(predicted: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any] | None:
    """The difference; raises AnsibleFilterError when the input is no mapping."""
    if not isinstance(predicted, Mapping) or not isinstance(measured, Mapping):
        raise AnsibleFilterError("budget_difference: the input is no mapping")
    return difference(predicted, measured)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"budget_difference": budget_difference}
