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
  - With O(soak), mixed traffic follows for minutes, and then the same measurement again - it shows whether requests
    fail, answers become wrong, memory grows or the service becomes slower.
extends_documentation_fragment:
  - blackwell.serving.attributes
  - blackwell.serving.endpoint
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
  - requests and aiohttp (in every environment that holds vLLM, see O(python))
options:
  base_url:
    description: Root of the server, with or without C(/v1).
    type: str
    required: true
  model:
    description: Served name. Without it the first served model is measured.
    type: str
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
  tool:
    description:
      - What measures. V(builtin) needs nothing but C(aiohttp).
      - V(vllm_bench) is the benchmark of the vLLM that is installed in the environment of O(python), 0.15 or later,
        with the same requests and the same result; it takes some ten seconds more to start. O(api_key) reaches it in
        its environment, never as an argument.
    type: str
    choices: [builtin, vllm_bench]
    default: builtin
  soak:
    description:
      - Traffic after the measurement - short questions, streamed counting, long prompts that nobody sent before, and
        streams that are hung up on, at the same time and in random order. Afterwards the speed is measured again.
      - The task fails when a limit is exceeded, with RV(soak) in its result. Run long soaks with C(async).
    type: dict
    suboptions:
      minutes:
        description: Minutes of traffic, above 0 and at most 1440.
        type: float
        required: true
      concurrency:
        description: Requests at the same time.
        type: int
        default: 4
      long_prompt_words:
        description:
          - Words of the longest prompt, at least 20. Where the context is known, it is at most an eighth of its tokens.
        type: int
        default: 2000
      max_failures:
        description: Requests that may fail, and answers that may be wrong.
        type: int
        default: 0
      max_memory_growth:
        description:
          - Largest growth as a share, of the service's own memory and of the memory in use on the cards, between the
            second quarter of the time and the last.
        type: float
        default: 0.05
      min_speed_ratio:
        description: Smallest RV(runs[].output_throughput) after the traffic as a share of that before.
        type: float
        default: 0.9
  questions:
    description:
      - Questions with one right answer for O(soak), in the form of
        O(blackwell.serving.vllm_healthcheck#module:questions), of whose sections only C(exact_set) is read. Those that
        are answered rightly at rest are asked in the traffic.
    type: raw
  unit:
    description:
      - Unit of the service, whose control group's memory is watched in O(soak), or that of its processes where control
        groups have no account of memory. Without it, the process that listens on the port of this host is watched with
        its descendants.
    type: str
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

- name: Measure with vLLM's own benchmark
  blackwell.serving.vllm_benchmark:
    base_url: http://127.0.0.1:8000
    tool: vllm_bench
    python: /opt/vllm/0.32.0/bin/python

- name: Load the service for an hour
  blackwell.serving.vllm_benchmark:
    base_url: http://127.0.0.1:8000
    unit: vllm-kimi
    soak:
      minutes: 60
      concurrency: 8
    python: /opt/vllm/0.32.0/bin/python
  async: 5400
  poll: 30
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
soak:
  description: What the traffic showed. Also in the result of a task that failed beyond its limits.
  type: dict
  returned: when O(soak) was given
  contains:
    seconds: {description: Seconds of traffic., type: float}
    seed: {description: Where its random texts and order came from., type: int}
    concurrency: {description: Requests at the same time., type: int}
    requests: {description: "Requests by kind, and C(total).", type: dict}
    failed_requests: {description: Requests that failed., type: int}
    wrong_answers: {description: Answers that were wrong though right at rest., type: int}
    evidence: {description: The first five of these in words., type: list, elements: str}
    output_throughput: {description: Tokens per second of the completed requests., type: float}
    questions: {description: Names of the questions that were asked., type: list, elements: str}
    requests_left_running:
      description: Requests that the engine still works on 10 s after the last; null when it does not tell.
      type: int
    speed:
      description: "C(start) and C(end) in tokens per second, and C(ratio), by C(max_concurrency)."
      type: list
      elements: dict
    speed_ratio: {description: The smallest ratio of these., type: float}
    memory:
      description:
        - Of the service, C(start_bytes), C(settled_bytes) (second quarter), C(end_bytes) (last quarter), C(peak_bytes)
          and C(growth) from settled to end as a share. Null where it could not be read.
      type: dict
    gpu_memory: {description: The same of the memory in use on all cards., type: dict}
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
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address as addresses
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import (
    benchmark,
    chat,
    client,
    connection,
    counting,
    load,
    memory,
    probes,
    questions,
    soak,
    traffic,
    vllm_bench,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine import commands, listener, systemd
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.gpu import nvidia_smi
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, respawn_into, unknown_until

SMI_TIMEOUT_S = 20.0
MAX_MINUTES = 1440
MAX_CONCURRENCY = 4096
MAX_PROMPTS = 100_000
SOAK_LIMITS = ("max_failures", "max_memory_growth", "min_speed_ratio")


def measure(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    address = addresses.parse(params["base_url"])
    positive = [*params["concurrency"], params["repetitions"], params["output_len"], params["request_timeout"]]
    positive += [] if params["num_prompts"] is None else [params["num_prompts"]]
    if not params["concurrency"] or min(positive) < 1 or params["warmup"] < 0:
        raise ServingError(
            "concurrency, num_prompts, output_len, repetitions, request_timeout must be at least 1, warmup at least 0"
        )
    if max(params["concurrency"]) > MAX_CONCURRENCY or (params["num_prompts"] or 0) > MAX_PROMPTS:
        raise ServingError(f"concurrency must be at most {MAX_CONCURRENCY}, num_prompts at most {MAX_PROMPTS}")
    connection.check_seconds(params, ["request_timeout"])
    if not 0 < params["min_success_rate"] <= 1:
        raise ServingError("min_success_rate must be above 0 and at most 1")
    check_soak(params["soak"])
    if module.check_mode and params["python"] and not os.path.exists(params["python"]):
        return unknown_until("install", params["python"])
    if module.check_mode and not address.is_listening():
        return unknown_until("switch", params["base_url"])
    asked = questions.load(probes.load(params["questions"] or {}).get("exact_set") or questions.DEFAULT)
    respawn_into(module, params["python"])
    if params["tool"] == "builtin":
        connection.require("aiohttp", load.HAS_AIOHTTP)

    def connect() -> client.Client:
        return connection.client_of(params, address)

    served = connection.served_model(connect(), params["model"], "measured")
    if module.check_mode:
        notes = ["check mode: nothing was measured"]
        return {"runs": [], "stable": None, "notes": notes, "served_model": served.model}
    thinking = False if params["thinking_parameter"] else None
    messages = [{"role": "user", "content": counting.PROMPT}]
    request = chat.Request(served.model, messages, params["output_len"], thinking, params["thinking_parameter"])
    settings = benchmark.Settings(
        params["concurrency"],
        params["num_prompts"],
        params["warmup"],
        params["repetitions"],
        params["request_timeout"],
        params["min_success_rate"],
    )

    def speed() -> dict[str, Any]:
        if params["tool"] == "vllm_bench":
            target = vllm_bench.Target(address.root, sys.executable, params["api_key"], connection.trust(params))
            return vllm_bench.measure(target, request, settings, runner(module))
        return benchmark.measure(load.Target(address, params["api_key"], connection.trust(params)), request, settings)

    if params["soak"] is None:
        return {**speed(), "served_model": served.model}
    readers = soak.Readers(service_memory(module, address), card_memory(module))
    usable = soak.usable_questions(connect(), request, asked, params["request_timeout"])
    words = params["soak"]["long_prompt_words"]
    if served.max_model_len:
        words = max(20, min(words, served.max_model_len // 8))
    plan = traffic.Plan(
        60 * params["soak"]["minutes"], params["soak"]["concurrency"], params["request_timeout"], words, request, usable
    )
    start = speed()
    found = soak.run(connect, plan, readers, start["runs"], lambda: speed()["runs"], random.getrandbits(32))
    result = {**start, "served_model": served.model, "soak": found}
    limits = soak.Limits(**{name: params["soak"][name] for name in SOAK_LIMITS})
    if said := soak.judge(found, limits):
        raise ServingError("the soak failed", where=address.root, why="; ".join(said), facts=result)
    return result


def service_memory(module: AnsibleModule, address: addresses.Address) -> Callable[[], int] | None:
    """The memory of the unit, else of the processes behind the port of this host; None where neither can be told."""
    unit = module.params["unit"]
    if unit:
        run = commands.bounded(module.run_command)
        name = systemd.full_name(unit)
        code, out, err = run(["systemctl", "show", "--property=ControlGroup", "--property=MainPID", "--", name])
        shown = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        pid = int(shown.get("MainPID") or 0)
        if code != 0 or not pid or not shown.get("ControlGroup"):
            raise ServingError(
                "the unit has no control group", where=name, why=err.strip() or "it does not run", remedy="Start it"
            )
        return memory.of_control_group(shown["ControlGroup"]) or memory.of_processes(pid)
    found = listener.find(address.port) if address.is_local else None
    return memory.of_processes(found.pid) if found and found.pid else None


def card_memory(module: AnsibleModule) -> Callable[[], int] | None:
    """The memory in use on all cards; None on a host without nvidia-smi."""
    if not module.get_bin_path("nvidia-smi"):
        return None
    tool = nvidia_smi.NvidiaSmi(nvidia_smi.bounded(module.run_command), SMI_TIMEOUT_S)

    def read() -> int:
        rows = tool.cards(("index", "memory.used")).rows
        return sum(row["memory.used"].bytes or 0 for row in rows)

    return read


def check_soak(options: dict[str, Any] | None) -> None:
    if options is None:
        return
    if not 0 < options["minutes"] <= MAX_MINUTES:
        raise ServingError(f"soak.minutes must be above 0 and at most {MAX_MINUTES}")
    if options["concurrency"] < 1 or options["long_prompt_words"] < 20 or options["max_failures"] < 0:
        raise ServingError("soak.concurrency must be at least 1, long_prompt_words 20, max_failures 0")
    if options["concurrency"] > MAX_CONCURRENCY:
        raise ServingError(f"soak.concurrency must be at most {MAX_CONCURRENCY}")
    if not (options["max_memory_growth"] >= 0 and options["min_speed_ratio"] >= 0):  # NaN is neither
        raise ServingError("soak.max_memory_growth and min_speed_ratio must be 0 or more")


def runner(module: AnsibleModule) -> vllm_bench.Runner:
    def run(command: Sequence[str], data: str, environment: Mapping[str, str]) -> tuple[int, str, str]:
        code, out, err = module.run_command(list(command), data=data, environ_update=dict(environment))
        return code, out, err

    return run


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **connection.OPTIONS,
            "base_url": {"type": "str", "required": True},
            "model": {"type": "str"},
            "concurrency": {"type": "list", "elements": "int", "default": [1]},
            "num_prompts": {"type": "int"},
            "output_len": {"type": "int", "default": 512},
            "warmup": {"type": "int", "default": 1},
            "repetitions": {"type": "int", "default": 3},
            "request_timeout": {"type": "int", "default": 300},
            "min_success_rate": {"type": "float", "default": 1.0},
            "tool": {"type": "str", "choices": ["builtin", "vllm_bench"], "default": "builtin"},
            "soak": {
                "type": "dict",
                "options": {
                    "minutes": {"type": "float", "required": True},
                    "concurrency": {"type": "int", "default": 4},
                    "long_prompt_words": {"type": "int", "default": 2000},
                    "max_failures": {"type": "int", "default": 0},
                    "max_memory_growth": {"type": "float", "default": 0.05},
                    "min_speed_ratio": {"type": "float", "default": 0.9},
                },
            },
            "questions": {"type": "raw"},
            "unit": {"type": "str"},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: measure(module))


if __name__ == "__main__":
    main()
