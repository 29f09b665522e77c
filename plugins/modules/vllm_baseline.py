#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_baseline
short_description: Compare the answers of a changed engine with the deployment's baseline
version_added: "0.1.0"
description:
  - Keeps, in one file for each deployment, what the engine that was first proven answers to fixed prompts, greedy and
    token by token with log probabilities.
  - When the engine has changed since (another release, KV cache dtype, attention backend, flag or card), the same
    prompts are asked again, and the distance is judged. Right answers to questions do not show such a change before it
    is large.
  - Greedy answers of two engines part where a choice was nearly even. So the log probabilities are compared over the
    tokens that both have in common, and the choice at the first token that differs.
  - An engine that gave the baseline, or was compared with it before, is not asked again.
  - Another checkpoint, or other O(prompts), make a new baseline.
extends_documentation_fragment:
  - blackwell.serving.attributes
  - blackwell.serving.endpoint
attributes:
  check_mode:
    support: full
    details:
      - The endpoint is not asked. The file is predicted to change where it would be asked, as if the engine were within
        the limits; RV(verdict) is null.
  diff_mode:
    support: full
    details: Before and after hold the engines and what was compared, without the answers.
  idempotent:
    support: full
    details: With O(state=compared) the endpoint is asked each time, and nothing is written.
  platform:
    support: full
    platforms: linux
  action_group:
    support: full
requirements:
  - requests (in every environment that holds vLLM, see O(python))
options:
  state:
    description:
      - With V(present), a changed engine is compared and the result is kept; without a baseline, one is made.
      - With V(compared), the endpoint is asked and compared in any case, and nothing is written.
      - With V(absent), the file is removed.
    type: str
    choices: [present, compared, absent]
    default: present
  path:
    description: The file, for example V(/var/lib/blackwell-serving/SERVICE/baseline.json). Its folder must exist.
    type: path
    required: true
  base_url:
    description: Root of the server, with or without C(/v1). Required unless O(state=absent).
    type: str
  model:
    description: Served name. Without it the first served model is asked.
    type: str
  engine:
    description:
      - What may change the engine's numbers, by any names, such as release, KV cache dtype and attention backend.
        Another value means another engine. No secret.
    type: dict
    default: {}
  checkpoint:
    description: What identifies the checkpoint's content, such as its commit.
    type: str
    default: ""
  prompts:
    description:
      - Prompts to ask, one to 64. By default twelve of several kinds; what is right does not matter, only that it
        stays.
    type: list
    elements: str
  max_tokens:
    description: Largest number of tokens of an answer.
    type: int
    default: 48
  request_timeout:
    description: Seconds for one request.
    type: int
    default: 300
  max_mean_logprob_distance:
    description:
      - Largest mean difference of the log probabilities over the tokens in common, in nats.
      - The same engine started again gives 0 on a CPU, another precision of its arithmetic some thousandths.
    type: float
    default: 0.1
  max_shift:
    description:
      - How far the choice between two tokens may have moved where the answers part, in nats. A choice that was nearly
        even is turned by rounding; one that was clear is turned by a defect.
    type: float
    default: 2.0
  min_speed_ratio:
    description:
      - Smallest tokens per second as a share of the baseline's. With V(0), it is told and not judged.
      - The prompts are few and short, so a busy host changes it by several times; M(blackwell.serving.vllm_benchmark)
        measures speed.
    type: float
    default: 0
  accept:
    description: Whether an engine beyond the limits is accepted, and its answers become the baseline.
    type: bool
    default: false
notes:
  - A new file gets the mode V(0640).
seealso:
  - module: blackwell.serving.vllm_healthcheck
  - module: blackwell.serving.vllm_benchmark
  - module: blackwell.serving.deployment_record
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Compare the engine with the one that was first proven
  blackwell.serving.vllm_baseline:
    path: /var/lib/blackwell-serving/vllm-kimi/baseline.json
    base_url: http://127.0.0.1:8000
    checkpoint: 3f1c9a0d5b7e2c4f6a8b0d1e3f5a7c9b1d3e5f70
    engine:
      version: 0.33.0
      kv_cache_dtype: auto
      attention_backend: TRITON_MLA
    python: /opt/vllm/0.33.0/bin/python

- name: Take the answers of an engine that is meant to differ for the new baseline
  blackwell.serving.vllm_baseline:
    path: /var/lib/blackwell-serving/vllm-kimi/baseline.json
    base_url: http://127.0.0.1:8000
    engine:
      version: 0.33.0
      kv_cache_dtype: fp8
    accept: true
"""

RETURN = r"""
verdict:
  description:
    - V(new) when the answers became the baseline, V(equal) when every answer is the baseline's, V(close) when they
      differ within the limits, V(different) beyond them, V(accepted) when O(accept) made such answers the baseline.
    - Null in check mode where the endpoint would be asked.
  type: str
  returned: success, when O(state) is not V(absent)
  sample: close
reason:
  description: Why, in words.
  type: str
  returned: success, when O(state) is not V(absent)
comparison:
  description: The numbers; null where nothing was compared. Also in the result of a task that failed beyond the limits.
  type: dict
  returned: success, when O(state) is not V(absent)
  contains:
    verdict: {description: "V(equal), V(close) or V(different).", type: str}
    answers: {description: Number of prompts., type: int}
    equal_answers: {description: Answers that are the same token by token., type: int}
    compared_tokens: {description: Tokens that both answers have in common before they part., type: int}
    mean_logprob_distance: {description: Mean difference of their log probabilities in nats., type: float}
    max_logprob_distance: {description: Largest difference in nats., type: float}
    max_shift: {description: Largest move of a choice where two answers part in nats., type: float}
    tokens_per_s: {description: "Tokens per second, C(baseline) and C(now).", type: dict}
    speed_ratio: {description: C(now) as a share of C(baseline)., type: float}
    first_difference:
      description: "The answer that moved most: C(prompt), C(position) in tokens, C(baseline), C(now) and C(shift)."
      type: dict
    exceeded: {description: The limits that were exceeded., type: list, elements: str}
  sample:
    verdict: close
    answers: 12
    equal_answers: 10
    compared_tokens: 431
    mean_logprob_distance: 0.0121
    max_logprob_distance: 0.318
    max_shift: 0.12
    tokens_per_s: {baseline: 58.1, now: 59.4}
    speed_ratio: 1.022
    exceeded: []
path:
  description: The file.
  type: str
  returned: success
baseline:
  description: "Of the baseline: C(at), C(engine), C(checkpoint) and C(answers), their number. Null when there is none."
  type: dict
  returned: success
unknown_until:
  description: In check mode, the stage of the deployment that must really run first.
  type: str
  returned: in check mode, when O(python) does not exist yet
"""

import dataclasses
import hashlib
import json
import math
import os
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address as addresses
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import (
    baseline,
    chat,
    comparison,
    connection,
    fingerprint,
)
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.files import write_atomically
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, respawn_into, unknown_until

MODE = 0o640
MAX_PROMPTS = 64


def remove(module: AnsibleModule) -> dict[str, Any]:
    path = Path(module.params["path"])
    exists = path.exists()
    if exists and not module.check_mode:
        path.unlink()
    return {"changed": exists, "path": str(path), "baseline": None}


def keep(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    prompts = params["prompts"] or list(fingerprint.PROMPTS)
    if not len(prompts) <= MAX_PROMPTS or params["max_tokens"] < 1 or params["request_timeout"] < 1:
        raise ServingError(f"prompts must be one to {MAX_PROMPTS}, max_tokens and request_timeout at least 1")
    connection.check_seconds(params, ["request_timeout"])
    limits = comparison.Limits(params["max_mean_logprob_distance"], params["max_shift"], params["min_speed_ratio"])
    if not all(0 <= limit < math.inf for limit in dataclasses.astuple(limits)):
        raise ServingError("max_mean_logprob_distance, max_shift and min_speed_ratio must be numbers of 0 or more")
    address = addresses.parse(params["base_url"])
    path = Path(params["path"])
    content = baseline.load(path)
    subject = baseline.Subject(params["checkpoint"], _as_json(params["engine"]), _question(params, prompts))
    compare_only = params["state"] == "compared"
    if compare_only and (content is None or baseline.renewal(content, subject)):
        raise ServingError(
            "there is no baseline to compare with",
            where=str(path),
            why=(baseline.renewal(content, subject) if content else None) or "the file does not exist",
            remedy="Make one with state present, on an engine that the health check has proven",
        )
    found = None if compare_only else baseline.known(content, subject)
    if found:
        return _result(path, content, found)
    if module.check_mode:
        unasked = baseline.Outcome(content or {}, None, "check mode: the endpoint was not asked", None)
        return {**_result(path, content, unasked), "changed": not compare_only}
    respawn_into(module, params["python"])
    session = connection.client_of(params, address)
    model = connection.served_model(session, params["model"], "compared with its baseline").model
    thinking = False if params["thinking_parameter"] else None
    extra = {"logprobs": True, "top_logprobs": fingerprint.TOP_LOGPROBS}
    requests = [
        chat.Request(
            model,
            [{"role": "user", "content": prompt}],
            params["max_tokens"],
            thinking,
            params["thinking_parameter"],
            extra,
        )
        for prompt in prompts
    ]
    outcome = baseline.judge(
        content,
        subject,
        limits,
        lambda: fingerprint.observe(session, requests, timeout=params["request_timeout"]),
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        accept=params["accept"] and not compare_only,
    )
    if outcome.verdict == comparison.DIFFERENT:
        raise ServingError(
            "the engine answers otherwise than the baseline",
            where=str(path),
            why=outcome.reason,
            remedy="Find out which change of the engine does it (comparison.first_difference shows the worst answer); "
            "if it is wanted, run once with accept true, which makes the answers of this engine the baseline",
            facts={"verdict": outcome.verdict, "reason": outcome.reason, "comparison": outcome.comparison},
        )
    if compare_only:
        return {**_result(path, content, outcome), "changed": False}
    result = _result(path, content, outcome)
    if outcome.content != content:
        write_atomically(path, baseline.text_of(outcome.content).encode(), mode=MODE)
    return result


def _result(path: Path, before: dict[str, Any] | None, outcome: baseline.Outcome) -> dict[str, Any]:
    after = outcome.content
    return {
        "changed": after != (before or {}),
        "path": str(path),
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "comparison": outcome.comparison,
        "baseline": _about(after),
        "diff": {
            "before": _text(before),
            "after": _text(after),
            "before_header": str(path),
            "after_header": str(path),
        },
    }


def _about(content: dict[str, Any]) -> dict[str, Any] | None:
    if not content:
        return None
    named = {name: content[name] for name in ("at", "engine", "checkpoint")}
    return {**named, "answers": len(content["answers"])}


def _text(content: dict[str, Any] | None) -> str:
    if not content:
        return ""
    shown = {**content, "answers": f"{len(content['answers'])} answers"}
    return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"


def _question(params: dict[str, Any], prompts: list[str]) -> dict[str, Any]:
    digest = hashlib.sha256(json.dumps(prompts).encode()).hexdigest()
    return {"prompts": digest, "max_tokens": params["max_tokens"], "thinking_parameter": params["thinking_parameter"]}


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from the file, so that the two can be compared."""
    read: dict[str, Any] = json.loads(json.dumps(value, default=str))
    return read


def work(module: AnsibleModule) -> dict[str, Any]:
    python = module.params["python"]
    if module.params["state"] == "absent":
        return remove(module)
    if module.check_mode and python and not os.path.exists(python):
        return unknown_until("install", python)
    return keep(module)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **connection.OPTIONS,
            "state": {"type": "str", "choices": ["present", "compared", "absent"], "default": "present"},
            "path": {"type": "path", "required": True},
            "base_url": {"type": "str"},
            "model": {"type": "str"},
            "engine": {"type": "dict", "default": {}},
            "checkpoint": {"type": "str", "default": ""},
            "prompts": {"type": "list", "elements": "str"},
            "max_tokens": {"type": "int", "default": fingerprint.MAX_TOKENS, "no_log": False},
            "request_timeout": {"type": "int", "default": 300},
            "max_mean_logprob_distance": {"type": "float", "default": 0.1},
            "max_shift": {"type": "float", "default": 2.0},
            "min_speed_ratio": {"type": "float", "default": 0},
            "accept": {"type": "bool", "default": False},
        },
        required_if=[("state", "present", ["base_url"]), ("state", "compared", ["base_url"])],
        supports_check_mode=True,
    )
    finish(module, lambda: work(module))


if __name__ == "__main__":
    main()
