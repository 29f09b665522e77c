#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_healthcheck
short_description: Prove that an OpenAI-compatible endpoint answers rightly
version_added: "0.1.0"
description:
  - Waits for the endpoint if asked to, then asks questions whose answers are known, and gives one verdict.
  - C(/health) of vLLM says 200 on a service that answers garbage; a healthy endpoint is one that passed every check.
  - Any RV(state) but V(healthy) fails the task, with RV(checks) in the result. Nothing is changed or restarted.
  - Proxies, C(.netrc) and other settings of the environment are not used, and redirects are not followed.
  - In check mode it does the same when the service to examine already runs; otherwise the answer is unknown until the
    switch.
extends_documentation_fragment:
  - blackwell.serving.attributes
  - blackwell.serving.endpoint
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: Nothing is changed.
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
  action_group:
    support: full
requirements:
  - requests (in every environment that holds vLLM, see O(python))
options:
  base_url:
    description: Root of the server, with or without C(/v1).
    type: str
    required: true
  model:
    description: Served name that is expected. Without it the first served model is examined.
    type: str
  checks:
    description:
      - Checks to run; without it those of O(profile). V(ready) always runs, because the others build on it.
      - V(ready) - the model is served with O(expected_max_model_len), and a first request is answered.
      - V(logprobs) - the log probabilities of an answer are finite numbers, and those of a model that knows what it
        says.
      - V(exact_set) - every question has its right answer. Of ten or more, one wrong answer is inconclusive.
      - V(count) - the numbers from 1 to 50 in order.
      - V(latency) - a warm, short request has its first token in time.
      - V(length_sweep) - the same question is answered in prompts of exactly N tokens, for many N.
      - V(degeneration) - a long text has no loop, no row of one character and no foreign letters.
      - V(multi_turn) - what was said in the first turn is known in the last.
      - V(prefix_cache) - a prompt has the same right answer cold, from the prefix cache, and cold again.
      - V(concurrency) - questions are answered rightly also when many are in flight, and none gets another's answer.
      - V(needle) - a code at several depths of long prompts is found again.
      - V(logprobs_after) - V(logprobs) once more, after the long prompts.
      - V(channels) - reasoning and answer are told apart, with thinking on and off; in the full profile streamed too.
      - V(tool_calls) - a tool is called rightly, by choice and by force, streamed and not, and its result is used.
      - V(vision) - the colour of an image is seen.
    type: list
    elements: str
    choices:
      - ready
      - logprobs
      - exact_set
      - count
      - latency
      - length_sweep
      - degeneration
      - multi_turn
      - prefix_cache
      - concurrency
      - needle
      - logprobs_after
      - channels
      - tool_calls
      - vision
  profile:
    description:
      - V(full) runs every check. V(quick) takes less than 20 s at 60 tokens per second; it runs V(ready), V(logprobs),
        V(exact_set), V(count), V(latency), V(length_sweep) and V(channels), in their small form, and is meant for a
        service that has passed the full profile since it was started.
    type: str
    choices: [quick, full]
    default: full
  questions:
    description:
      - What the checks ask, as a dictionary with a section for each check, or as the path of a JSON file on the host
        that holds one. A list counts as the section C(exact_set).
      - Sections and keys that are not given are those of a set for instruction-tuned models. A section that is null
        says that the check does not apply to the model; it is then not run, see O(allowed_not_run).
      - C(exact_set) is a list; each entry is a dictionary of C(name), C(prompt) or C(messages), C(thinking) (default
        V(false)), C(max_tokens) (default V(64), or V(2048) with thinking) and C(expect), a regular expression searched
        in the stripped content. The first with C(thinking), else the first one, is also what V(channels) asks.
      - C(logprobs) has C(prompt), C(max_tokens) and C(min_mean_logprob).
      - C(count) has C(prompt), C(last) and C(max_tokens).
      - C(latency) has C(prompt), C(max_tokens), C(max_ttft_s) in seconds and C(min_tokens_per_s), V(0) for any.
      - C(length_sweep) has C(instruction), C(expect), C(filler) (words), C(lengths) and C(quick_lengths) in tokens, and
        C(max_tokens).
      - C(degeneration) has C(prompt), C(thinking), C(max_tokens), C(min_characters) and C(scripts) (first words of
        Unicode names, such as C(LATIN)).
      - C(multi_turn) has C(turns), of which the first holds C({code}), C(ask), C(codes) and C(max_tokens).
      - C(prefix_cache) has C(instruction), C(expect), C(filler), C(prompt_tokens) and C(max_tokens).
      - C(concurrency) has C(levels), C(questions) in the form of C(exact_set), and C(max_tokens).
      - C(needle) has C(sentence), which holds C({code}), C(ask), C(codes), C(filler), C(lengths) in tokens, C(depths)
        as shares, and C(max_tokens).
      - C(tool_calls) has C(tools), C(prompt), C(name) and C(arguments) of the expected call, C(result), C(expect) for
        the answer to the result, and C(id_pattern).
      - C(vision) has C(prompt) and C(expect), which may hold C({colour}).
    type: raw
  seed:
    description:
      - Seed of everything that a run draws at random, such as filler texts and code words. Without it another one each
        time; RV(metrics) holds it.
    type: int
  startup_timeout:
    description:
      - Seconds to wait until the endpoint serves. V(0) probes once.
      - With O(unit) the wait goes on as long as the start makes progress, up to O(max_timeout).
    type: int
    default: 0
  poll_interval:
    description: Seconds between two probes while waiting.
    type: float
    default: 5
  warmup_timeout:
    description: Seconds for the first request, for which kernels may still be compiled.
    type: int
    default: 120
  request_timeout:
    description: Seconds for every later request.
    type: int
    default: 120
  stall_timeout:
    description: Seconds without a new line in the unit's log after which its start has failed. V(0) switches this off.
    type: int
    default: 600
  max_timeout:
    description: Seconds for the whole task.
    type: int
    default: 3600
  unit:
    description:
      - systemd unit behind the endpoint, on this host. Needs C(become).
      - The task fails at once, with the engine's own reason, when the unit dies or is restarted, and when another
        process owns the port.
    type: str
  expected_max_model_len:
    description: Context length in tokens that must be served.
    type: int
  allowed_not_run:
    description: Checks that need not run for the endpoint to be healthy.
    type: list
    elements: str
    choices:
      - ready
      - logprobs
      - exact_set
      - count
      - latency
      - length_sweep
      - degeneration
      - multi_turn
      - prefix_cache
      - concurrency
      - needle
      - logprobs_after
      - channels
      - tool_calls
      - vision
    default: []
  show_progress:
    description:
      - Whether the task runs in the background on the host and shows how far it is. Without it, and in check mode, the
        module runs as it is, which is a second faster.
    type: bool
    default: true
  progress_file:
    description:
      - File that says how far the run is, for whoever wants to show it. The action plugin of this module uses one of
        its own.
      - A JSON object, replaced as a whole at each step and removed at the end.
    type: path
seealso:
  - module: blackwell.serving.vllm_service_info
  - module: blackwell.serving.vllm_benchmark
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Wait for the service and prove its answers
  blackwell.serving.vllm_healthcheck:
    base_url: http://127.0.0.1:8000
    model: kimi
    unit: kimi.service
    expected_max_model_len: 131072
    startup_timeout: 1800
    python: /opt/vllm/0.32.0/bin/python
  become: true

- name: Ask questions of one's own
  blackwell.serving.vllm_healthcheck:
    base_url: http://127.0.0.1:8000
    python: /opt/vllm/0.32.0/bin/python
    checks: [ready, exact_set]
    questions:
      exact_set:
        - name: capital
          prompt: What is the capital of France? Answer briefly.
          expect: ^Paris$

- name: Prove a text-only model without tools
  blackwell.serving.vllm_healthcheck:
    base_url: http://127.0.0.1:8000
    python: /opt/vllm/0.32.0/bin/python
    questions:
      vision:
      tool_calls:
    allowed_not_run: [vision, tool_calls]
"""

RETURN = r"""
state:
  description:
    - Highest rung that was reached of V(no_response), V(auth_required), V(wrong_model), V(loading), V(listening),
      V(generation_failed), V(generating), V(degraded) and V(healthy).
    - V(generating) - it answers, but a check failed. V(degraded) - nothing failed, but something is inconclusive or was
      not run. V(wrong_model) also stands for another process on the unit's port.
  type: str
  returned: always
  sample: healthy
checks:
  description: The checks in the order in which they ran.
  type: list
  elements: dict
  returned: always
  contains:
    name: {description: Name of the check., type: str}
    status: {description: "V(pass), V(fail), V(inconclusive) or V(not_run).", type: str}
    value: {description: What was measured; right answers or passed modes., type: raw}
    threshold: {description: What the value must reach., type: raw}
    evidence: {description: What was seen; answers are cut at 400 characters., type: list, elements: str}
    seconds: {description: Duration in seconds., type: float}
failed_checks:
  description: Names of the checks that failed.
  type: list
  elements: str
  returned: always
metrics:
  description: Numbers found on the way.
  type: dict
  returned: always
  contains:
    seed: {description: Seed of the run., type: int}
    served_model: {description: Name of the examined model., type: str}
    max_model_len: {description: Served context length in tokens., type: int}
    first_request_s: {description: Duration of the first request in seconds., type: float}
    waited_s: {description: Seconds until the endpoint served., type: float}
    count_tokens_per_s:
      description: Tokens per second of the counting answer from end to end; only when it was right.
      type: float
    reasoning_field:
      description: Field that held the reasoning; V(reasoning), V(reasoning_content) or V(both).
      type: str
answers:
  description: Every answer that was given, for reports.
  type: list
  elements: dict
  returned: always
  contains:
    name: {description: Name of the question or check., type: str}
    prompt: {description: What was asked., type: str}
    content: {description: "The answer, cut at 4000 characters.", type: str}
    reasoning: {description: "The reasoning, cut at 4000 characters.", type: str}
    finish_reason: {description: Why the answer ended., type: str}
    seconds: {description: Duration in seconds., type: float}
    completion_tokens: {description: Tokens of the answer by the server's count., type: int}
stages:
  description: Stages of the unit's start that were seen while waiting.
  type: list
  elements: dict
  returned: always
  sample: [{stage: loading_weights, seconds: 0.0, progress: Loading safetensors checkpoint shards 119/119}]
root_cause:
  description: The engine's own reason (class, message, hint), when O(unit) died, stalled or failed a request.
  type: dict
  returned: when O(unit) has failed
unknown_until:
  description: In check mode, the stage of the deployment that must really run first.
  type: str
  returned: in check mode, when the service to examine does not run yet
"""

import os
import random
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address as addresses
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import battery, connection, probes, questions
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import QUICK, read_sections
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.health_progress import HealthProgress
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.readiness import Limits
from ansible_collections.blackwell.serving.plugins.module_utils.engine.commands import bounded
from ansible_collections.blackwell.serving.plugins.module_utils.engine.watch import UnitWatch
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, respawn_into, unknown_until

NOT_EXAMINED: dict[str, Any] = {
    "state": "no_response",
    "checks": [],
    "failed_checks": [],
    "metrics": {},
    "answers": [],
    "stages": [],
}


def examine(module: AnsibleModule) -> dict[str, Any]:
    """Where the rooms meet: the endpoint's battery, and the engine's watch over the unit."""
    params = module.params
    began = time.monotonic()
    address = addresses.parse(params["base_url"])
    connection.check_seconds(params, ["request_timeout", "warmup_timeout", "max_timeout"])
    connection.check_seconds(params, ["startup_timeout", "stall_timeout"], least=0)
    connection.check_seconds(params, ["poll_interval"], least=0.1)
    sections = read_sections(probes.load(params["questions"] or {}))
    if module.check_mode and params["python"] and not os.path.exists(params["python"]):
        return unknown_until("install", params["python"])
    if module.check_mode and not address.is_listening():
        return unknown_until("switch", params["base_url"])
    respawn_into(module, params["python"])
    session = connection.client_of(params, address)
    plan = battery.Plan(
        limits=Limits(
            params["startup_timeout"], params["stall_timeout"], params["max_timeout"], params["poll_interval"]
        ),
        model=params["model"],
        checks=params["checks"] or (QUICK if params["profile"] == "quick" else battery.NAMES),
        expected_max_model_len=params["expected_max_model_len"],
        warmup_timeout=params["warmup_timeout"],
        allowed_not_run=params["allowed_not_run"],
        owned_port=address.port if params["unit"] and address.is_local else None,
    )
    seed = random.SystemRandom().randrange(1 << 31) if params["seed"] is None else params["seed"]
    context = Context(
        session,
        # ready and channels ask one of them also where the check exact_set does not apply
        sections["exact_set"] or questions.load(questions.DEFAULT),
        sections,
        seed=seed,
        metrics={"seed": seed},
        thinking_parameter=params["thinking_parameter"],
        full=params["profile"] == "full",
        request_timeout=params["request_timeout"],
        deadline=began + params["max_timeout"],
    )
    if module.check_mode and not runs_already(module, plan, context):
        return unknown_until("switch", f"the service to examine at {params['base_url']}")
    watch = UnitWatch(params["unit"], bounded(module.run_command)) if params["unit"] else None
    with HealthProgress(params["progress_file"]) as progress:
        report = battery.examine(context, plan, watch, progress=progress)
    if report.problem is not None:
        report.problem.facts.update(report.as_result())
        raise report.problem
    return report.as_result()


def runs_already(module: AnsibleModule, plan: battery.Plan, context: Context) -> bool:
    """Whether what listens now is the service that the real run would examine, not the one it would replace."""
    try:
        if module.params["unit"]:
            watch = UnitWatch(module.params["unit"], bounded(module.run_command))
            if plan.owned_port:
                watch.check_owner(plan.owned_port)
    except ServingError:
        return False
    return battery.serves_as_planned(context, plan)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **connection.OPTIONS,
            "base_url": {"type": "str", "required": True},
            "model": {"type": "str"},
            "checks": {"type": "list", "elements": "str", "choices": list(battery.NAMES)},
            "profile": {"type": "str", "choices": ["quick", "full"], "default": "full"},
            "questions": {"type": "raw"},
            "seed": {"type": "int"},
            "startup_timeout": {"type": "int", "default": 0},
            "poll_interval": {"type": "float", "default": 5},
            "warmup_timeout": {"type": "int", "default": 120},
            "request_timeout": {"type": "int", "default": 120},
            "stall_timeout": {"type": "int", "default": 600},
            "max_timeout": {"type": "int", "default": 3600},
            "unit": {"type": "str"},
            "expected_max_model_len": {"type": "int"},
            "allowed_not_run": {"type": "list", "elements": "str", "choices": list(battery.NAMES), "default": []},
            "show_progress": {"type": "bool", "default": True},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )

    def work() -> dict[str, Any]:
        try:
            return examine(module)
        except ServingError as error:
            error.facts = {**NOT_EXAMINED, **error.facts}
            raise

    finish(module, work)


if __name__ == "__main__":
    main()
