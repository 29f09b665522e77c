#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_record
short_description: Keep the record of a deployed service
version_added: "0.1.0"
description:
  - Writes sections of the file that says what is deployed on a host, which decisions led there, and what was
    predicted and measured. One file for each service, V(/var/lib/blackwell-serving/SERVICE/deployment.json).
  - The file is replaced as a whole, under a lock, and only when its content differs. Each change adds one line to its
    history, so that a run that changes nothing rewrites nothing.
  - The schema is C(docs/schema/deployment.schema.json) of the collection. It is closed, so that a misspelt key is an
    error that names the place by its JSON pointer.
  - Without O(section) and O(sections), the record is read and returned, and nothing is written.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Before and after are the text of the whole file.
  idempotent:
    support: full
    details:
      - Fields that differ from one measurement to the next (C(seconds), C(value), C(evidence), C(answers), C(seed) and
        C(metrics) in the section V(health)) never rewrite the file alone.
  platform:
    support: full
    platforms: linux
  action_group:
    support: full
options:
  service:
    description: Name of the service, without C(.service). The record of another service is never touched.
    type: str
    required: true
  state:
    description:
      - With V(present), O(data) is written into O(section).
      - With V(absent), O(section) is removed, or the whole file without O(section).
    type: str
    choices: [present, absent]
    default: present
  section:
    description:
      - The section to write or to remove.
      - In V(identity), V(plan), V(checkpoint) and V(health), the keys that are written replace those that are there,
        and the others stay. V(retired) does the same, and its lists grow by what they do not hold yet.
      - In V(decisions) and V(notes), an entry replaces the entry of the same C(name), and the others stay.
      - In V(predicted), V(measured), V(benchmark) and V(baseline), what is written is the whole section.
    type: str
    choices: [identity, plan, decisions, checkpoint, predicted, measured, health, benchmark, baseline, retired, notes]
  data:
    description:
      - What to write, a mapping, or a list for the sections V(decisions) and V(notes).
      - A text under a key that is named like a secret (C(token), C(password), C(api_key), C(authorization)), and a text
        that has the form of one, is refused.
    type: raw
  sections:
    description: Several sections at once, their O(data) by the name of the O(section).
    type: dict
  path:
    description: The file, where it is not V(/var/lib/blackwell-serving/SERVICE/deployment.json).
    type: path
notes:
  - A new file gets the mode V(0640), a new directory V(0755). An existing file keeps its owner and its mode.
seealso:
  - module: blackwell.serving.vllm_kv_budget
  - module: blackwell.serving.vllm_service_info
  - module: blackwell.serving.vllm_healthcheck
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Record why the context is as long as it is
  blackwell.serving.deployment_record:
    service: vllm-kimi
    section: decisions
    data:
      - name: max_model_len
        value: 131072
        reason: The longest multiple of 1024 that leaves 25 % of the KV cache free
        rejected:
          - value: 262144
            reason: 178768 tokens fit
        inputs:
          token_capacity: 178768
          headroom: 0.25

- name: Record two sections in one write
  blackwell.serving.deployment_record:
    service: vllm-kimi
    sections:
      measured:
        tokens: 178752
      notes:
        - name: fp8_kv
          text: no MLA kernel for it on this card

- name: Read the record
  blackwell.serving.deployment_record:
    service: vllm-kimi
  register: deployment

- name: Forget the benchmark
  blackwell.serving.deployment_record:
    service: vllm-kimi
    section: benchmark
    state: absent
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /var/lib/blackwell-serving/vllm-kimi/deployment.json
record:
  description:
    - The record after the task, by section, with C(schema_version) and C(history). Sizes are bytes.
    - Empty when there is none.
  returned: success
  type: dict
  sample:
    schema_version: 1
    identity:
      service: vllm-kimi
    decisions:
      - name: max_model_len
        value: 131072
        reason: The longest multiple of 1024 that leaves 25 % of the KV cache free
    history:
      - at: "2026-11-29T16:52:00Z"
        what: "decisions: max_model_len"
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.deployment import record as records
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.schema import SECTIONS
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.secrets import secrets
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "service": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "section": {"type": "str", "choices": list(SECTIONS)},
            "data": {"type": "raw"},
            "sections": {"type": "dict"},
            "path": {"type": "path"},
        },
        required_by={"data": "section"},
        mutually_exclusive=[("section", "sections")],
        supports_check_mode=True,
    )

    def work() -> dict[str, Any]:
        options = module.params
        # A refused secret must not come back in the failed task's own arguments.
        written = [options["data"], options["sections"]]
        module.no_log_values.update(text for pointer, text in secrets(written))
        request = records.Request(*(options[name] for name in ("service", "state", "section", "data", "sections")))
        path = Path(options["path"]) if options["path"] else records.path_of(request.service)
        before, after = records.apply(path, request, check_mode=module.check_mode)
        diff = {
            "before": records.text_of(before),
            "after": records.text_of(after),
            "before_header": str(path),
            "after_header": str(path),
        }
        return {"changed": before != after, "path": str(path), "record": after, "diff": diff}

    finish(module, work)


if __name__ == "__main__":
    main()
