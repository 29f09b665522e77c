#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quant_config_patch
short_description: Take a quantized KV cache out of a checkpoint's configuration, or put it back
version_added: "0.1.0"
description:
  - With O(kv_cache=model_dtype) the values in C(config.json) and C(hf_quant_config.json) that ask for a quantized KV
    cache become C(null), so that vLLM resolves C(--kv-cache-dtype auto) to the model's own dtype and still loads the
    weights.
  - Only these values change. Order of keys, indentation, line ends, encoding, mode and owner stay as they are.
  - The published bytes are kept under C(.cache/huggingface/blackwell.serving/pristine) in the checkpoint, and what was
    done is recorded in C(patches.json) beside it; O(kv_cache=checkpoint) restores the files byte for byte.
  - Both files change together. A run that was killed is completed by the next one.
  - A file that a download replaced since is patched anew.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
    details:
      - While the checkpoint is not there yet, the change is predicted from O(contents), or left unknown until fetch.
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
  action_group:
    support: full
options:
  path:
    description: Folder of the checkpoint.
    type: path
    required: true
  contents:
    description:
      - Contents of C(config.json) and C(hf_quant_config.json) by file name, as M(blackwell.serving.hf_repo_info)
        returns them; a file that is null does not exist. Other names are ignored.
      - Used in check mode only, while O(path) holds no C(config.json).
    type: dict
  kv_cache:
    description: What the files shall ask for.
    type: str
    choices:
      model_dtype: A KV cache in the model's own dtype.
      checkpoint: What the checkpoint was published with.
    default: model_dtype
  vllm_version:
    description:
      - Release of vLLM whose rules apply, for example V(0.33.0).
      - Without it, and without O(site_packages), those of the newest release whose rules are known.
    type: str
  site_packages:
    description:
      - Folder of the installed vLLM. The rules are then read in its own source, which is not run, and a rule whose
        source has another shape than any release that is known is named in RV(notes).
      - In check mode, while the folder does not exist yet, O(vllm_version) counts.
    type: path
  owner:
    description: Owner of the two files. Without it, a file keeps its owner.
    type: str
  group:
    description: Group of the two files. Without it, a file keeps its group.
    type: str
  mode:
    description: Mode of the two files, such as V('0644') or V(u=rw,go=r). Without it, a file keeps its mode.
    type: raw
notes:
  - A symbolic link, for example into a shared cache, is replaced by a patched file of the checkpoint's own; what it
    points to stays as it is.
  - vLLM needs no patch where C(--kv-cache-dtype) is passed explicitly, unless M(blackwell.serving.checkpoint_info)
    returns C(overrides_flag).
seealso:
  - module: blackwell.serving.checkpoint_info
  - module: blackwell.serving.hf_shard_download
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Store the KV cache in the model's dtype
  blackwell.serving.quant_config_patch:
    path: /srv/models/Kimi-K2.5-NVFP4
    kv_cache: model_dtype
    vllm_version: 0.33.0

- name: Put back what was published
  blackwell.serving.quant_config_patch:
    path: /srv/models/Kimi-K2.5-NVFP4
    kv_cache: checkpoint
"""

RETURN = r"""
files:
  description: The files that the checkpoint has, of C(config.json) and C(hf_quant_config.json).
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Name of the file in the checkpoint.
      type: str
    changed:
      description: Whether it changed.
      type: bool
    edits:
      description: The values that changed, each with C(pointer) (a JSON pointer), C(before) and C(after).
      type: list
      elements: dict
  sample:
    - path: config.json
      changed: true
      edits:
        - pointer: /quantization_config/kv_cache_scheme
          before: {dynamic: false, num_bits: 8, type: float}
          after: null
kv_cache_dtype:
  description: What vLLM makes of C(--kv-cache-dtype auto); V(auto) is the model's own dtype.
  returned: success
  type: dict
  sample: {published: fp8_e4m3, before: fp8_e4m3, after: auto}
  contains:
    published:
      description: With the files as they were published.
      type: str
    before:
      description: With the files as they were found.
      type: str
    after:
      description: With the files as they are now.
      type: str
decided_by:
  description:
    - What decided RV(kv_cache_dtype.before), as file#JSON-pointer. The key that counts, else the block that is read and
      asks for nothing; null when the checkpoint has no such block.
  returned: success
  type: str
  sample: config.json#/quantization_config/kv_cache_scheme
published_by:
  description: What decided RV(kv_cache_dtype.published), in the form of RV(decided_by).
  returned: success
  type: str
  sample: config.json#/quantization_config/kv_cache_scheme
notes:
  description: What a person should know besides, such as KV scales that stay in the weights.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import holds_checkpoint
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch import (
    CHECKPOINT,
    MODEL_DTYPE,
    FileChange,
    patch_checkpoint,
    predict,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_source import asked_rules
from ansible_collections.blackwell.serving.plugins.module_utils.engine.environment import sources_of
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, unknown_until


def run(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    folder = Path(params["path"])
    exists = holds_checkpoint(folder)
    sources = sources_of(params["site_packages"])
    rules = asked_rules(params["vllm_version"], sources, check_mode=module.check_mode)
    if exists or not module.check_mode:
        patch = patch_checkpoint(folder, params["kv_cache"], rules, dry_run=module.check_mode)
    elif params["contents"] is not None:
        patch = predict(params["contents"], params["kv_cache"], rules)
    else:
        return unknown_until("fetch", f"{folder}/config.json")
    files = [
        {
            "path": file.name,
            "changed": (exists and apply_attributes(module, folder / file.name)) or file.changed,
            "edits": [edit.as_dict() for edit in file.edits],
        }
        for file in patch.files
    ]
    result: dict[str, Any] = {
        "changed": any(file["changed"] for file in files),
        "files": files,
        "kv_cache_dtype": {
            "published": patch.published.dtype,
            "before": patch.before.dtype,
            "after": patch.after.dtype,
        },
        "decided_by": patch.before.decided_by,
        "published_by": patch.published.decided_by,
        "notes": patch.notes,
    }
    if module._diff:
        result["diff"] = [diff_of(folder, file) for file in patch.files if file.changed]
    return result


def apply_attributes(module: AnsibleModule, path: Path) -> bool:
    """Set the owner, group and mode that were asked for. A link is about to be replaced, so it has none to compare."""
    if path.is_symlink():
        return False
    changed = module.set_owner_if_different(str(path), module.params["owner"], False)
    changed = module.set_group_if_different(str(path), module.params["group"], changed)
    return bool(module.set_mode_if_different(str(path), module.params["mode"], changed))


def diff_of(folder: Path, file: FileChange) -> dict[str, str]:
    name = str(folder / file.name)
    return {"before_header": name, "after_header": name, "before": file.before, "after": file.after}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "contents": {"type": "dict"},
            "kv_cache": {"type": "str", "choices": [MODEL_DTYPE, CHECKPOINT], "default": MODEL_DTYPE},
            "vllm_version": {"type": "str"},
            "site_packages": {"type": "path"},
            "owner": {"type": "str"},
            "group": {"type": "str"},
            "mode": {"type": "raw"},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: run(module))


if __name__ == "__main__":
    main()
