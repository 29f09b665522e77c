#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: The NVIDIA GPUs of a host, their memory, and who holds it
version_added: "0.1.0"
description:
  - Reads C(nvidia-smi) and C(/proc) and changes nothing.
  - Every process that holds memory is told with its user, its systemd unit and its container.
  - A number that the driver does not tell is V(null), with the reason in C(unknown); it is never taken as 0.
  - Fails when the answer cannot be trusted. That is when the tool does not answer in time or fails, when the driver
    and its library differ in version, when fewer cards answer than expected or one has fallen off the bus, and when a
    chosen card is split in MIG instances. What is known is then in the failed result.
  - Works without root. What only root may see of other users' processes is then V(null), with the reason
    C(permission).
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
  idempotent:
    support: full
  platform:
    platforms: linux
    support: full
  action_group:
    support: full
options:
  gpus:
    description: Indices of the cards to tell about; all when omitted.
    type: list
    elements: int
  expected_count:
    description:
      - Number of cards that the host has to have, whatever O(gpus) says.
      - Another number that answers is a failure with the problem C(gpu_missing).
    type: int
  timeout:
    description:
      - Seconds within which each call of C(nvidia-smi) has to answer.
      - Without the persistence daemon a host with eight cards may need many.
    type: float
    default: 60
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Look at the cards
  blackwell.serving.gpu_info:
    expected_count: 8
  register: cards

- name: Say who holds the first card
  ansible.builtin.debug:
    msg: "{{ cards.gpus[0].processes | map(attribute='unit') | list }}"
"""

RETURN = r"""
driver:
  description: Version of the NVIDIA driver.
  returned: success
  type: str
  sample: 580.95.05
cuda:
  description: The newest CUDA version that the driver supports.
  returned: success
  type: str
  sample: "13.0"
gpus:
  description: The chosen cards, in the order of their index.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: Index of the card, in the order of the PCI bus.
      type: int
    uuid:
      description: UUID of the card; it stays the same when the index changes.
      type: str
    bus_id:
      description: PCI address.
      type: str
      sample: 00000000:11:00.0
    name:
      description: Product name.
      type: str
      sample: NVIDIA RTX PRO 6000 Blackwell Server Edition
    compute_capability:
      description: CUDA compute capability.
      type: str
      sample: "12.0"
    memory:
      description: Memory in bytes; a part that is not told is V(null).
      type: dict
      contains:
        total_bytes:
          description: All of the card's memory.
          type: int
        reserved_bytes:
          description: What the driver and the firmware keep for themselves.
          type: int
        used_bytes:
          description: What is in use, by processes or not.
          type: int
        free_bytes:
          description: What is neither reserved nor in use.
          type: int
        torch_total_bytes:
          description:
            - What torch reports as the card's total, which is total minus reserved.
            - The factor C(gpu_memory_utilization) of vLLM applies to this number. Rounding makes it up to 1 MiB
              smaller.
          type: int
    mig:
      description: Whether the card is split in MIG instances; V(null) for a card without MIG.
      type: bool
    utilization:
      description: Percent of the last sample period in which a kernel ran; no sign of use, see RV(notes).
      type: int
    power_w:
      description: Power draw in watts.
      type: float
    processes:
      description: The processes that the driver lists on the card.
      type: list
      elements: dict
      contains:
        pid:
          description: Process ID.
          type: int
        start_time:
          description: Start of the process in clock ticks since boot; with C(pid) it names one process.
          type: int
        name:
          description: Name as C(nvidia-smi) prints it; a process may choose its own.
          type: str
        executable:
          description: The file it runs. For the python of a virtual environment this is the base interpreter.
          type: str
        command:
          description: The command line, with secrets hidden.
          type: str
        user:
          description: Name of its real user.
          type: str
        unit:
          description: Its systemd unit on this host (a service or a scope).
          type: str
        container:
          description: The ID by which a container runtime knows it.
          type: str
        used_bytes:
          description: Memory of the card that it holds.
          type: int
        kind:
          description: V(C) for compute, V(G) for graphics, V(C+G) for both.
          type: str
        unknown:
          description: Reasons of the fields that are V(null), by field.
          type: dict
    unknown:
      description: Reasons of the numbers that are V(null), by the field name of C(nvidia-smi).
      type: dict
      sample: {memory.used: permission}
topology:
  description:
    - How the chosen cards are joined; V(null), and a problem C(topology_unknown), when the tool does not tell.
  returned: success
  type: dict
  contains:
    links:
      description: Each pair of cards once, as C({gpus, link, p2p}) with the words of C(nvidia-smi topo).
      type: list
      elements: dict
      sample: [{gpus: [0, 1], link: PIX, p2p: OK}]
    nvlink:
      description: Whether any pair is joined by NVLink.
      type: bool
    numa:
      description: For each card its NUMA node and the CPUs near it, as C({gpu, node, cpus}).
      type: list
      elements: dict
      sample: [{gpu: 0, node: 0, cpus: "0-31,64-95"}]
    p2p:
      description: Whether every pair may read its peer's memory; V(null) when not told.
      type: bool
unattributed:
  description:
    - Cards with more than 64 MiB in use that no listed process accounts for, as C({gpu, bytes}).
    - Memory on its way back after a process has ended looks like this for some seconds.
  returned: success
  type: list
  elements: dict
problems:
  description:
    - Findings as C({gpu, problem, detail}); C(gpu) is V(null) for the host as a whole.
    - Names are C(memory_unknown), C(possible_wedge), C(topology_unknown) and, when the task fails, C(mig_enabled),
      C(gpu_missing), C(driver_mismatch), C(timed_out), C(no_nvidia_smi) and C(nvidia_smi_failed).
  returned: always
  type: list
  elements: dict
notes:
  description: What looks like a fault and is none, as C(util_latched) on an empty card.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.inventory import report
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.nvidia_smi import NvidiaSmi, bounded
from ansible_collections.blackwell.serving.plugins.module_utils.gpu.processes import ProcessTable
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish

PROC = "/proc"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "int"},
            "expected_count": {"type": "int"},
            "timeout": {"type": "float", "default": 60},
        },
        supports_check_mode=True,
    )
    options = module.params
    smi = NvidiaSmi(bounded(module.run_command), options["timeout"], PROC)
    finish(module, lambda: report(smi, ProcessTable(PROC), options["gpus"], options["expected_count"]))


if __name__ == "__main__":
    main()
