# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by the engine's own Python (SERVING_ENGINE_PYTHON): what the installed vLLM keeps and plans for a model.

stdin: {model name: {"folder": ..., "points": [...]}}; a point has tensor, pipeline, decode_context, dtype, block_size,
length (-1 is auto), available (bytes), mode (--mamba-cache-mode) and chunked. stdout: one JSON line {"version",
"import_seconds", "models": {model name: {"limit", "mla", "answers": [...]}}}; an answer is {"layers": [[kind, block
size, page bytes, window, count], ...], "tokens", "concurrency", "blocks", "length"} or {"error"}, or {"unbuilt"} where
the model class refuses the size; a model whose config.json needs code of its own is {"unreadable": ...}.

vLLM's own model classes build every layer, on torch's meta device, and every layer says what it keeps; vLLM makes the
blocks of hybrid models long enough, groups the layers and plans the blocks. Replaced are: the process groups (so that
one process is rank 0 of any tensor-parallel size), the attention kernels (blocks of any multiple of 16, or of 64 for an
indexer), packages that only cards need, and the configuration class that nemotron-nas checkpoints bring.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

STARTED = time.perf_counter()
os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
os.environ["HF_HUB_OFFLINE"] = "1"

with contextlib.redirect_stdout(sys.stderr):
    import torch
    import vllm
    import vllm.distributed.parallel_state as parallel_state
    from e2e.engine_stand_ins import Backend, Finder, Kernel, LatentBackend, NemotronNas, Ranks, backend_class
    from transformers import AutoConfig, PretrainedConfig
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.distributed.utils import get_pp_indices
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.model_executor.models import registry
    from vllm.platforms import current_platform
    from vllm.platforms.interface import Platform
    from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity, get_kv_cache_configs
    from vllm.v1.kv_cache_interface import SlidingWindowMLASpec
    from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

# Model types whose configuration class the checkpoints bring themselves.
WITHOUT_CLASS = ("bailing_hybrid", "minicpm", "minimax_m3")
BATCHED_TOKENS = 8192


def prepare() -> None:
    sys.meta_path.append(Finder())
    module = types.ModuleType("stand_in_backends")
    module.Backend, module.LatentBackend = Backend, LatentBackend  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    type(current_platform).get_attn_backend_cls = classmethod(backend_class)
    Platform._find_non_ssm_backends = classmethod(lambda cls, config: [Backend])
    # In a process of its own this takes half a minute per model.
    registry._LazyRegisteredModel.inspect_model_cls = lambda model: registry._ModelInfo.from_model_cls(
        model.load_model_cls()
    )
    keep_state_dtype()
    VllmConfig.max_concurrent_batches = property(lambda config: getattr(config, "batches", 1))
    AutoConfig.register("nemotron-nas", NemotronNas)
    for name in WITHOUT_CLASS:
        AutoConfig.register(name, type(name, (PretrainedConfig,), {"model_type": name}))
    torch.cuda.Stream = torch.cuda.Event = Kernel
    with contextlib.suppress(ImportError):
        from vllm.models.kimi_k3.nvidia import model as kimi_k3

        kimi_k3.maybe_init_gemm_rs_ar = lambda *arguments, **named: False


def keep_state_dtype() -> None:
    """The build for CPUs keeps recurrent states in float32, also where a card does not."""
    platform = type(current_platform)
    check = platform.check_and_update_config

    def check_and_update_config(cls: type, config: VllmConfig) -> None:
        dtype = config.cache_config.mamba_ssm_cache_dtype
        check(config)
        config.cache_config.mamba_ssm_cache_dtype = dtype

    platform.check_and_update_config = classmethod(check_and_update_config)


def engine_config(folder: str, dtype: str) -> VllmConfig:
    return EngineArgs(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        kv_cache_dtype=dtype,
        enforce_eager=True,
        enable_prefix_caching=False,
        max_num_batched_tokens=BATCHED_TOKENS,
    ).create_engine_config()


def build(folder: str, point: dict[str, Any]) -> tuple[VllmConfig, dict[str, Any]]:
    """The engine's configuration, and what every layer of rank 0 keeps."""
    config = engine_config(folder, point["dtype"])
    config.parallel_config.tensor_parallel_size = point["tensor"]
    for name in ("_TP", "_PP", "_DCP", "_EP", "_DP", "_WORLD", "_PCP"):
        setattr(parallel_state, name, Ranks(point["tensor"] if name in ("_TP", "_EP", "_WORLD") else 1))
    with set_current_vllm_config(config), torch.device("meta"):
        initialize_model(config)
        cache = config.cache_config
        cache.block_size, cache.user_specified_block_size = point["block_size"], True
        cache.mamba_cache_mode, cache.mamba_page_size_padded = point["mode"], None
        cache.kv_cache_layout = "LBHNC"
        if config.model_config.is_hybrid:
            Platform._align_hybrid_block_size.__func__(Platform, config, Backend)
        if cache.mamba_block_size is None:
            cache.mamba_block_size = config.model_config.max_model_len
        specs = get_kv_cache_spec(config)
        if any(isinstance(spec, SlidingWindowMLASpec) for spec in specs.values()):
            cache.kv_cache_layout = "BLHNC"  # what DEEPSEEK_V4_INDEXER asks for
        return config, specs


def stages(config: VllmConfig, specs: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """The layers of each pipeline stage."""
    layers = config.model_config.get_total_num_hidden_layers()
    for rank in range(count):
        first, last = get_pp_indices(layers, rank, count)
        yield {name: spec for name, spec in specs.items() if first <= layer_index(name) % layers < last}


def layer_index(name: str) -> int:
    """Falcon-H1 counts its states after all layers."""
    found = re.search(r"\.(\d+)\.", name)
    return int(found[1]) if found else 0


def answer(config: VllmConfig, specs: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    config.model_config.original_max_model_len = point["length"]
    config.model_config.max_model_len = config.serving_limit if point["length"] == -1 else point["length"]
    config.parallel_config.pipeline_parallel_size = point["pipeline"]
    config.parallel_config.decode_context_parallel_size = point["decode_context"]
    config.scheduler_config.disable_hybrid_kv_cache_manager = point["chunked"]
    config.scheduler_config.async_scheduling = True
    config.scheduler_config.max_num_batched_tokens = BATCHED_TOKENS
    # The build for CPUs has no Model Runner V2, which is the default on cards: two batches in flight, or one per stage
    # and one more.
    object.__setattr__(config, "batches", point["pipeline"] + 1)
    workers = list(stages(config, specs, point["pipeline"]))
    layers = Counter(
        (type(spec).__name__, spec.block_size, spec.page_size_bytes, getattr(spec, "sliding_window", None) or 0)
        for spec in specs.values()
    )
    try:
        plans = get_kv_cache_configs(config, workers, [point["available"]] * len(workers))
    except (ValueError, NotImplementedError) as error:
        return {"error": str(error)}
    tokens, concurrency = get_kv_cache_capacity(config, plans[0])
    return {
        "layers": [[*kind, count] for kind, count in layers.items()],
        "tokens": tokens,
        "concurrency": concurrency,
        "blocks": plans[0].num_blocks,
        "length": config.model_config.max_model_len,
    }


def model_answers(folder: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    built: dict[Any, tuple[VllmConfig, dict[str, Any]]] = {}
    answers = []
    for point in points:
        key = (point["tensor"], point["dtype"], point["block_size"], point["mode"])
        if key not in built:
            try:
                config, specs = build(folder, point)
            except (ArithmeticError, AssertionError, NotImplementedError, ValueError) as error:
                if not built:
                    raise
                answers.append({"unbuilt": f"{type(error).__name__}: {error}"[:200]})
                continue
            object.__setattr__(config, "serving_limit", config.model_config.max_model_len)
            built[key] = config, specs
        answers.append(answer(*built[key], point))
    config, _ = next(iter(built.values()))
    return {"limit": config.serving_limit, "mla": config.model_config.use_mla, "answers": answers}


def main() -> None:
    asked = json.load(sys.stdin)
    models: dict[str, Any] = {}
    with contextlib.redirect_stdout(sys.stderr):
        prepare()
        imported = time.perf_counter() - STARTED
        for name, model in asked.items():
            try:
                models[name] = model_answers(model["folder"], model["points"])
            except Exception as error:
                models[name] = {"unreadable": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps({"version": vllm.__version__, "import_seconds": imported, "models": models}))


if __name__ == "__main__":
    main()
