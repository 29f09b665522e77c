#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_engine_info
short_description: Tell which vLLM is installed and what its command line accepts
version_added: "0.1.0"
description:
  - Tells the distribution, release and commit of an installed vLLM, and every command-line flag of C(vllm serve)
    with its choices and default.
  - Says before a start what the installed engine would refuse of an argument list, and which C(VLLM_*) environment
    variables it does not know.
  - Everything is read from the installed source files. vLLM is not imported, its interpreter is not started and no
    GPU is needed, so that the answer takes a fraction of a second and is that of the release that is installed, not
    of a table.
  - What cannot be told by reading is V(unknown) and never guessed.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
    details: In check mode an environment that is not there yet is left unknown until install.
  diff_mode:
    support: N/A
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
  action_group:
    support: full
options:
  python:
    description:
      - Python interpreter of the environment that holds the engine, for example
        V(/opt/blackwell-serving/engines/0.33.0/bin/python). It is not run; its path says where the packages are.
      - One of O(python) and O(site_packages) is required.
    type: path
  site_packages:
    description: Folder that holds the package C(vllm) and its C(*.dist-info).
    type: path
  arguments:
    description:
      - What would stand behind C(vllm serve) or C(python -m vllm.entrypoints.openai.api_server), one word an item.
      - Underscores in names, C(--flag=value), C(--no-flag), unambiguous beginnings of names, short names, C(-O3) and
        C(--compilation-config.mode) are taken as the engine takes them.
      - Values of secret flags, such as C(--api-key), are left out of the result; leave them out of the task as well.
    type: list
    elements: str
    default: []
  environment:
    description:
      - Environment variables of the engine's process. Names that begin with C(VLLM_) are looked for in the engine's
        table; values are used for defaults that depend on them.
      - Leave secrets out.
    type: dict
    default: {}
seealso:
  - module: blackwell.serving.vllm_service_info
  - module: blackwell.serving.vllm_kv_budget
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Ask the installed engine whether it takes these arguments
  blackwell.serving.vllm_engine_info:
    python: /opt/blackwell-serving/engines/0.33.0/bin/python
    arguments: [--model, /srv/models/Kimi-K2.5-NVFP4, --kv-cache-dtype, bfloat16, --tensor-parallel-size, "8"]
    environment:
      VLLM_CACHE_ROOT: /var/cache/vllm
  register: engine

- name: Require arguments that it takes
  ansible.builtin.assert:
    that: engine.arguments_accepted
    fail_msg: "{{ engine.removed_flags + engine.refused_values }}"

- name: Show which KV-cache dtypes the release knows
  ansible.builtin.debug:
    msg: >-
      {{ engine.flags['--kv-cache-dtype'].choices or engine.flags['--kv-cache-dtype'].named_values }}
"""

RETURN = r"""
distribution:
  description: Name of the distribution that owns the package C(vllm); null when no metadata does.
  returned: success
  type: str
  sample: vllm
version:
  description: Release, as the engine prints it.
  returned: success
  type: str
  sample: 0.33.0
commit:
  description: Commit of the build, 7 to 40 hexadecimal digits; null when the build does not record it.
  returned: success
  type: str
  sample: 4ba787ec9
torch:
  description: Release and build of torch in the same environment; null without torch.
  returned: success
  type: str
  sample: 2.14.0+cu130
platform:
  description:
    - What the build is for, V(cuda), V(rocm), V(xpu), V(cpu) or V(unknown), told by the distribution and by torch.
      Which card is found is known only when the engine runs.
  returned: success
  type: str
  sample: cuda
site_packages:
  description: Folder with the metadata of the environment's packages.
  returned: success
  type: str
  sample: /opt/blackwell-serving/engines/0.33.0/lib/python3.12/site-packages
source:
  description: Folder that holds the package C(vllm); another one than RV(site_packages) for an editable installation.
  returned: success
  type: str
  sample: /opt/blackwell-serving/engines/0.33.0/lib/python3.12/site-packages
flags:
  description: The flags of C(vllm serve), by their first long name.
  returned: success
  type: dict
  sample:
    --kv-cache-dtype:
      options: [--kv-cache-dtype]
      nargs: 1
      choices: [auto, bfloat16, fp8]
      default: auto
      unknown: []
  contains:
    options:
      description: All spellings, negations included.
      type: list
      elements: str
    nargs:
      description:
        - Number of values. V(0) for a switch, V(1) for one value, V(?), V(*) or V(+) as in Python's argparse, a
          number, or V(unknown).
      type: raw
    choices:
      description: The values that it takes; null for any, V(unknown) where reading cannot tell.
      type: raw
    named_values:
      description:
        - The values that the release names for a flag that takes others as well, such as those that plugins
          register. Up to vLLM 0.32 the KV-cache dtypes are V(choices), from 0.33 they are V(named_values).
      returned: when the release names some
      type: list
      elements: raw
    default:
      description:
        - Its default; null for none, V(unknown) where reading cannot tell. An object is given as the call that
          makes it.
      type: raw
    unknown:
      description: Which of V(nargs), V(choices) and V(default) reading cannot tell.
      type: list
      elements: str
    deprecated:
      description: What the engine says about the end of the flag.
      returned: when the engine calls the flag deprecated
      type: str
    conditional:
      description: Whether the engine adds the flag only under a condition that is known when it runs.
      returned: when it does
      type: bool
flags_complete:
  description:
    - Whether these are all flags. V(false) when a plugin of another package, or a statement that reading cannot
      follow, may add more; RV(notes) says which.
  returned: success
  type: bool
arguments_accepted:
  description:
    - Whether nothing is known that the engine would refuse in O(arguments). Flags that are not known count only when
      RV(flags_complete); unknown environment variables count only with C(--fail-on-environ-validation).
    - What the engine checks after it has read its command line, such as the range of a number, the keys of a JSON
      value or whether flags go together, is not judged.
  returned: success
  type: bool
removed_flags:
  description: Flags of O(arguments) that the engine does not know.
  returned: success
  type: list
  elements: dict
  sample:
    - flag: --disable-log-requests
      replacement: --no-enable-log-requests
      advice: "Leave it out: --enable-log-requests is off by default; --no-enable-log-requests says the same"
      nearest: --enable-log-requests
  contains:
    flag:
      description: The flag as it was written.
      type: str
    replacement:
      description: An installed flag that does what was asked for; null when there is none.
      type: str
    advice:
      description: What to do; null when nothing is known.
      type: str
    nearest:
      description: The installed flag with the nearest spelling; null when none is near.
      type: str
refused_values:
  description:
    - Values in O(arguments) that the engine's parser refuses, and abbreviations that fit more than one flag.
    - Of a flag with C(named_values) also a value that the engine's own check of the configuration refuses.
  returned: success
  type: list
  elements: dict
  sample:
    - flag: --kv-cache-dtype
      value: bf16
      choices: [auto, bfloat16, fp8]
      nearest: bfloat16
      message: "argument --kv-cache-dtype: invalid choice: 'bf16' (choose from 'auto', 'bfloat16', 'fp8')"
  contains:
    flag:
      description: The flag as it was written; null for words that belong to no flag.
      type: str
    value:
      description: The value, a secret one hidden; null when there is none.
      type: str
    choices:
      description: The values that the flag takes; null for any.
      type: list
      elements: raw
    nearest:
      description: The nearest of the choices; null when none is near.
      type: str
    message:
      description: What is wrong, in the words of Python's argparse.
      type: str
deprecated_flags:
  description: Flags of O(arguments) that the engine still takes and warns of.
  returned: success
  type: list
  elements: dict
  contains:
    flag:
      description: The flag as it was written.
      type: str
    message:
      description: What the engine says about its end.
      type: str
unknown_environment:
  description: Names in O(environment) that begin with C(VLLM_) and that the engine does not know.
  returned: success
  type: list
  elements: dict
  sample:
    - name: VLLM_USE_FLASHINFER_MOE_FP4
      nearest: VLLM_USE_FLASHINFER_MOE_INT4
  contains:
    name:
      description: The variable.
      type: str
    nearest:
      description: The known variable with the nearest name; null when none is near.
      type: str
notes:
  description: What could not be told or judged, and what does not fit together in the environment.
  returned: success
  type: list
  elements: str
unknown_until:
  description: The stage that makes the engine; V(install).
  returned: in check mode, when the environment does not exist yet
  type: str
  sample: install
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.engine.engine_info import describe
from ansible_collections.blackwell.serving.plugins.module_utils.engine.environment import exists, locate
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, unknown_until


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "path"},
            "site_packages": {"type": "path"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
        },
        required_one_of=[("python", "site_packages")],
        mutually_exclusive=[("python", "site_packages")],
        supports_check_mode=True,
    )
    asked = module.params

    def work() -> dict[str, Any]:
        if module.check_mode and not exists(asked["python"], asked["site_packages"]):
            return unknown_until("install", asked["python"] or asked["site_packages"] or "the engine's environment")
        environment = {name: "" if value is None else str(value) for name, value in asked["environment"].items()}
        return describe(locate(asked["python"], asked["site_packages"]), asked["arguments"], environment)

    finish(module, work)


if __name__ == "__main__":
    main()
