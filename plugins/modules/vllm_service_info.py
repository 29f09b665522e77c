#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_service_info
short_description: Look at a vLLM service under systemd
version_added: "0.1.0"
description:
  - Reads the unit from systemd, the journal of its present (or last) invocation, the process from C(/proc), and who
    listens on the port.
  - Tells how far a start has come, which backends and how much KV cache the engine chose, and why it died.
  - A unit that does not exist is an answer (RV(exists=false)), not a failure.
  - Nothing is changed. Run it with C(become), because journal, environment and sockets of a service of another user may
    otherwise not be read; what could not be read is told in RV(notes).
extends_documentation_fragment:
  - blackwell.serving.attributes
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
options:
  unit:
    description: Name of the unit; V(.service) is added when it has no suffix.
    type: str
    required: true
  port:
    description:
      - TCP port on which the service should listen.
      - Without it RV(stage) is what the log says, and RV(listener_pid) is not looked up.
    type: int
seealso:
  - module: blackwell.serving.vllm_healthcheck
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Look at the service
  blackwell.serving.vllm_service_info:
    unit: kimi.service
    port: 8000
  become: true
  register: serving_service

- name: Tell how many tokens the KV cache holds
  ansible.builtin.debug:
    msg: "{{ serving_service.kv_cache.tokens }} tokens, {{ serving_service.attention_backend }}"
"""

RETURN = r"""
unit:
  description: Name of the unit as systemd knows it.
  type: str
  returned: success
  sample: kimi.service
exists:
  description: Whether systemd knows the unit.
  type: bool
  returned: success
active:
  description: Whether C(ActiveState) is V(active). For a unit of C(Type=exec) this says only that the process runs.
  type: bool
  returned: success
active_state:
  description: C(ActiveState).
  type: str
  returned: success
sub_state:
  description: C(SubState); V(auto-restart) means that the process died and systemd will start it again.
  type: str
  returned: success
result:
  description: C(Result) of the last run.
  type: str
  returned: success
enabled:
  description: Whether the unit starts at boot.
  type: bool
  returned: success
fragment_path:
  description: Path of the unit file.
  type: str
  returned: success
need_daemon_reload:
  description: Whether the unit file changed since systemd read it.
  type: bool
  returned: success
invocation_id:
  description: Identifies this run of the unit; it changes with every start. V(null) when it has never been started.
  type: str
  returned: success
restarts:
  description: C(NRestarts), automatic restarts since the last deliberate start.
  type: int
  returned: success
exit_status:
  description: C(ExecMainStatus) of the last run.
  type: int
  returned: success
pid:
  description: Main process, V(null) when there is none.
  type: int
  returned: success
start_time:
  description: Start of the main process in clock ticks since boot (field 22 of C(/proc/PID/stat)).
  type: int
  returned: success
started_at:
  description: When systemd started the main process, in seconds since 1970.
  type: float
  returned: success
command:
  description: Argument vector of the running main process, with the values of secret flags hidden.
  type: list
  elements: str
  returned: success
environment:
  description:
    - NCCL_*, VLLM_* and CUDA_* of the running main process; variables that hold a key or token are left out.
    - Empty when the process has overwritten its environment, see RV(notes).
  type: dict
  returned: success
  sample: {NCCL_PROTO: LL, NCCL_P2P_LEVEL: SYS}
port_in_use:
  description: Whether anything listens on O(port), also a process that cannot be seen from here.
  type: bool
  returned: success
listener_pid:
  description: A process that listens on O(port); one outside the unit is named when there is one.
  type: int
  returned: success
listener_unit:
  description: The systemd unit in which that process runs.
  type: str
  returned: success
stage:
  description:
    - How far the service is. V(listening) needs a listener of the unit when O(port) is given.
    - V(dead) is a unit that does not exist, has ended, or waits for its restart.
  type: str
  returned: success
  sample: loading_weights
progress:
  description: Last progress bar of the present stage, or V(null).
  type: dict
  returned: success
  contains:
    what: {description: Label of the bar., type: str}
    done: {description: Steps done., type: int}
    total: {description: Steps in all., type: int}
    percent: {description: Percent done., type: int}
  sample: {what: Loading safetensors checkpoint shards, done: 57, total: 119, percent: 48}
kv_cache:
  description: What the engine printed about memory; a value is V(null) when it was not printed.
  type: dict
  returned: success
  contains:
    tokens: {description: KV cache size in tokens., type: int}
    max_model_len: {description: Length in tokens to which the concurrency refers., type: int}
    concurrency: {description: Requests of that length that fit at the same time., type: float}
    inconsistent:
      description: Whether tokens and concurrency contradict each other (hybrid models of older releases).
      type: bool
    available_bytes: {description: Memory for the KV cache per card in bytes; the smallest of the workers., type: int}
    weights_bytes: {description: Weights per card in bytes; the largest of the workers., type: int}
    cuda_graph_bytes: {description: Captured CUDA graphs per card in bytes., type: int}
    cuda_graph_estimated_bytes: {description: Estimate that was subtracted before the KV cache was sized., type: int}
attention_backend:
  description: Attention backend that the engine chose.
  type: str
  returned: success
  sample: TRITON_MLA
moe_backend:
  description: Backend of the mixture-of-experts layers.
  type: str
  returned: success
linear_backend:
  description: Kernel of the quantized linear layers.
  type: str
  returned: success
vllm_version:
  description: Release that the engine printed.
  type: str
  returned: success
root_cause:
  description: Why the invocation ended or is about to; V(null) when nothing is wrong.
  type: dict
  returned: success
  contains:
    class:
      description:
        - V(host_oom), V(start_timeout), V(restart_limit), V(exec_failed), V(engine_ready_timeout) or V(engine_error).
      type: str
    message: {description: "The first real exception of the invocation, or systemd's verdict.", type: str}
    hint: {description: "What to do, where it is known.", type: str}
notes:
  description: What could not be read, and why.
  type: list
  elements: str
  returned: success
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.engine.commands import bounded
from ansible_collections.blackwell.serving.plugins.module_utils.engine.service import describe
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish


def main() -> None:
    module = AnsibleModule(
        argument_spec={"unit": {"type": "str", "required": True}, "port": {"type": "int"}},
        supports_check_mode=True,
    )

    def work() -> dict[str, Any]:
        return describe(module.params["unit"], bounded(module.run_command), port=module.params["port"])

    finish(module, work)


if __name__ == "__main__":
    main()
