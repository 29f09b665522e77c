#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: checkpoint_info
short_description: Tell what a model checkpoint is
version_added: "0.1.0"
description:
  - Reads C(config.json), C(hf_quant_config.json), the shard index and the header of every safetensors file, and returns
    the model's architecture, its quantization and the state of its shards as data.
  - Says which place of the checkpoint decides the KV-cache dtype when vLLM runs with C(--kv-cache-dtype auto), and what
    C(auto) then becomes.
  - Reads files only; needs no network, no GPU and no engine.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
    details: In check mode a checkpoint that is not there yet is described from O(config), or left unknown until fetch.
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
  path:
    description: Folder of the checkpoint.
    type: path
  config:
    description:
      - Content of C(config.json) as M(blackwell.serving.hf_repo_info) returns it, for a checkpoint that is not on the
        host.
      - With O(path), used in check mode only, while that folder holds no C(config.json).
    type: dict
  hf_quant_config:
    description: Content of C(hf_quant_config.json); leave it out when the repository has none. Goes with O(config).
    type: dict
  index:
    description: Content of C(model.safetensors.index.json). Goes with O(config).
    type: dict
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
  kv_cache_decision:
    description:
      - What is known of the engine and wanted of the KV cache. RV(kv_cache_decision) then says which
        C(--kv-cache-dtype) to pass and whether the files have to be patched.
      - The decision is about the files as they were published, also where a patch has changed them since.
    type: dict
    suboptions:
      wanted:
        description: What the KV cache shall be stored in.
        type: str
        choices:
          auto: What O(kv_cache_decision.recommended) says; by the flag alone where that suffices.
          model_dtype: The model's own dtype, and files that are right by themselves.
          checkpoint: What the checkpoint was published with.
        default: auto
      recommended:
        description: The KV-cache dtype that M(blackwell.serving.vllm_attention_info) recommends.
        type: str
      supported:
        description:
          - The KV-cache dtypes that some attention backend serves on the card. One that is not among them is refused.
        type: list
        elements: str
      compute_capability:
        description: Of the card, for example V(12.0). Without it, any card's is reckoned with.
        type: str
seealso:
  - module: blackwell.serving.quant_config_patch
  - module: blackwell.serving.hf_repo_info
  - module: blackwell.serving.hf_shard_download
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Describe a downloaded checkpoint
  blackwell.serving.checkpoint_info:
    path: /srv/models/Kimi-K2.5-NVFP4
    vllm_version: 0.33.0
  register: checkpoint

- name: Describe it as the installed vLLM reads it
  blackwell.serving.checkpoint_info:
    path: /srv/models/Kimi-K2.5-NVFP4
    site_packages: /opt/vllm/lib/python3.12/site-packages

- name: Decide between the engine's flag and a patch of the files
  blackwell.serving.checkpoint_info:
    path: /srv/models/Kimi-K2.5-NVFP4
    site_packages: /opt/vllm/lib/python3.12/site-packages
    kv_cache_decision:
      recommended: "{{ attention.recommended_kv_cache_dtype }}"
      supported: "{{ attention.supported_kv_cache_dtypes }}"
      compute_capability: "12.0"

- name: Describe a checkpoint before it is downloaded
  blackwell.serving.checkpoint_info:
    config: "{{ repo.contents['config.json'] }}"
    hf_quant_config: "{{ repo.contents['hf_quant_config.json'] | default(omit, true) }}"
"""

RETURN = r"""
architecture:
  description: First entry of C(architectures).
  returned: when known
  type: str
  sample: KimiK25ForConditionalGeneration
model_type:
  description: The C(model_type) of C(config.json).
  returned: when known
  type: str
  sample: kimi_k25
text_model_type:
  description: The C(model_type) of the language model's own config, which multimodal checkpoints nest.
  returned: when known
  type: str
  sample: deepseek_v3
num_layers:
  description: Number of hidden layers of the language model.
  returned: when known
  type: int
  sample: 61
attention:
  description:
    - V(mla) for multi-head latent attention, V(gqa) for grouped-query and multi-head attention, V(hybrid) for models
      that mix attention with layers that keep a state, V(unknown) for a compressed cache that no examined vLLM knows.
  returned: when known
  type: str
  sample: mla
use_mla:
  description: Whether vLLM caches one latent vector per token.
  returned: success
  type: bool
  sample: true
use_sparse:
  description: Whether attention reads the tokens that an indexer picks (C(index_topk)).
  returned: success
  type: bool
  sample: false
head_size:
  description: Elements cached per token and key-value head; with MLA the latent vector and its rotary part.
  returned: when known
  type: int
  sample: 576
kv_lora_rank:
  description: Elements of the latent vector.
  returned: when known
  type: int
  sample: 512
qk_rope_head_dim:
  description: Elements of the rotary part.
  returned: when known
  type: int
  sample: 64
num_attention_heads:
  description: Query heads.
  returned: when known
  type: int
  sample: 64
num_key_value_heads:
  description: Key-value heads as C(config.json) counts them; null where they differ from layer to layer.
  returned: when known
  type: int
  sample: 64
experts:
  description: Experts per mixture-of-experts layer; all 0 in a dense model, null where C(config.json) does not say.
  returned: success
  type: dict
  sample: {routed: 384, active: 8, shared: 1}
  contains:
    routed:
      description: Routed experts.
      type: int
    active:
      description: Routed experts that one token passes.
      type: int
    shared:
      description: Experts that every token passes.
      type: int
hidden_size:
  description: Width of the model.
  returned: when known
  type: int
  sample: 7168
vocab_size:
  description: Tokens in the vocabulary.
  returned: when known
  type: int
  sample: 163840
max_position_embeddings:
  description: Longest sequence the configuration allows, in tokens.
  returned: when known
  type: int
  sample: 262144
dtype:
  description: Dtype of the unquantized weights, and of the KV cache where nothing else is asked for.
  returned: when known
  type: str
  sample: bfloat16
weights_bytes:
  description: Bytes of all tensors; what the index states while shards are missing; null when neither is known.
  returned: success
  type: int
  sample: 594000000000
shards:
  description: The safetensors files at the top of the checkpoint; null when only data was given.
  returned: success
  type: dict
  contains:
    expected:
      description: Files that the index names; without an index, the files that are there.
      type: int
    present:
      description: Of these, the files that exist.
      type: int
    missing:
      description: Names of the files that do not.
      type: list
      elements: str
    unlisted:
      description: Names of safetensors files that the index does not know.
      type: list
      elements: str
    corrupt:
      description: Files that are not whole or disagree with the index, each with C(path) and C(why).
      type: list
      elements: dict
    tensors:
      description: Number of tensors.
      type: int
quantization:
  description: How the weights and the KV cache are stored.
  returned: success
  type: dict
  contains:
    method:
      description:
        - The quantization method as vLLM settles it, for example V(modelopt_fp4) or V(compressed-tensors); else null.
      type: str
    algo:
      description: ModelOpt's algorithm, for example V(NVFP4).
      type: str
    group_size:
      description: Weights that share one scale.
      type: int
    kv_cache:
      description: What the checkpoint says about its KV cache.
      type: dict
      sample:
        declared: {dynamic: false, num_bits: 8, type: float}
        where: config.json#/quantization_config/kv_cache_scheme
        wins: true
        has_scales: true
        scale_tensors: 122
        auto_resolves_to: fp8_e4m3
        decided_by: config.json#/quantization_config/kv_cache_scheme
        overrides_flag: false
      contains:
        declared:
          description: The value of the key that counts; where none counts, of the first one that asks for something.
          type: raw
        where:
          description: Where that key stands, as file#JSON-pointer; null when no file has such a key.
          type: str
        wins:
          description: Whether vLLM goes by this key.
          type: bool
        has_scales:
          description: Whether the weights hold KV scales; null when the index is not known.
          type: bool
        scale_tensors:
          description: How many.
          type: int
        auto_resolves_to:
          description: What C(--kv-cache-dtype auto) becomes; V(auto) is the model's own RV(dtype).
          type: str
        decided_by:
          description:
            - The key that decides, as file#JSON-pointer; else the block that is read and asks for nothing; else null.
          type: str
        overrides_flag:
          description: Whether the checkpoint wins even over an explicit C(--kv-cache-dtype); only a patch helps then.
          type: bool
        declarations:
          description:
            - Every such key of the checkpoint, also those too deep in a block for vLLM to read.
            - Each has C(where), C(declared), C(wins) and C(kind), which is V(fp8), V(nvfp4), V(unknown) or V(none).
          type: list
          elements: dict
    refusals:
      description:
        - Settings with which this vLLM does not start whatever C(--kv-cache-dtype) says, or only on an attention
          backend with scales per head.
        - Each has C(where), as file#JSON-pointer, C(why), and C(by_patch), which is true when
          M(blackwell.serving.quant_config_patch) with C(kv_cache=model_dtype) takes the setting away.
      type: list
      elements: dict
suggested:
  description: Serving options that follow from the files; null where they do not tell.
  returned: success
  type: dict
  sample: {tool_call_parser: kimi_k2, reasoning_parser: kimi_k2, trust_remote_code: true}
  contains:
    tool_call_parser:
      description: For C(--tool-call-parser).
      type: str
    reasoning_parser:
      description: For C(--reasoning-parser).
      type: str
    trust_remote_code:
      description: Whether a configuration file asks transformers to run code of the checkpoint (C(auto_map)).
      type: bool
remote_code:
  description: Python files in the checkpoint, each with C(path) relative to it and C(sha256).
  returned: success
  type: list
  elements: dict
kv_cache_decision:
  description: How the wanted KV-cache dtype is reached.
  returned: when O(kv_cache_decision) is given
  type: dict
  sample:
    kv_cache_dtype: bfloat16
    must_patch: false
    stored_as: bfloat16
    why: the checkpoint asks for fp8_e4m3; --kv-cache-dtype bfloat16 wins over it and leaves the files as they are
    decided_by: config.json#/quantization_config/kv_cache_scheme
  contains:
    kv_cache_dtype:
      description: The value for C(--kv-cache-dtype).
      type: str
    must_patch:
      description:
        - Whether the flag does not suffice and M(blackwell.serving.quant_config_patch) has to bring the files to
          C(kv_cache=model_dtype).
      type: bool
    stored_as:
      description: The dtype that the cache then has; null where it is the model's own and no file states that.
      type: str
    why:
      description: The reason, in one sentence.
      type: str
    decided_by:
      description: The place that the reason is about, as file#JSON-pointer; null where no place says anything.
      type: str
notes:
  description: What a person should know besides.
  returned: success
  type: list
  elements: str
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.blueprint import (
    blueprint_of_data,
    blueprint_of_folder,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import Contents, holds_checkpoint
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.kv_cache_decision import WANTED, decide
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch import published_contents
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import ResolverRules
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_source import asked_rules
from ansible_collections.blackwell.serving.plugins.module_utils.engine.environment import sources_of
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, unknown_until


def describe(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    folder = Path(params["path"]) if params["path"] is not None else None
    sources = sources_of(params["site_packages"])
    rules = asked_rules(params["vllm_version"], sources, check_mode=module.check_mode)
    if folder is not None and (holds_checkpoint(folder) or not module.check_mode):
        return blueprint_of_folder(folder, rules) | decision(params["kv_cache_decision"], rules, folder=folder)
    if params["config"] is None:
        return unknown_until("fetch", f"{folder}/config.json")
    config, hf_quant_config = params["config"], params["hf_quant_config"]
    data = {"config.json": config} | ({"hf_quant_config.json": hf_quant_config} if hf_quant_config else {})
    blueprint = blueprint_of_data(config, hf_quant_config, params["index"], rules)
    return blueprint | decision(params["kv_cache_decision"], rules, contents=data)


def decision(
    asked: dict[str, Any] | None,
    rules: ResolverRules,
    *,
    folder: Path | None = None,
    contents: Contents | None = None,
) -> dict[str, Any]:
    """The decision about the files as published, those of a folder or those given as data."""
    if asked is None:
        return {}
    if folder is not None:
        contents = published_contents(folder)
    return {"kv_cache_decision": asdict(decide(contents or {}, rules, **asked))}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "config": {"type": "dict"},
            "hf_quant_config": {"type": "dict"},
            "index": {"type": "dict"},
            "vllm_version": {"type": "str"},
            "site_packages": {"type": "path"},
            "kv_cache_decision": {
                "type": "dict",
                "options": {
                    "wanted": {"type": "str", "choices": list(WANTED), "default": "auto"},
                    "recommended": {"type": "str"},
                    "supported": {"type": "list", "elements": "str"},
                    "compute_capability": {"type": "str"},
                },
            },
        },
        required_one_of=[["path", "config"]],
        required_by={"hf_quant_config": "config", "index": "config"},
        supports_check_mode=True,
    )
    finish(module, lambda: describe(module))


if __name__ == "__main__":
    main()
