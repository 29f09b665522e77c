#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_benchmark
short_description: Measure the speed of an OpenAI-compatible endpoint
version_added: "0.1.0"
description:
  - Asks the endpoint to count from 1 to 50, streamed, greedy and with thinking off, and measures it after a warm-up.
  - Tokens are those of the server's usage counts, time is that of the wall clock, and the answers are checked, so that
    the speed of wrong text is not taken for a speed.
  - The names of the results are those of vLLM's own benchmark, which measures instead with O(tool=vllm_bench).
  - The task fails when nothing was measured. Nothing is changed, but the endpoint is put under load.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
    details:
      - The options are checked and the served model is asked for. Nothing is measured, as a service in use would be
        slowed down; RV(runs) is empty.
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
    description: Served name. Without it the first served model is measured.
    type: str
  api_key:
    description: Key of the endpoint.
    type: str
  ca_path:
    description: File with the certificates that are trusted for an endpoint with TLS.
    type: path
  validate_certs:
    description: Whether the certificate of an endpoint with TLS must be valid.
    type: bool
    default: true
  concurrency:
    description: Numbers of requests in flight; each makes one entry of RV(runs).
    type: list
    elements: int
    default: [1]
  num_prompts:
    description: Requests of one repetition. Without it as many as are in flight.
    type: int
  output_len:
    description: Largest number of tokens of an answer. A complete answer has about 150 with most tokenizers.
    type: int
    default: 512
  warmup:
    description: Rounds of requests before anything is measured.
    type: int
    default: 1
  repetitions:
    description: Repetitions from which RV(runs[].spread) is computed.
    type: int
    default: 3
  request_timeout:
    description: Seconds for one request.
    type: int
    default: 300
  min_success_rate:
    description: Share of the requests that must complete.
    type: float
    default: 1.0
  thinking_parameter:
    description: Name of the switch in C(chat_template_kwargs) that turns thinking off; empty when there is none.
    type: str
    default: thinking
  tool:
    description:
      - What measures. V(builtin) needs nothing but C(requests).
      - V(vllm_bench) is the benchmark of the vLLM that is installed in the environment of O(python), 0.15 or later,
        with the same requests and the same result; it takes some ten seconds more to start. O(api_key) reaches it in
        its environment, never as an argument.
    type: str
    choices: [builtin, vllm_bench]
    default: builtin
  python:
    description: Interpreter in which the module goes on, usually that of the environment that holds vLLM.
    type: path
seealso:
  - module: blackwell.serving.vllm_healthcheck
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Measure one request and eight at the same time
  blackwell.serving.vllm_benchmark:
    base_url: http://127.0.0.1:8000
    concurrency: [1, 8]
    python: /opt/vllm/0.32.0/bin/python
  register: serving_speed
"""

RETURN = r"""
runs:
  description: One entry for each concurrency, over all repetitions together. What O(tool) cannot tell is null.
  type: list
  elements: dict
  returned: success
  contains:
    max_concurrency: {description: Requests in flight., type: int}
    completed: {description: Requests that completed., type: int}
    failed_requests: {description: Requests that failed., type: int}
    duration: {description: Seconds of all repetitions., type: float}
    total_input_tokens: {description: Tokens of the prompts., type: int}
    total_output_tokens: {description: Tokens of the answers., type: int}
    request_throughput: {description: Requests per second., type: float}
    output_throughput: {description: Tokens per second from end to end., type: float}
    mean_ttft_ms: {description: "Time to the first token in milliseconds, mean.", type: float}
    median_ttft_ms: {description: Median of it., type: float}
    p90_ttft_ms: {description: 90th percentile of it., type: float}
    p95_ttft_ms: {description: 95th percentile of it., type: float}
    p99_ttft_ms: {description: 99th percentile of it., type: float}
    mean_tpot_ms: {description: "Time per token after the first in milliseconds, mean.", type: float}
    median_tpot_ms: {description: Median of it., type: float}
    p90_tpot_ms: {description: 90th percentile of it., type: float}
    p95_tpot_ms: {description: 95th percentile of it., type: float}
    p99_tpot_ms: {description: 99th percentile of it., type: float}
    mean_e2el_ms: {description: "Time from the request to the last token in milliseconds, mean.", type: float}
    median_e2el_ms: {description: Median of it., type: float}
    p90_e2el_ms: {description: 90th percentile of it., type: float}
    p95_e2el_ms: {description: 95th percentile of it., type: float}
    p99_e2el_ms: {description: 99th percentile of it., type: float}
    decode_tokens_per_s: {description: Tokens per second of one request after its first token., type: float}
    tokens_per_delta: {description: Tokens that one event of the stream brings; null with vllm_bench., type: float}
    warmup_s: {description: Seconds of each warm-up round; null with vllm_bench., type: list, elements: float}
    repetitions: {description: "Tokens per second of each repetition.", type: list, elements: float}
    spread: {description: Largest minus smallest repetition as a share of their median., type: float}
    correct: {description: Whether every answer counted rightly., type: bool}
  sample:
    - max_concurrency: 1
      completed: 3
      failed_requests: 0
      output_throughput: 60.2
      mean_ttft_ms: 118.4
      p99_ttft_ms: 121.0
      mean_tpot_ms: 16.6
      p99_tpot_ms: 16.7
      correct: true
stable:
  description: Whether every run is correct and no spread is larger than 0.1. Null in check mode.
  type: bool
  returned: success
notes:
  description: What limits the meaning of the numbers.
  type: list
  elements: str
  returned: success
served_model:
  description: Name of the measured model.
  type: str
  returned: success
unknown_until:
  description: In check mode, the stage of the deployment that must really run first.
  type: str
  returned: in check mode, when nothing listens yet
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address as addresses
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import (
    benchmark,
    chat,
    client,
    counting,
    verdict,
    vllm_bench,
    wire,
)
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import ready
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, respawn_into, unknown_until

LIST_TIMEOUT_S = 30.0


def measure(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    address = addresses.parse(params["base_url"])
    positive = [*params["concurrency"], params["repetitions"], params["output_len"], params["request_timeout"]]
    positive += [] if params["num_prompts"] is None else [params["num_prompts"]]
    if not params["concurrency"] or min(positive) < 1 or params["warmup"] < 0:
        raise ServingError(
            "concurrency, num_prompts, output_len, repetitions, request_timeout must be at least 1, warmup at least 0"
        )
    if not 0 < params["min_success_rate"] <= 1:
        raise ServingError("min_success_rate must be above 0 and at most 1")
    if module.check_mode and params["python"] and not os.path.exists(params["python"]):
        return unknown_until("install", params["python"])
    if module.check_mode and not address.is_listening():
        return unknown_until("switch", params["base_url"])
    respawn_into(module, params["python"])
    if not client.HAS_REQUESTS:
        raise ServingError(missing_required_lib("requests"), remedy="Or name an interpreter that has it in python")
    verify = params["validate_certs"] and (params["ca_path"] or True)
    model = served_model(client.Client(address, api_key=params["api_key"], verify=verify), params["model"])
    if module.check_mode:
        notes = ["check mode: nothing was measured"]
        return {"runs": [], "stable": None, "notes": notes, "served_model": model}
    thinking = False if params["thinking_parameter"] else None
    messages = [{"role": "user", "content": counting.PROMPT}]
    request = chat.Request(model, messages, params["output_len"], thinking, params["thinking_parameter"])
    settings = benchmark.Settings(
        params["concurrency"],
        params["num_prompts"],
        params["warmup"],
        params["repetitions"],
        params["request_timeout"],
        params["min_success_rate"],
    )
    if params["tool"] == "vllm_bench":
        target = vllm_bench.Target(address.root, sys.executable, params["api_key"], verify)
        result = vllm_bench.measure(target, request, settings, runner(module))
    else:

        def connect() -> wire.Connection:
            return wire.Connection(address, api_key=params["api_key"], verify=verify)

        result = benchmark.measure(connect, request, settings)
    return {**result, "served_model": model}


def served_model(session: client.Client, wanted: str | None) -> str:
    try:
        served = ready.served_models(session.get_json(ready.MODELS_PATH, timeout=LIST_TIMEOUT_S))
        return ready.choose(served, wanted).model
    except EndpointError as error:
        raise ServingError(
            "the endpoint cannot be measured",
            where=session.address.root,
            why=error.message,
            remedy=verdict.remedy(error),
        ) from error


def runner(module: AnsibleModule) -> vllm_bench.Runner:
    def run(command: Sequence[str], data: str, environment: Mapping[str, str]) -> tuple[int, str, str]:
        code, out, err = module.run_command(list(command), data=data, environ_update=dict(environment))
        return code, out, err

    return run


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "base_url": {"type": "str", "required": True},
            "model": {"type": "str"},
            "api_key": {"type": "str", "no_log": True},
            "ca_path": {"type": "path"},
            "validate_certs": {"type": "bool", "default": True},
            "concurrency": {"type": "list", "elements": "int", "default": [1]},
            "num_prompts": {"type": "int"},
            "output_len": {"type": "int", "default": 512},
            "warmup": {"type": "int", "default": 1},
            "repetitions": {"type": "int", "default": 3},
            "request_timeout": {"type": "int", "default": 300},
            "min_success_rate": {"type": "float", "default": 1.0},
            "thinking_parameter": {"type": "str", "default": "thinking"},
            "tool": {"type": "str", "choices": ["builtin", "vllm_bench"], "default": "builtin"},
            "python": {"type": "path"},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: measure(module))


if __name__ == "__main__":
    main()
