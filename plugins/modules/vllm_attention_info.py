#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_attention_info
short_description: Ask an installed vLLM which attention backends serve a card and a KV-cache dtype
version_added: "0.1.0"
description:
  - Tells for a compute capability, a model's shape and each C(--kv-cache-dtype) which attention backends of the
    installed vLLM are valid, in the order in which it tries them, and of every other one why it is refused, in vLLM's
    own words.
  - Reads the sources of that installation (the order of backends, their classes and what these check); vLLM is neither
    imported nor run, and no GPU is needed. The answer follows the files that are there, not a table of releases. Where
    a source no longer has a shape that can be followed, the answer is null and names the place.
  - With O(check_kernels) it also tells whether the decode kernel of the selected backend fits the card's shared memory.
    The installation's own triton compiles it for the card, in a process of O(python); without triton a measurement of
    the very same file counts, else the answer is not known.
  - Recommends a C(--kv-cache-dtype). It is the smallest one that the checkpoint asks for (or holds scales for), that a
    backend serves and whose kernel fits; otherwise the model's own dtype.
  - The sources of vLLM 0.15 to 0.33 are understood.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
    details: In check mode an engine or a checkpoint that is not there yet leaves the answer unknown until its stage.
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
      - Python of the engine's virtual environment. Its packages are read; it is started for O(check_kernels) only.
      - One of O(python) and O(site_packages) is required.
      - With both, O(site_packages) is read and O(python) compiles.
    type: path
  site_packages:
    description: Folder that holds the package C(vllm), when no Python is to be started.
    type: path
  compute_capability:
    description:
      - The cards' compute capability, as RV(blackwell.serving.gpu_info#module:gpus[].compute_capability) has it.
      - A CPU build of vLLM does not look at it.
    type: str
    required: true
  path:
    description: Folder of the checkpoint. Of O(path), O(config) and O(model) one is required.
    type: path
  config:
    description:
      - Content of C(config.json), for a checkpoint that is not on the host.
      - With O(path), used in check mode only, while that folder holds no C(config.json).
    type: dict
  hf_quant_config:
    description: Content of C(hf_quant_config.json); leave it out when the repository has none. Goes with O(config).
    type: dict
  model:
    description:
      - The model's shape by itself, or the whole result of M(blackwell.serving.checkpoint_info). Other keys do not
        matter.
      - C(use_mla), C(use_sparse), C(has_sink) and C(has_sliding_window) are booleans. C(head_size),
        C(num_attention_heads), C(num_key_value_heads), C(kv_lora_rank), C(qk_rope_head_dim), C(qk_nope_head_dim),
        C(v_head_dim) and C(index_topk) are counted in elements, heads or tokens. C(dtype) is a name.
      - A backend that checks a size which is not given has no certain answer.
    type: dict
  tensor_parallel_size:
    description: Value of C(--tensor-parallel-size).
    type: int
    default: 1
  decode_context_parallel_size:
    description: Value of C(--decode-context-parallel-size).
    type: int
    default: 1
  kv_cache_dtypes:
    description:
      - Values of C(--kv-cache-dtype) to ask about. V(auto), the model's own dtype and the one that the checkpoint asks
        for are added.
      - Without it, all that this vLLM takes.
    type: list
    elements: str
    default: []
  attention_backend:
    description: Value of C(--attention-backend), which leaves vLLM no other choice, for example V(TRITON_MLA).
    type: str
  environment:
    description: Environment of the service, for the variables that the checks read, such as C(VLLM_BATCH_INVARIANT).
    type: dict
    default: {}
  check_kernels:
    description: Whether to look at the decode kernels of the selected backends.
    type: bool
    default: true
  cache_dir:
    description:
      - Folder that keeps what was measured, by the hash of what was compiled; it is made when needed.
      - Without it nothing is kept.
    type: path
seealso:
  - module: blackwell.serving.checkpoint_info
  - module: blackwell.serving.vllm_engine_info
  - module: blackwell.serving.quant_config_patch
  - module: blackwell.serving.vllm_kv_budget
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Ask the installed engine before the weights are downloaded
  blackwell.serving.vllm_attention_info:
    python: /opt/vllm/0.33.0/bin/python
    compute_capability: "{{ gpus.gpus[0].compute_capability }}"
    config: "{{ repo.contents['config.json'] }}"
    hf_quant_config: "{{ repo.contents['hf_quant_config.json'] | default(omit, true) }}"
    tensor_parallel_size: 8
  register: attention

- name: Ask about a shape, without starting a Python
  blackwell.serving.vllm_attention_info:
    site_packages: /opt/vllm/0.33.0/lib/python3.12/site-packages
    compute_capability: "12.0"
    model: {use_mla: true, kv_lora_rank: 512, qk_rope_head_dim: 64, qk_nope_head_dim: 128, num_attention_heads: 64}
    tensor_parallel_size: 8
    kv_cache_dtypes: [fp8]
"""

RETURN = r"""
vllm_version:
  description: Release of the installed vLLM.
  returned: when known
  type: str
  sample: 0.33.0
distribution:
  description: Distribution that brought it.
  returned: when known
  type: str
  sample: vllm
platform:
  description: V(cuda), or V(cpu) for a build that runs on CPUs only, whatever cards there are.
  returned: success
  type: str
  sample: cuda
compute_capability:
  description: The capability that was asked about.
  returned: success
  type: str
  sample: "12.0"
backends:
  description: The attention backends that this vLLM would try, first to last.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name for C(--attention-backend).
      type: str
    valid:
      description: Whether it serves any of the dtypes asked about; null when the sources do not tell.
      type: bool
    reasons:
      description: Why it serves none, in vLLM's words; empty for a valid one.
      type: list
      elements: str
    kv_cache_dtypes:
      description: The dtypes that it serves on this card.
      type: list
      elements: str
    refused:
      description: For each dtype that it does not serve, the reasons.
      type: dict
    unanswered:
      description: For each dtype whose answer is not certain, what could not be told, with file and line.
      type: dict
    declared_kv_cache_dtypes:
      description: The dtypes that its class lists, whatever the card; null when they cannot be told.
      type: list
      elements: str
    kernel_block_sizes:
      description: Block sizes of its kernels in tokens, such as V(64) or V(multiple of 16); null when not told.
      type: list
      elements: str
  sample:
    - name: TRITON_MLA
      valid: true
      reasons: []
      kv_cache_dtypes: [auto, float16, bfloat16, fp8, fp8_e4m3]
      refused: {fp8_e5m2: [kv_cache_dtype not supported]}
      unanswered: {}
      declared_kv_cache_dtypes: [auto, float16, bfloat16, fp8, fp8_e4m3]
      kernel_block_sizes: [multiple of 16]
selected:
  description: For each dtype the backend that vLLM would run with; null when none serves it, or when it is not certain.
  returned: success
  type: dict
  sample: {auto: TRITON_MLA, bfloat16: TRITON_MLA, fp8: TRITON_MLA, fp8_e5m2: null}
possible:
  description:
    - For each dtype of which it is certain that a backend serves it and not which, the backends that may be selected.
  returned: success
  type: dict
  sample: {}
unanswered:
  description: For each dtype whose selection is not certain, what could not be told, with file and line.
  returned: success
  type: dict
  sample: {}
kernels:
  description: Whether the decode kernel of the selected backend fits the card, for each dtype that has one.
  returned: success
  type: list
  elements: dict
  contains:
    dtype:
      description: The KV-cache dtype.
      type: str
    backend:
      description: The backend.
      type: str
    shared_memory_bytes:
      description: Shared memory that the kernel needs per thread block.
      type: int
    limit_bytes:
      description: What the card has.
      type: int
    fits:
      description: Whether it fits; null when that is not known.
      type: bool
    method:
      description: V(compiled) here and now (or earlier, in O(cache_dir)), V(known) from a measured release, V(unknown).
      type: str
    reason:
      description: The comparison, or why it is not known.
      type: str
supported_kv_cache_dtypes:
  description:
    - The dtypes that a backend serves and whose kernel is not known to be too large.
    - V(auto) stands for the model's own dtype here, whatever the checkpoint makes of it.
  returned: success
  type: list
  elements: str
  sample: [auto, float16, bfloat16]
recommended_kv_cache_dtype:
  description: What to pass as C(--kv-cache-dtype); null when nothing can be recommended.
  returned: success
  type: str
  sample: bfloat16
recommended_by:
  description: Why, in sentences.
  returned: success
  type: str
  sample: "bfloat16: the model's own dtype; TRITON_MLA serves it."
alternatives:
  description: Smaller dtypes that were rejected, each with C(kv_cache_dtype) and C(why).
  returned: success
  type: list
  elements: dict
notes:
  description: What had to be assumed, or is worth knowing.
  returned: success
  type: list
  elements: str
unknown_until:
  description: The stage of the road that provides what is missing.
  returned: check mode, when the engine or the checkpoint does not exist yet
  type: str
"""

import gc
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.architecture import describe, text_config_of
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import (
    Contents,
    checked_contents,
    holds_checkpoint,
    interpret,
    places_below,
    read_documents,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_source import rules_of_installation
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.shards import count_kv_scales
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.answer import Answer, ask
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.model_shape import (
    cache_of_facts,
    shape_of_config,
    shape_of_facts,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.question import (
    ModelShape,
    Question,
    parse_capability,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.recommendation import (
    CheckpointCache,
    recommend,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.report import report
from ansible_collections.blackwell.serving.plugins.module_utils.engine.distribution import identify
from ansible_collections.blackwell.serving.plugins.module_utils.engine.environment import EngineFolder, exists, locate
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.fit import fit
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelFit, KernelShape
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.tree import SourceTree
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, unknown_until


def tell(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    if module.check_mode and not exists(params["python"], params["site_packages"]):
        return unknown_until("install", params["site_packages"] or params["python"])
    engine = locate(params["python"], params["site_packages"])
    capability = parse_capability(params["compute_capability"])
    contents = read_checkpoint(module)
    if contents is None and params["model"] is None:
        return unknown_until("fetch", f"{params['path']}/config.json")
    model, checkpoint = read_model(module, engine, capability.major, contents)
    question = Question(
        capability=capability,
        model=model,
        tensor_parallel_size=params["tensor_parallel_size"],
        decode_context_parallel_size=params["decode_context_parallel_size"],
        kv_cache_dtypes=asked_dtypes(params["kv_cache_dtypes"], model, checkpoint),
        attention_backend=params["attention_backend"],
        environment={name: str(value) for name, value in params["environment"].items()},
    )
    distribution = identify(engine)
    platform = "cpu" if distribution.platform == "cpu" else "cuda"
    answer = ask(SourceTree(engine.root, engine.site_packages), question, platform)
    answer.notes += distribution.notes
    kernels = look_at_kernels(module, engine, question, answer)
    recommendation = recommend(answer, kernels, checkpoint, model.engine_dtype)
    return {
        "vllm_version": distribution.version,
        "distribution": distribution.name,
        "platform": platform,
        "compute_capability": f"{capability.major}.{capability.minor}",
        **report(answer, kernels, recommendation, checkpoint),
    }


def read_checkpoint(module: AnsibleModule) -> Contents | None:
    """config.json and hf_quant_config.json; None in check mode when they are not there yet, and with a bare shape."""
    params = module.params
    folder = Path(params["path"]) if params["path"] is not None else None
    if folder is not None and (holds_checkpoint(folder) or not module.check_mode):
        return {name: document.value for name, document in read_documents(folder).items()}
    if params["config"] is None:
        return None
    return checked_contents({"config.json": params["config"], "hf_quant_config.json": params["hf_quant_config"]})


def read_model(
    module: AnsibleModule, engine: EngineFolder, major: int, contents: Contents | None
) -> tuple[ModelShape, CheckpointCache]:
    """The model's shape and what its checkpoint says of the KV cache."""
    if contents is None:
        return shape_of_facts(module.params["model"]), cache_of_facts(module.params["model"])
    folder = Path(module.params["path"]) if module.params["path"] is not None else None
    if folder is None or not holds_checkpoint(folder):
        return read_contents(contents, engine, major)
    with places_below(folder):
        shape, cache = read_contents(contents, engine, major)
    return shape, replace(cache, has_scales=_any(count_kv_scales(folder)))


def read_contents(contents: Contents, engine: EngineFolder, major: int) -> tuple[ModelShape, CheckpointCache]:
    config = contents["config.json"]
    quantization = interpret(contents, rules_of_installation(engine.root))
    resolved = quantization.resolution
    auto, where = resolved.dtype, resolved.decided_by
    if major == 10 and auto == "auto" and quantization.auto_on_sm10x is not None:
        auto, where = quantization.auto_on_sm10x, "the architecture, on compute capability 10.x"
    cache = CheckpointCache(auto, where, overrides_flag=resolved.overrides_flag)
    return shape_of_config(asdict(describe(config)), text_config_of(config)[1]), cache


def asked_dtypes(given: list[str], model: ModelShape, checkpoint: CheckpointCache) -> list[str]:
    """With what the recommendation needs; [] stands for all."""
    if not given:
        return []
    return list(dict.fromkeys([*given, "auto", model.engine_dtype, checkpoint.auto or "auto"]))


def look_at_kernels(module: AnsibleModule, engine: EngineFolder, question: Question, answer: Answer) -> list[KernelFit]:
    """Whether the selected backends' decode kernels fit the card, for the dtypes that have one."""
    model = question.model
    selected = {dtype: name for dtype, name in answer.selected.items() if name is not None}
    if not module.params["check_kernels"] or answer.platform != "cuda" or not selected:
        return []
    if question.heads_per_rank is None:
        answer.notes.append("the decode kernels were not looked at: the number of attention heads is not known")
        return []
    text = model.text_config
    rank, rope = text.get("kv_lora_rank") or 0, text.get("qk_rope_head_dim") or 0
    if model.use_mla and (not rank or not rope or model.head_size != rank + rope):
        answer.notes.append("the decode kernels were not looked at: kv_lora_rank and qk_rope_head_dim are not known")
        return []
    # With decode context parallelism the query heads of all its ranks are gathered.
    heads = question.heads_per_rank * question.decode_context_parallel_size
    cache_dir = module.params["cache_dir"]
    return fit(
        engine.root,
        module.params["compute_capability"],
        KernelShape(max(1, heads), rank, rope, model.head_size, model.use_mla),
        list(selected),
        python=module.params["python"],
        cache_dir=Path(cache_dir) if cache_dir is not None else None,
        run=module.run_command,
        check=module.check_mode,
        backends=selected,
    )


def _any(count: int | None) -> bool | None:
    return None if count is None else count > 0


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "path"},
            "site_packages": {"type": "path"},
            "compute_capability": {"type": "str", "required": True},
            "path": {"type": "path"},
            "config": {"type": "dict"},
            "hf_quant_config": {"type": "dict"},
            "model": {"type": "dict"},
            "tensor_parallel_size": {"type": "int", "default": 1},
            "decode_context_parallel_size": {"type": "int", "default": 1},
            "kv_cache_dtypes": {"type": "list", "elements": "str", "default": []},
            "attention_backend": {"type": "str"},
            "environment": {"type": "dict", "default": {}},
            "check_kernels": {"type": "bool", "default": True},
            "cache_dir": {"type": "path"},
        },
        required_one_of=[["python", "site_packages"], ["path", "config", "model"]],
        mutually_exclusive=[["model", "path"], ["model", "config"]],
        required_by={"hf_quant_config": "config"},
        supports_check_mode=True,
    )
    finish(module, lambda: tell(module))


if __name__ == "__main__":
    # The syntax trees are many small objects, none of them garbage, and the process ends with its answer.
    gc.disable()
    main()
