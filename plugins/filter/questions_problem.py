# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what is wrong with a health check's questions before anything is changed for their sake."""

from __future__ import annotations

DOCUMENTATION = r"""
name: questions_problem
short_description: Say what is wrong with the questions of a health check
version_added: "0.1.0"
author:
  - blackwell.serving contributors (@blackwell-serving)
description:
  - The service is asked the questions last, when the old one has been stopped and the new one has loaded. A mistake in
    them can be found first.
options:
  _input:
    description:
      - A value for O(blackwell.serving.vllm_healthcheck#module:questions), or its JSON text.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Require questions that can be asked
  ansible.builtin.assert:
    that: my_questions | blackwell.serving.questions_problem == ''
    fail_msg: "{{ my_questions | blackwell.serving.questions_problem }}"
"""

RETURN = r"""
_value:
  description: What is wrong, where and why; empty when nothing is.
  type: str
  sample: "count is not usable: unknown key 'lst', did you mean last? Its keys are prompt, last, max_tokens."
"""

import json
from collections.abc import Callable
from typing import Any

from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import probes
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import read_sections
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError


def questions_problem(questions: Any) -> str:
    """{"count": {"lst": 9}} -> "count is not usable: ..."; {} -> "" """
    try:
        value = json.loads(questions) if isinstance(questions, str) else questions
        read_sections(probes.load(value or {}))
    except ValueError as error:
        return f"the questions are not JSON: {error}"
    except ServingError as error:
        return str(error)
    return ""


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"questions_problem": questions_problem}
