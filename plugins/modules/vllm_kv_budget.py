#!/usr/bin/python
# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_kv_budget
short_description: How many tokens vLLM's KV cache will hold, before the engine starts
version_added: "0.1.0"
description:
  - Computes from a checkpoint's C(config.json) and the cards what vLLM will print as its KV cache size, which context
    length fits, and which one to serve.
  - Known are grouped-query attention (GQA), sliding windows, chunked attention, multi-head latent attention (MLA)
    with and without an indexer for sparse attention (DSA), a compressed history (DeepSeek-V4) or linear layers (KDA),
    hybrids with GDN, Mamba or lightning states, layers of different shapes (NAS), encoder-decoders, and pure states.
    Every other architecture is refused by name, never read as something else; with O(available_kv_cache_bytes) and
    O(kv_bytes_per_token_per_gpu) its tokens can still be computed.
  - Needs either O(available_kv_cache_bytes), or O(weights_bytes) (or O(weights_bytes_per_gpu)) and O(gpus) (or
    O(gpu_memory_bytes)), from which it estimates what is left for the cache.
  - Fails, with everything it computed in the result, when the weights do not fit at O(tensor_parallel_size), when
    O(max_model_len) or O(min_model_len) does not fit, when O(max_model_len) is longer than the model's own limit, and
    when somebody else holds memory of a card. Other tensor parallel sizes never make it fail; RV(tensor_parallel_sizes)
    says which of them hold the model.
  - Changes nothing, and does not need the engine.
extends_documentation_fragment:
  - blackwell.serving.attributes
attributes:
  check_mode:
    support: full
    details: Where O(path) does not exist yet and O(config) is not given, RV(unknown_until) is returned.
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
  path:
    description:
      - Folder of the checkpoint. C(config.json) and, where it exists, C(hf_quant_config.json) are read there as they
        are now. Without O(weights_bytes), the tensors in the headers of its C(*.safetensors) files say what a rank
        holds in full, what it shares, and what it does not load; without a readable header, the files' sizes count.
        Shards that are missing, and Git LFS pointers in their place, are refused then.
      - Where the folder does not exist, O(config) is taken if it is given.
    type: path
  config:
    description: Content of C(config.json), as RV(blackwell.serving.hf_repo_info#module:contents) has it.
    type: dict
  hf_quant_config:
    description: Content of C(hf_quant_config.json), if the repository has one.
    type: dict
  weights_bytes:
    description: Size of all weights of the checkpoint in bytes, as the Hub's file list has it before the download.
    type: int
  tensor_parallel_size:
    description: Value of C(--tensor-parallel-size).
    type: int
    default: 1
  pipeline_parallel_size:
    description: Value of C(--pipeline-parallel-size).
    type: int
    default: 1
  decode_context_parallel_size:
    description: Value of C(--decode-context-parallel-size).
    type: int
    default: 1
  enable_expert_parallel:
    description: Whether C(--enable-expert-parallel) is set.
    type: bool
    default: false
  speculative_config:
    description:
      - Value of C(--speculative-config).
      - The layers of an MTP head follow from the model's C(config.json); C(ngram) has none.
      - A draft model (C(eagle), C(eagle3), C(draft_model)) is counted from the C(config.json) in the folder that
        C(model) names. Where C(model) is the name of a repository, its contents are given as C(draft_config), a key
        besides the engine's own; without either such a method is refused.
    type: dict
  arguments:
    description:
      - Further arguments of the engine's command line, as the service will have them. What they say of the options
        here takes precedence over those, as the last of two arguments does for the engine.
      - Read are the parallel sizes, length, C(--max-num-seqs), C(--max-num-batched-tokens), C(--block-size),
        C(--kv-cache-dtype), C(--kv-cache-dtype-skip-layers), C(--kv-cache-memory-bytes), C(--gpu-memory-utilization),
        C(--attention-backend), C(--attention-config), C(--dtype), C(--mamba-cache-mode), C(--mamba-cache-dtype),
        C(--mamba-ssm-cache-dtype), C(--speculative-config), C(--hf-overrides), and the switches among the options with
        C(--enable-prefix-caching); abbreviated too, as the engine takes them. All others are passed over.
    type: list
    elements: str
    default: []
  environment:
    description:
      - Environment variables of the engine, as the service will have them. Read are C(VLLM_PP_LAYER_PARTITION) and
        C(VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS).
    type: dict
    default: {}
  kv_cache_dtype:
    description:
      - Value of C(--kv-cache-dtype).
      - V(auto) is resolved as the engine does, by the checkpoint's quantization files.
    type: str
    default: auto
  kv_bytes_per_token_per_gpu:
    description: Bytes of KV cache per token on one card, for architectures that are not known here.
    type: int
  block_size:
    description: Value of C(--block-size) in tokens. Without it, what the engine takes for the attention backend.
    type: int
  attention_backend:
    description:
      - Name of the attention backend, such as V(TRITON_MLA), V(CPU_MLA) or V(FLASH_ATTN). Decides the block size and
        the estimate of CUDA graphs. Without it, the engine's choice for MLA on O(compute_capability).
    type: str
  max_model_len:
    description:
      - Context length in tokens, or V(auto) (also V(-1)) to have one recommended.
      - V(128k) is 128,000 and V(128K) is 131,072, as the engine reads them.
    type: str
    default: auto
  max_num_batched_tokens:
    description: Value of C(--max-num-batched-tokens). Without it, the engine's default for the card and release.
    type: int
  max_num_seqs:
    description:
      - Value of C(--max-num-seqs). Without it, the engine's default for the card.
      - A note says when it is more than the blocks that can hold the states of requests, which engines with full CUDA
        graphs refuse.
    type: int
  async_scheduling:
    description:
      - Whether C(--async-scheduling) is set, which puts twice the tokens of a batch in flight. Changes nothing where
        every layer keeps every token. Without it, the default of the release.
    type: bool
  enforce_eager:
    description: Whether C(--enforce-eager) is set.
    type: bool
    default: false
  language_model_only:
    description: Whether C(--language-model-only) is set, so that no image encoder is loaded or profiled.
    type: bool
    default: false
  disable_hybrid_kv_cache_manager:
    description:
      - Whether C(--disable-hybrid-kv-cache-manager) is set. Changes nothing where every layer keeps every token.
    type: bool
    default: false
  mamba_cache_mode:
    description:
      - Value of C(--mamba-cache-mode), V(none), V(align) or V(all). Changes nothing for models without states.
      - By default V(align) for vLLM 0.28 and later, which cache prefixes of such models, and V(none) before; give
        V(align) for an older release with C(--enable-prefix-caching), V(none) for C(--no-enable-prefix-caching).
    type: str
  gpu_memory_bytes:
    description: Memory of one card in bytes as torch reports it, which is less than C(memory.total) of C(nvidia-smi).
    type: int
  gpus:
    description:
      - The cards that the service will use, as RV(blackwell.serving.gpu_info#module:gpus) has them. The smallest
        decides.
      - Takes precedence over O(gpu_memory_bytes).
    type: list
    elements: dict
  exclude_units:
    description:
      - Systemd units whose processes will have left the cards when the service starts, its own unit among them. Their
        memory counts as free.
    type: list
    elements: str
    default: []
  fit_to_free:
    description: Lower O(gpu_memory_utilization) to what the fullest card has free instead of failing.
    type: bool
    default: false
  gpu_memory_utilization:
    description: Value of C(--gpu-memory-utilization). Without it 0.92, or 0.90 for releases before 0.20.
    type: float
  weights_bytes_per_gpu:
    description: Bytes of weights on one card where they are known, such as from the engine's log.
    type: int
  overhead_bytes_per_gpu:
    description: Bytes that activations, libraries and NCCL take on one card, in place of the estimate.
    type: int
  cuda_graph_bytes_per_gpu:
    description: Bytes that CUDA graphs take on one card, in place of the estimate.
    type: int
  available_kv_cache_bytes:
    description: Bytes available for the KV cache on one card. Skips the memory estimate.
    type: int
  measured:
    description:
      - Numbers of an earlier start of the same service with the same tensor and pipeline parallel size, as
        RV(blackwell.serving.vllm_service_info#module:kv_cache) has them. They replace estimates; null is not known.
      - For other settings than those of that start, the estimate's change from those to these is added. Settings that
        are not given are taken as those that are asked for.
    type: dict
    suboptions:
      weights_bytes:
        description: Bytes of weights on one card.
        type: int
      cuda_graph_bytes:
        description: Bytes that CUDA graphs took on one card; used where C(cuda_graph_estimated_bytes) is null.
        type: int
      cuda_graph_estimated_bytes:
        description: Bytes that the engine took off for CUDA graphs before it sized the cache.
        type: int
      available_bytes:
        description:
          - Bytes that were available for the KV cache on one card; gives the overhead.
          - Of more than the card can have had left beside the weights, a note says so and the overhead is estimated.
        type: int
      gpu_memory_utilization:
        description: The utilization of that start, if it was another one.
        type: float
      tokens:
        description: The KV cache size that was printed; a difference above 15 % is noted.
        type: int
      concurrency:
        description: The concurrency that was printed; not used.
        type: float
      inconsistent:
        description: Whether tokens and concurrency disagreed; not used.
        type: bool
      max_model_len:
        description: Context length of that start in tokens.
        type: int
      max_num_batched_tokens:
        description: Value of C(--max-num-batched-tokens) at that start.
        type: int
      max_num_seqs:
        description: Value of C(--max-num-seqs) at that start.
        type: int
      decode_context_parallel_size:
        description: Value of C(--decode-context-parallel-size) at that start.
        type: int
      enforce_eager:
        description: Whether C(--enforce-eager) was set at that start.
        type: bool
  vllm_version:
    description:
      - Version of the engine, such as V(0.16.0rc2.dev313) or V(0.32.0). Decides defaults, what the printed token count
        means, and what is subtracted. Without it, that of the vLLM in O(site_packages), or else the newest release that
        is known.
    type: str
  site_packages:
    description:
      - Folder of the installed vLLM. How it settles the KV cache dtype V(auto) is then read in its own source, which is
        not run; else it is known of the release.
      - In check mode a folder that does not exist yet is passed over.
    type: path
  compute_capability:
    description: Compute capability of the cards, such as V(12.0). Without it, that of O(gpus).
    type: str
  headroom:
    description: Share of the tokens that a recommended length leaves free.
    type: float
    default: 0.25
  min_model_len:
    description: Shortest length in tokens that is worth serving; written as O(max_model_len). V(0) for none.
    type: str
  max_model_len_cap:
    description: Upper limit in tokens for the recommended length; written as O(max_model_len).
    type: str
  round_to:
    description:
      - The recommended length is rounded down to a multiple of this many tokens. A power of two within 5 % below is
        preferred.
    type: int
    default: 1024
author:
  - blackwell.serving contributors (@blackwell-serving)
"""

EXAMPLES = r"""
- name: Ask before the download which tensor parallel sizes hold the model
  blackwell.serving.vllm_kv_budget:
    config: "{{ repo.contents['config.json'] }}"
    hf_quant_config: "{{ repo.contents['hf_quant_config.json'] | default(omit) }}"
    weights_bytes: "{{ repo.weights_bytes }}"
    gpus: "{{ look.gpus }}"
    exclude_units: [vllm-kimi.service, vllm-glm5.service]
    tensor_parallel_size: 8
    kv_cache_dtype: bfloat16
    vllm_version: 0.16.0
  register: plan

- name: Have a context length recommended for the downloaded checkpoint
  blackwell.serving.vllm_kv_budget:
    path: /srv/models/kimi
    gpus: "{{ look.gpus }}"
    exclude_units: [vllm-kimi.service]
    tensor_parallel_size: 8
    min_model_len: 64K
    vllm_version: "{{ vllm_install_result.version }}"
  register: budget

- name: Compute the tokens of a known amount of memory
  blackwell.serving.vllm_kv_budget:
    path: /srv/models/kimi
    available_kv_cache_bytes: 1073741824
    max_model_len: 8K
"""

RETURN = r"""
family:
  description:
    - V(gqa), V(gqa+sliding), V(gqa+chunked), V(nas), V(mla), V(mla+dsa), V(mla+kda), V(gqa+gdn), V(gqa+mamba2),
      V(gqa+mamba1), V(gqa+conv), V(gqa+lightning), V(mla+lightning), V(gqa+indexer), V(mla+compressed), V(state),
      V(encoder-decoder), or V(given) with O(kv_bytes_per_token_per_gpu).
  returned: success
  type: str
kv_cache:
  description: The KV cache of one card, at the requested or, with V(auto), at the recommended length.
  returned: success
  type: dict
  contains:
    dtype:
      description: The dtype that the engine will use.
      type: str
    bytes_per_token_per_gpu:
      description: Bytes of one token on one card that holds it.
      type: int
    block_size:
      description: Tokens per block.
      type: int
    bytes_per_block:
      description: Bytes of one block on one card, all layers.
      type: int
    num_blocks:
      description: Blocks on one card.
      type: int
    token_capacity:
      description: The tokens that this release of vLLM prints as KV cache size.
      type: int
    max_concurrency:
      description: Requests of that length that fit at once; vLLM prints it with two decimals.
      type: float
    bytes_needed:
      description: Bytes on one card for one request of that length.
      type: int
    groups:
      description: Groups of layers that share block tables, of the pipeline stage with the most layers.
      type: list
      elements: dict
      contains:
        kind:
          description:
            - V(full_attention), V(sliding_window), V(sliding_window_mla), V(chunked_local_attention), V(mla),
              V(mla_indexer), V(mamba), V(cross_attention) or V(given).
          type: str
        layers:
          description: Number of layers.
          type: int
        bytes_per_block:
          description: Bytes of one block of these layers.
          type: int
        block_size:
          description: Tokens per block of these layers.
          type: int
        blocks_per_request:
          description: Blocks that one request of that length takes.
          type: int
memory:
  description:
    - Bytes of the card that decides. With O(available_kv_cache_bytes) only RV(memory.available_kv_cache) is not null.
  returned: success
  type: dict
  contains:
    total:
      description: What torch sees of the card.
      type: int
    usable:
      description: RV(memory.total) times O(gpu_memory_utilization).
      type: int
    weights:
      description: Weights on one card.
      type: int
    overhead:
      description: Activations, workspace and memory outside torch.
      type: int
    activations:
      description: The part of the estimated overhead that grows with O(max_num_batched_tokens).
      type: int
    cuda_graphs:
      description: What the engine subtracts for CUDA graphs.
      type: int
    beyond_utilization:
      description:
        - At most this much decode scratch the engine reserves on top of C(gpu_memory_utilization), without taking it
          off the KV cache (V(TRITON_MLA) from vLLM 0.25).
      type: int
    available_kv_cache:
      description: What is left for the KV cache; negative when the weights do not fit.
      type: int
memory_bar:
  description: One card's memory as a bar of letters with its legend, for a terminal.
  returned: success
  type: list
  elements: str
basis:
  description:
    - Where each term comes from. V(measured) is an earlier start, V(given) an option, V(tensors) and V(files) are the
      weights' tensors and the size of their files, V(estimated) is a formula, V(reckoned) follows from the others.
  returned: success
  type: dict
  contains:
    weights:
      description: V(measured), V(given), V(tensors) or V(files).
      type: str
    overhead:
      description: V(measured), V(given) or V(estimated).
      type: str
    cuda_graphs:
      description: V(measured), V(given) or V(estimated).
      type: str
    available_kv_cache:
      description: V(given) with O(available_kv_cache_bytes), else V(reckoned).
      type: str
max_model_len:
  description: Context lengths in tokens.
  returned: success
  type: dict
  contains:
    requested:
      description: O(max_model_len) as a number; null for V(auto).
      type: int
    largest_that_fits:
      description: The longest single request that memory and model allow.
      type: int
    recommended:
      description: The length to serve; null when none fits.
      type: int
    model_limit:
      description: The longest context by the model's own configuration.
      type: int
fits:
  description: Whether the engine will start and serve a request of that length. V(false) only in a failure's result.
  returned: always, except in check mode without a checkpoint
  type: bool
tensor_parallel_sizes:
  description: What each tensor parallel size would give on these cards.
  returned: success
  type: list
  elements: dict
  contains:
    size:
      description: The tensor parallel size.
      type: int
    fits:
      description: Whether the weights fit and one request of the requested (or shortest allowed) length besides.
      type: bool
    token_capacity:
      description: Tokens that vLLM would print; 0 when the weights do not fit.
      type: int
    available_kv_cache_bytes:
      description: Bytes left for the KV cache on one card; negative when the weights do not fit.
      type: int
alternatives:
  description: What a single change would give. Whether the card's attention backends serve a dtype is not asked here.
  returned: success
  type: list
  elements: dict
  contains:
    change:
      description: The flag and its value.
      type: str
    token_capacity:
      description: Tokens that vLLM would print.
      type: int
explanation:
  description: The computation in sentences, units included.
  returned: success
  type: list
  elements: str
notes:
  description: What had to be assumed, or differs from an earlier start.
  returned: success
  type: list
  elements: str
short_by_bytes:
  description: Bytes that are missing on one card.
  returned: failure for lack of memory
  type: int
unknown_until:
  description: The stage of the road that provides the checkpoint.
  returned: check mode, when O(path) does not exist yet and O(config) is not given
  type: str
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import (
    Contents,
    checked_contents,
    holds_checkpoint,
    interpret,
    read_documents,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import ResolverRules
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_source import (
    asked_rules,
    installed_release,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.tensor_sizes import tensor_sizes
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.budget import compute_budget
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import read_cards
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.engine_arguments import (
    overridden,
    read_arguments,
    read_environment,
)
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import Parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.length import parse_length, parse_max_model_len
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.measured import Measured
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.request import BudgetRequest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.weight_files import size_of_files
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.weights import WeightParts, weight_parts
from ansible_collections.blackwell.serving.plugins.module_utils.module import finish, unknown_until

# Options that the request knows by the same name.
NAMED_ALIKE = (
    "async_scheduling",
    "available_kv_cache_bytes",
    "attention_backend",
    "block_size",
    "cuda_graph_bytes_per_gpu",
    "disable_hybrid_kv_cache_manager",
    "enforce_eager",
    "fit_to_free",
    "gpu_memory_bytes",
    "gpu_memory_utilization",
    "headroom",
    "kv_bytes_per_token_per_gpu",
    "language_model_only",
    "mamba_cache_mode",
    "max_num_batched_tokens",
    "max_num_seqs",
    "overhead_bytes_per_gpu",
    "round_to",
    "weights_bytes_per_gpu",
)


# What vllm_service_info reads of a start and no term of the budget needs.
PRINTED_ONLY = ("concurrency", "inconsistent")


def read_contents(module: AnsibleModule) -> Contents | None:
    """config.json and hf_quant_config.json: of the folder as it is now, else as given; None before there are any."""
    params = module.params
    folder = Path(params["path"]) if params["path"] is not None else None
    if folder is not None and (holds_checkpoint(folder) or (params["config"] is None and not module.check_mode)):
        return {name: document.value for name, document in read_documents(folder).items()}
    if params["config"] is None:
        return None
    return checked_contents({"config.json": params["config"], "hf_quant_config.json": params["hf_quant_config"]})


def size_of_weights(params: dict[str, Any]) -> int | None:
    """The size that was given, else that of the folder's safetensors files; None where there is neither.

    Files that are not the weights are refused where nothing else says how large these are.
    """
    given: int | None = params["weights_bytes"]
    if given is not None or params["path"] is None:
        return given
    try:
        return size_of_files(Path(params["path"]))
    except ServingError:
        if all(params[name] is None for name in ("weights_bytes_per_gpu", "available_kv_cache_bytes")):
            raise
        return None


def parts_of_weights(params: dict[str, Any], config: Mapping[str, Any]) -> WeightParts | None:
    """The tensors of the folder's files, where they are needed and can be read."""
    known = ("weights_bytes", "weights_bytes_per_gpu", "available_kv_cache_bytes")
    if params["path"] is None or any(params[name] is not None for name in known):
        return None
    sizes = tensor_sizes(Path(params["path"]))
    if sizes is None:
        return None
    method = (params["speculative_config"] or {}).get("method") or ""
    return weight_parts(
        sizes.items(), config, drafts=str(method).endswith("mtp"), encoder=not params["language_model_only"]
    )


def resolve_dtype(asked: str, contents: Contents, rules: ResolverRules) -> tuple[str, str]:
    """(the dtype that the engine makes of --kv-cache-dtype, by what); "auto" is the model's own."""
    resolution = interpret(contents, rules).resolution
    if asked != "auto" and not resolution.overrides_flag:
        return asked, "as given, whatever the checkpoint says"
    if resolution.dtype == "auto":
        return "auto", "the model's own; the checkpoint asks for no other"
    return resolution.dtype, f"the checkpoint asks for it in {resolution.decided_by}"


def length_or_none(params: dict[str, Any], name: str) -> int | None:
    return None if params[name] in (None, "", "0") else parse_length(params[name], name)


def options(module: AnsibleModule) -> dict[str, Any]:
    """The options, with what the engine's further arguments say of them."""
    return {**module.params, **read_arguments(module.params["arguments"])}


def draft_missing(params: dict[str, Any]) -> Path | None:
    """The config.json of a draft model's folder that is not there yet."""
    speculative = params["speculative_config"] or {}
    model = speculative.get("model")
    if speculative.get("draft_config") or not isinstance(model, str) or not model.startswith("/"):
        return None
    path = Path(model, "config.json")
    return None if path.is_file() else path


def with_draft_config(speculative: dict[str, Any] | None) -> dict[str, Any] | None:
    """A draft model in a folder brings its own config.json."""
    model = (speculative or {}).get("model")
    if not speculative or speculative.get("draft_config") or not isinstance(model, str) or not model.startswith("/"):
        return speculative
    return {**speculative, "draft_config": read_documents(Path(model))["config.json"].value}


def budget(module: AnsibleModule) -> dict[str, Any]:
    contents = read_contents(module)
    if contents is None:
        return unknown_until("fetch", f"{module.params['path']}/config.json")
    params = options(module)
    missing = draft_missing(params)
    if missing is not None and module.check_mode:
        return unknown_until("fetch", str(missing))
    site = params["site_packages"]
    version = params["vllm_version"] or (installed_release(Path(site)) if site else None)
    release = parse_release(version)
    rules = asked_rules(None if release.assumed else version, site, check_mode=module.check_mode)
    dtype, dtype_from = resolve_dtype(params["kv_cache_dtype"], contents, rules)
    config = overridden(contents["config.json"], params.get("hf_overrides") or {})
    partition, estimates_cuda_graphs = read_environment(params["environment"])
    gpus = params["gpus"] or []
    return compute_budget(
        BudgetRequest(
            config=config,
            release=release,
            parallel=Parallel(
                params["tensor_parallel_size"],
                params["pipeline_parallel_size"],
                params["decode_context_parallel_size"],
                params["enable_expert_parallel"],
                partition,
            ),
            estimates_cuda_graphs=estimates_cuda_graphs,
            kv_cache_dtype_from=dtype_from,
            compute_capability=params["compute_capability"] or (gpus[0].get("compute_capability") if gpus else None),
            max_model_len=parse_max_model_len(params["max_model_len"]),
            weights_bytes=size_of_weights(params),
            weight_parts=parts_of_weights(params, config),
            cards=read_cards(gpus, params["exclude_units"]) if gpus else (),
            measured=Measured(
                **{key: value for key, value in (params["measured"] or {}).items() if key not in PRINTED_ONLY}
            ),
            min_model_len=length_or_none(params, "min_model_len"),
            max_model_len_cap=length_or_none(params, "max_model_len_cap"),
            kv_cache_dtype=dtype,
            kv_cache_dtype_skip_layers=params.get("kv_cache_dtype_skip_layers", ()),
            mamba_cache_dtype=params.get("mamba_cache_dtype"),
            mamba_ssm_cache_dtype=params.get("mamba_ssm_cache_dtype"),
            speculative_config=with_draft_config(params["speculative_config"]),
            **{name: params[name] for name in NAMED_ALIKE},
        )
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "config": {"type": "dict"},
            "hf_quant_config": {"type": "dict"},
            "weights_bytes": {"type": "int"},
            "tensor_parallel_size": {"type": "int", "default": 1},
            "pipeline_parallel_size": {"type": "int", "default": 1},
            "decode_context_parallel_size": {"type": "int", "default": 1},
            "enable_expert_parallel": {"type": "bool", "default": False},
            "speculative_config": {"type": "dict"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
            "kv_cache_dtype": {"type": "str", "default": "auto"},
            "kv_bytes_per_token_per_gpu": {"type": "int", "no_log": False},
            "block_size": {"type": "int"},
            "attention_backend": {"type": "str"},
            "max_model_len": {"type": "str", "default": "auto"},
            "max_num_batched_tokens": {"type": "int", "no_log": False},
            "max_num_seqs": {"type": "int"},
            "async_scheduling": {"type": "bool"},
            "enforce_eager": {"type": "bool", "default": False},
            "language_model_only": {"type": "bool", "default": False},
            "disable_hybrid_kv_cache_manager": {"type": "bool", "default": False},
            "mamba_cache_mode": {"type": "str"},
            "gpu_memory_bytes": {"type": "int"},
            "gpus": {"type": "list", "elements": "dict"},
            "exclude_units": {"type": "list", "elements": "str", "default": []},
            "fit_to_free": {"type": "bool", "default": False},
            "gpu_memory_utilization": {"type": "float"},
            "weights_bytes_per_gpu": {"type": "int"},
            "overhead_bytes_per_gpu": {"type": "int"},
            "cuda_graph_bytes_per_gpu": {"type": "int"},
            "available_kv_cache_bytes": {"type": "int"},
            "measured": {
                "type": "dict",
                "options": {
                    "weights_bytes": {"type": "int"},
                    "cuda_graph_bytes": {"type": "int"},
                    "cuda_graph_estimated_bytes": {"type": "int"},
                    "available_bytes": {"type": "int"},
                    "gpu_memory_utilization": {"type": "float"},
                    "tokens": {"type": "int", "no_log": False},
                    "concurrency": {"type": "float"},
                    "inconsistent": {"type": "bool"},
                    "max_model_len": {"type": "int"},
                    "max_num_batched_tokens": {"type": "int", "no_log": False},
                    "max_num_seqs": {"type": "int"},
                    "decode_context_parallel_size": {"type": "int"},
                    "enforce_eager": {"type": "bool"},
                },
            },
            "vllm_version": {"type": "str"},
            "site_packages": {"type": "path"},
            "compute_capability": {"type": "str"},
            "headroom": {"type": "float", "default": 0.25},
            "min_model_len": {"type": "str"},
            "max_model_len_cap": {"type": "str"},
            "round_to": {"type": "int", "default": 1024},
        },
        required_one_of=[["path", "config"]],
        required_by={"hf_quant_config": "config"},
        supports_check_mode=True,
    )
    finish(module, lambda: budget(module))


if __name__ == "__main__":
    main()
