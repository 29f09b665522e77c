#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_reclaim
short_description: End what a stopped service left on the GPUs, and prove their memory free
version_added: "0.1.0"
description:
  - Ends only processes that a rule in O(allow) names, and of these only holders of memory on the chosen cards and
    members of an allowed unit. A title or an executable alone never suffices.
  - Decides about every process before the first is signalled. A holder that is not ours to end fails the task, with a
    table of owners, and nothing is touched.
  - Sends C(SIGTERM), then C(SIGKILL), each time to exactly the process that was judged. The start time is compared
    after the process is held by a pidfd.
  - Never ends pid 1, this automation and its ancestors, display servers, the persistence daemon, monitoring (DCGM)
    and the fabric manager. Never resets a card, never touches MIG.
  - Proves the memory free by reading it, until each card is at or under O(memory_floor_bytes) three times on end. A
    card that cannot be read is not free.
  - Removes left-over segments of C(/dev/shm) only when their name is known, their owner is in O(shared_memory_users),
    and no live process has them open or mapped.
  - Stopping a unit is not its work. Processes of a service that is still active are refused, because systemd would
    start them again; use M(ansible.builtin.systemd_service) before it.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
    details:
      - The lists are those of a real run at the same moment; a process that would need C(SIGKILL) is listed under
        RV(terminated).
      - A service that is still active is taken as one that the task before stops. Of its processes only those are
        listed that its C(KillMode) leaves.
      - Memory is proven only for the cards on which nobody would be ended.
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    platforms: linux
    support: full
  action_group:
    support: full
options:
  gpus:
    description: Indices of the cards to take back; all when omitted.
    type: list
    elements: int
  allow:
    description:
      - Rules for the processes that are ours to end. The members of a rule have to hold together.
      - A rule names O(allow[].unit), or O(allow[].user) and O(allow[].venv), or O(allow[].pid) and
        O(allow[].start_time).
    type: list
    elements: dict
    default: []
    suboptions: &rule
      unit:
        description:
          - The systemd unit that the process is in; C(.service) may be left out. It need not be active any more.
        type: str
      user:
        description: Name or number of the real user.
        type: str
      venv:
        description: A virtual environment, of which the process has a file mapped.
        type: path
      pid:
        description: Process ID.
        type: int
      start_time:
        description: Start of the process in clock ticks since boot, as M(blackwell.serving.gpu_info) tells it.
        type: int
  deny:
    description:
      - Rules for processes that are never ended, whatever O(allow) says; any member may stand alone.
      - One that holds memory of a chosen card is foreign.
    type: list
    elements: dict
    default: []
    suboptions: *rule
  keep_units:
    description:
      - Units that may keep their memory, as the service that is already in place on a later run.
      - Their processes are neither ended nor foreign, and a card that only they hold is not demanded free.
    type: list
    elements: str
    default: []
  term_timeout:
    description: Seconds that processes get to leave after C(SIGTERM).
    type: float
    default: 30
  kill_timeout:
    description: Seconds after C(SIGKILL) until a process that is still there counts as unkillable.
    type: float
    default: 30
  memory_floor_bytes:
    description:
      - Use of a card, in bytes, up to which it counts as free. An idle card shows from some MiB to some 600 MiB.
    type: int
    default: 1073741824
  settle_timeout:
    description: Seconds within which the driver has to give the memory back.
    type: float
    default: 120
  shared_memory:
    description: Whether to look for left-over segments in C(/dev/shm).
    type: bool
    default: true
  shared_memory_users:
    description:
      - Names or numbers of the users whose left-over segments may be removed.
      - With none, segments are reported and left.
    type: list
    elements: str
    default: []
  fail_on_foreign:
    description:
      - Whether a holder of memory that no rule allows fails the task before anything is done.
      - With V(false) such holders are reported, and the cards they hold are not demanded free.
    type: bool
    default: true
  timeout:
    description: Seconds within which each call of C(nvidia-smi) has to answer.
    type: float
    default: 60
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Stop the retired service
  ansible.builtin.systemd_service:
    name: vllm-glm5.service
    state: stopped
    enabled: false

- name: Take back what it left behind
  blackwell.serving.gpu_reclaim:
    gpus: [0, 1, 2, 3, 4, 5, 6, 7]
    allow:
      - unit: vllm-glm5.service
      - user: vllm
        venv: /opt/vllm-glm5
    keep_units: [vllm-kimi.service]
    shared_memory_users: [vllm]
"""

RETURN = r"""
terminated:
  description: Processes that left after C(SIGTERM); in check mode all that would be ended.
  returned: when the cards could be read
  type: list
  elements: dict
  contains: &process
    pid:
      description: Process ID.
      type: int
    start_time:
      description: Start of the process in clock ticks since boot.
      type: int
    name:
      description: Title of the process.
      type: str
    executable:
      description: The file it runs.
      type: str
    user:
      description: Its real user.
      type: str
    unit:
      description: Its systemd unit.
      type: str
    container:
      description: The ID of its container.
      type: str
    gpus:
      description: The chosen cards on which it holds memory.
      type: list
      elements: int
    used_bytes:
      description: Memory that it holds on them; V(null) when the driver does not tell.
      type: int
    reason:
      description: Why it is in this list, where that is not plain.
      type: str
killed:
  description: Processes that needed C(SIGKILL).
  returned: when the cards could be read
  type: list
  elements: dict
  contains: *process
survivors:
  description:
    - Processes that are still there after C(SIGKILL), with their C(state) and the kernel function they wait in
      (C(waits_in)).
    - Any fails the task, with C(reboot_required).
  returned: when the cards could be read
  type: list
  elements: dict
  contains: *process
not_signalled:
  description: Processes that were not signalled because their pid belonged to another one by then (C(pid_reused)).
  returned: when the cards could be read
  type: list
  elements: dict
  contains: *process
foreign:
  description: Holders of memory that are not ours to end.
  returned: when the cards could be read
  type: list
  elements: dict
  contains: *process
protected:
  description: Holders of memory, or members of an allowed unit, that are never ended.
  returned: when the cards could be read
  type: list
  elements: dict
  contains: *process
kept:
  description: Holders of memory in O(keep_units).
  returned: when the cards could be read
  type: list
  elements: dict
  contains: *process
removed_segments:
  description: Files that were removed from C(/dev/shm); in check mode those that would be.
  returned: when the cards could be read
  type: list
  elements: dict
  contains:
    name:
      description: Name of the file.
      type: str
    bytes:
      description: Its size.
      type: int
    user:
      description: Its owner.
      type: str
left_segments:
  description: Files that were left in C(/dev/shm), and why.
  returned: when the cards could be read
  type: list
  elements: dict
  contains:
    name:
      description: Name of the file.
      type: str
    bytes:
      description: Its size.
      type: int
    user:
      description: Its owner.
      type: str
    reason:
      description: V(unknown_pattern), V(other_owner), V(in_use) or V(cannot_prove_unused) (without root).
      type: str
    pids:
      description: Processes that have it open or mapped, or that cannot be looked into.
      type: list
      elements: int
before:
  description: Use of the chosen cards before, as C({gpu, used_bytes, pids}).
  returned: when the cards could be read
  type: list
  elements: dict
after:
  description: The same afterwards; V(null) in check mode when processes would be ended, here or by stopping a service.
  returned: success
  type: list
  elements: dict
freed_bytes:
  description: Memory that the cards use less than before; V(null) when RV(after) is.
  returned: success
  type: int
not_free:
  description: Cards that did not become free, as C({gpu, used_bytes, pids}) of the last reading.
  returned: when memory did not come back
  type: list
  elements: dict
reboot_required:
  description: Whether only a reboot helps.
  returned: when a process cannot be killed
  type: bool
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.nvidia_smi import NvidiaSmi, bounded
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import ProcessTable
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.reclaim import Settings, reclaim
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.rules import read_rule
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.units import unit_state
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish

PROC = "/proc"
SHM = "/dev/shm"  # noqa: S108  (the subject of this module)

RULE = {
    "unit": {"type": "str"},
    "user": {"type": "str"},
    "venv": {"type": "path"},
    "pid": {"type": "int"},
    "start_time": {"type": "int"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "int"},
            "allow": {"type": "list", "elements": "dict", "default": [], "options": RULE},
            "deny": {"type": "list", "elements": "dict", "default": [], "options": RULE},
            "keep_units": {"type": "list", "elements": "str", "default": []},
            "term_timeout": {"type": "float", "default": 30},
            "kill_timeout": {"type": "float", "default": 30},
            "memory_floor_bytes": {"type": "int", "default": 1 << 30},
            "settle_timeout": {"type": "float", "default": 120},
            "shared_memory": {"type": "bool", "default": True},
            "shared_memory_users": {"type": "list", "elements": "str", "default": []},
            "fail_on_foreign": {"type": "bool", "default": True},
            "timeout": {"type": "float", "default": 60},
        },
        supports_check_mode=True,
    )
    options = dict(module.params)
    smi = NvidiaSmi(bounded(module.run_command), options.pop("timeout"), PROC)

    def work() -> dict[str, object]:
        rules = {name: [read_rule(members, name) for members in options[name]] for name in ("allow", "deny")}
        settings = Settings(**{**options, **rules})
        table = ProcessTable(PROC)
        return reclaim(smi, table, Path(SHM), settings, lambda unit: unit_state(smi.run, unit), check=module.check_mode)

    finish(module, work)


if __name__ == "__main__":
    main()
