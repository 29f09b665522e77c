# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by the engine's own Python (SERVING_ENGINE_PYTHON): what the installed vLLM itself plans.

stdin: {model name: {"folder": ..., "points": [...]}}; a point has tensor, pipeline, decode_context, dtype, block_size,
length (-1 is auto) and available (bytes). stdout: one JSON line {"version", "import_seconds", "models": {model name:
{"limit", "mla", "answers": [...]}}}; an answer is {"tokens", "concurrency", "blocks", "length"} or {"error"}; a model
whose config.json needs code of its own is {"unreadable": ...}.

vLLM reads the config.json, resolves the dtype, divides heads and layers, groups the layers and plans the blocks; only
the layers' specs are built here, from these numbers, as Attention.get_kv_cache_spec and MLAAttention.get_kv_cache_spec
do.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from types import SimpleNamespace
from typing import Any

STARTED = time.perf_counter()
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ["HF_HUB_OFFLINE"] = "1"

with contextlib.redirect_stdout(sys.stderr):
    import torch
    import vllm
    from vllm.config.model import ModelConfig, _get_and_verify_max_len
    from vllm.distributed.utils import get_pp_indices
    from vllm.transformers_utils.config import get_config, get_hf_text_config
    from vllm.transformers_utils.model_arch_config_convertor import (
        MODEL_ARCH_CONFIG_CONVERTORS,
        ModelArchConfigConvertorBase,
    )
    from vllm.utils.torch_utils import kv_cache_dtype_str_to_dtype, resolve_kv_cache_dtype_string
    from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity, get_kv_cache_configs
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec, get_kv_quant_mode
    from vllm.v1.kv_cache_layout import KVCacheLayout


def read_model(folder: str) -> SimpleNamespace:
    """What vLLM takes from a config.json."""
    config = get_config(folder, trust_remote_code=False)
    text = get_hf_text_config(config)
    convertor = MODEL_ARCH_CONFIG_CONVERTORS.get(config.model_type, ModelArchConfigConvertorBase)
    architecture = convertor(config, text).convert()
    limit = _get_and_verify_max_len(
        hf_config=text,
        model_arch_config=architecture,
        tokenizer_config=None,
        max_model_len=None,
        disable_sliding_window=False,
        sliding_window=None,
    )
    return SimpleNamespace(
        hf_config=config,
        model_arch_config=architecture,
        use_mla=architecture.is_deepseek_mla,
        dtype=torch.bfloat16,
        limit=limit,
    )


def answer(model: SimpleNamespace, point: dict[str, Any]) -> dict[str, Any]:
    workers = [worker_specs(model, point, rank) for rank in range(point["pipeline"])]
    config = SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=model.limit if point["length"] == -1 else point["length"],
            original_max_model_len=point["length"],
        ),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=point["tensor"], decode_context_parallel_size=point["decode_context"]
        ),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        cache_config=SimpleNamespace(
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
            get_resolved_kv_cache_layout=lambda: next(iter(KVCacheLayout)),
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        device_config=SimpleNamespace(device_type="cuda"),
        num_prefill_lookahead_tokens=0,
    )
    try:
        plans = get_kv_cache_configs(config, workers, [point["available"]] * len(workers))
    except ValueError as error:
        return {"error": str(error)}
    tokens, concurrency = get_kv_cache_capacity(config, plans[0])
    length = config.model_config.max_model_len
    return {"tokens": tokens, "concurrency": concurrency, "blocks": plans[0].num_blocks, "length": length}


def worker_specs(model: SimpleNamespace, point: dict[str, Any], rank: int) -> dict[str, Any]:
    """The layers of one pipeline stage, each with the spec that vLLM's attention layer would give."""
    dtype = resolve_kv_cache_dtype_string(point["dtype"], model)
    first, last = get_pp_indices(model.model_arch_config.total_num_hidden_layers, rank, point["pipeline"])
    kv_heads = ModelConfig.get_num_kv_heads(model, SimpleNamespace(tensor_parallel_size=point["tensor"]))
    common = {
        "block_size": point["block_size"],
        "num_kv_heads": kv_heads,
        "head_size": model.model_arch_config.head_size,
        "dtype": kv_cache_dtype_str_to_dtype(dtype, model),
        "kv_quant_mode": get_kv_quant_mode(dtype),
    }
    if model.use_mla:
        spec = MLAAttentionSpec(**common, max_tp_shards=1, cache_dtype_str=dtype)
    else:
        spec = FullAttentionSpec(**common)
    return {f"model.layers.{index}.self_attn.attn": spec for index in range(first, last)}


def main() -> None:
    imported = time.perf_counter() - STARTED
    models: dict[str, Any] = {}
    for name, asked in json.load(sys.stdin).items():
        with contextlib.redirect_stdout(sys.stderr):
            try:
                model = read_model(asked["folder"])
            except ValueError as error:
                models[name] = {"unreadable": str(error)}
                continue
            answers = [answer(model, point) for point in asked["points"]]
            models[name] = {"limit": model.limit, "mla": model.use_mla, "answers": answers}
    print(json.dumps({"version": vllm.__version__, "import_seconds": imported, "models": models}))


if __name__ == "__main__":
    main()
