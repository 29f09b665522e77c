#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_repo_info
short_description: Look at a model repository on the Hugging Face Hub before anything is downloaded
version_added: "0.1.0"
description:
  - Resolves a branch, tag or commit to a commit, lists the files of that commit with their published hashes, and reads
    its small JSON files.
  - Uses Python's standard library alone, so that it works on a host where nothing is installed yet.
  - Requests that fail for a passing reason (connection lost, status 429, 500, 502, 503, 504) are tried again after
    growing pauses, or after the pause that the Hub asks for.
  - The proxy variables and E(SSL_CERT_FILE) of the host are honoured.
author:
  - blackwell.serving contributors (@blackwell-serving)
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
  repo_id:
    description: Name of the repository, C(namespace/name).
    type: str
    required: true
  revision:
    description: A branch, a tag or a commit of 40 hexadecimal digits.
    type: str
    default: main
  endpoint:
    description: Address of the Hub or of a mirror of it. Without the option, E(HF_ENDPOINT) of the host is used.
    type: str
    default: https://huggingface.co
  token:
    description:
      - Access token for a private or gated repository.
      - Without the option the host's own is used, by the rules of C(huggingface_hub). That is E(HF_TOKEN), or what
        C(hf auth login) has stored for the user that the task runs as, unless E(HF_HUB_DISABLE_IMPLICIT_TOKEN) is set.
      - It is sent to the origin of O(endpoint) only, never to another one that the Hub redirects to.
    type: str
  files:
    description: JSON files to read. Those that the repository does not have are left out of RV(contents).
    type: list
    elements: str
    default:
      - config.json
      - hf_quant_config.json
      - model.safetensors.index.json
  timeout:
    description: Longest time for the whole task in seconds, repeated requests included; V(0) is no limit.
    type: float
    default: 120
seealso:
  - module: blackwell.serving.hf_shard_download
"""

EXAMPLES = r"""
- name: Look at the model before the download
  blackwell.serving.hf_repo_info:
    repo_id: nvidia/Kimi-K2.5-NVFP4
    files:
      - config.json
      - hf_quant_config.json
  register: kimi

- name: Refuse when the disk is too small
  ansible.builtin.assert:
    that: kimi.total_bytes < free_bytes | int
    fail_msg: "{{ kimi.commit }} needs {{ kimi.total_bytes | human_readable }}."
"""

RETURN = r"""
repo_id:
  description: Name of the repository.
  returned: success
  type: str
  sample: nvidia/Kimi-K2.5-NVFP4
endpoint:
  description: The Hub that answered.
  returned: success
  type: str
  sample: https://huggingface.co
revision:
  description: The revision that was asked for.
  returned: success
  type: str
  sample: main
commit:
  description: The commit that the revision is at this moment, 40 hexadecimal digits.
  returned: success
  type: str
  sample: 4b3b2b7e1f6a0c9d8e7f6a5b4c3d2e1f0a9b8c7d
gated:
  description: V(false), or how access is granted to those who ask for it, V(auto) or V(manual).
  returned: success
  type: raw
  sample: false
files:
  description: All files of the commit, sorted by path.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Path in the repository.
      type: str
      sample: model-00001-of-00119.safetensors
    size:
      description: Size in bytes.
      type: int
      sample: 4999802720
    sha256:
      description: Hash of the bytes, for LFS files.
      type: str
      returned: for LFS files
    git_sha1:
      description: Git blob id of the bytes, for all other files.
      type: str
      returned: for files that are not LFS
weights_bytes:
  description:
    - Size in bytes of the files that an engine loads, which are those that the index names.
    - Without an index the safetensors files of the top folder, or else its C(.bin), C(.pt) or C(.gguf) files.
  returned: success
  type: int
  sample: 591000000000
total_bytes:
  description: Size in bytes of all files.
  returned: success
  type: int
  sample: 591030000000
contents:
  description: The parsed JSON of each file of O(files) that the repository has, by name.
  returned: success
  type: dict
  sample:
    config.json:
      model_type: kimi_k25
notes:
  description: What is odd about the repository, such as an index that names files which do not exist.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule, env_fallback
from ansible_collections.blackwell.serving.plugins.module_utils.hub.api import Api
from ansible_collections.blackwell.serving.plugins.module_utils.hub.repo_info import repo_info
from ansible_collections.blackwell.serving.plugins.module_utils.hub.retry import timed
from ansible_collections.blackwell.serving.plugins.module_utils.hub.token import cleaned, token_of_host
from ansible_collections.blackwell.serving.plugins.module_utils.hub.transport import Session
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "repo_id": {"type": "str", "required": True},
            "revision": {"type": "str", "default": "main"},
            "endpoint": {
                "type": "str",
                "default": "https://huggingface.co",
                "fallback": (env_fallback, ["HF_ENDPOINT"]),
            },
            "token": {"type": "str", "no_log": True},
            "files": {
                "type": "list",
                "elements": "str",
                "default": ["config.json", "hf_quant_config.json", "model.safetensors.index.json"],
            },
            "timeout": {"type": "float", "default": 120},
        },
        supports_check_mode=True,
    )
    options = module.params

    def work() -> dict[str, object]:
        token = cleaned(options["token"]) or token_of_host(options["endpoint"])
        if token:
            module.no_log_values.add(token)
        session = Session(options["endpoint"], token)
        api = Api(session, options["repo_id"], timed(options["timeout"]))
        return repo_info(api, options["revision"], options["files"])

    finish(module, work)


if __name__ == "__main__":
    main()
