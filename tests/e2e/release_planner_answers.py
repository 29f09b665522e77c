# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by an engine's own Python, with PYTHONPATH set to the sources of a release: what that release's planner plans.

stdin: a list of points {"stages": [[{kind, block_size, bytes_per_token, state_bytes, window, padded_page, layout},
...], ...], "length" (-1 is auto), "limit", "available" (bytes), "decode_context", "batched_tokens", "batches", "mode",
"drafts", "exported" (states), "hybrid_manager", "packed"}. stdout: one JSON line {"version", "answers": [{"tokens",
"concurrency", "blocks", "length"} or {"error"}, ...]}.

Packages that only that release needs are replaced by empty stand-ins.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

from e2e import flag_answers
from e2e.stand_ins import Finder

os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
os.environ["VLLM_TARGET_DEVICE"] = "cpu"
sys.meta_path.append(Finder((*flag_answers.STAND_INS, "diskcache")))

with contextlib.redirect_stdout(sys.stderr):
    import torch
    import vllm
    from vllm.v1 import kv_cache_interface as interface
    from vllm.v1.core import kv_cache_utils as planner

    try:
        from vllm.v1.core import kv_cache_planning
    except ImportError:
        kv_cache_planning = None


class Log:
    """Keeps what the planner prints."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def keep(message: str, *arguments: Any, **named: Any) -> None:
            self.lines.append(message % arguments if arguments else message)

        return keep

    def number_after(self, words: str) -> str:
        return next(line for line in self.lines if words in line).split(words)[1].split()[0].rstrip("x")


def spec_of(layer: dict[str, Any], point: dict[str, Any]) -> Any:
    """The release's own spec with the bytes of one of ours."""
    block, padded = layer["block_size"], layer["padded_page"]
    if layer["kind"] == "mamba":
        return interface.MambaSpec(
            block_size=block,
            shapes=((layer["state_bytes"],),),
            dtypes=(torch.uint8,),
            page_size_padded=padded,
            mamba_cache_mode=point["mode"],
            num_speculative_blocks=point["drafts"],
            **({"num_prefill_checkpoint_blocks": point["exported"]} if point["exported"] else {}),
        )
    common = {"block_size": block, "dtype": torch.uint8, "page_size_padded": padded}
    if layer["kind"] in ("mla", "mla_indexer"):
        named = "auto" if layer["kind"] == "mla" else None
        size = 1 if padded else layer["bytes_per_token"]  # a packed page is rounded up
        return interface.MLAAttentionSpec(num_kv_heads=1, head_size=size, cache_dtype_str=named, **common)
    if layer["kind"] == "sliding_window_mla":
        return interface.SlidingWindowMLASpec(num_kv_heads=1, head_size=1, sliding_window=layer["window"], **common)
    heads = layer["layout"][0]
    common |= {"num_kv_heads": heads, "head_size": layer["bytes_per_token"] // heads // 2}
    if layer["kind"] == "sliding_window":
        return interface.SlidingWindowSpec(sliding_window=layer["window"], **common)
    if layer["kind"] == "chunked_local_attention":
        return interface.ChunkedLocalAttentionSpec(attention_chunk_size=layer["window"], **common)
    return interface.FullAttentionSpec(**common)


def config_of(point: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=point["limit"] if point["length"] == -1 else point["length"],
            original_max_model_len=point["length"],
            supports_kv_cache_grouping=False,
        ),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=1,
            decode_context_parallel_size=point["decode_context"],
            prefill_context_parallel_size=1,
        ),
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=not point["hybrid_manager"],
            max_num_batched_tokens=point["batched_tokens"],
        ),
        cache_config=SimpleNamespace(
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
            mamba_cache_mode=point["mode"],
            get_resolved_kv_cache_layout=lambda: layout(packed=point["packed"]),
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        device_config=SimpleNamespace(device_type="cuda"),
        max_in_flight_tokens=point["batched_tokens"] * point["batches"],
        num_prefill_lookahead_tokens=0,
        speculative_config=None,
        kv_transfer_config=None,
    )


def layout(*, packed: bool) -> Any:
    from vllm.v1.kv_cache_layout import KVCacheLayout

    return KVCacheLayout.BLHNC if packed else KVCacheLayout.LBHNC


def plans_of(config: SimpleNamespace, workers: list[dict[str, Any]], available: list[int]) -> list[Any]:
    if kv_cache_planning is None:
        plans: list[Any] = planner.get_kv_cache_configs(config, workers, available)
        return plans
    groups = kv_cache_planning.get_global_kv_cache_groups(config, workers)
    planned: list[Any] = kv_cache_planning.get_kv_cache_configs(config, workers, available, groups)
    return planned


def answer(point: dict[str, Any]) -> dict[str, Any]:
    config, workers, index = config_of(point), [], 0
    for stage in point["stages"]:
        worker = {}
        for layer in stage:
            worker[f"model.layers.{index}.attn"] = spec_of(layer, point)
            index += 1
        workers.append(worker)
    log = Log()
    planner.logger = log
    try:
        plans = plans_of(config, workers, [point["available"]] * len(workers))
    except (NotImplementedError, ValueError) as error:
        return {"error": str(error)}
    length = config.model_config.max_model_len
    concurrency = planner.get_max_concurrency_for_kv_cache_config(config, plans[0])
    if hasattr(planner, "get_kv_cache_capacity"):
        tokens, concurrency = planner.get_kv_cache_capacity(config, plans[0])
    else:
        tokens = int(log.number_after("KV cache size: ").replace(",", ""))
    return {"tokens": tokens, "concurrency": concurrency, "blocks": plans[0].num_blocks, "length": length}


def main() -> None:
    points = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        answers = [answer(point) for point in points]
    print(json.dumps({"version": vllm.__version__, "answers": answers}))


if __name__ == "__main__":
    main()
