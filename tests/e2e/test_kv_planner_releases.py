# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of every released vLLM, by that release's own planner run from its sources.

Needs SERVING_ENGINE_PYTHON (its torch; no GPU) and the sources of the releases (vllm_sources.py fetches them).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import Parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.planner import Planner
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.question import Question
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import EngineRelease, parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.request import BudgetRequest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.specs import specs_of_stages
from e2e.vllm_sources import sources

PYTHON = os.environ.get("SERVING_ENGINE_PYTHON")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PYTHON is None, reason="SERVING_ENGINE_PYTHON names no engine"),
]
CONFIGS = Path(__file__).parents[1] / "unit" / "data" / "checkpoints" / "configs"
ANSWERS = Path(__file__).with_name("release_planner_answers.py")
# One of every minor release, and the one in which a patch release changed the token line.
RELEASES = (
    "0.15.1", "0.16.0", "0.17.1", "0.18.0", "0.19.1", "0.20.0", "0.20.2", "0.22.1", "0.23.0",
    "0.24.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip
MODELS = (
    "nvidia__Kimi-K2.5-NVFP4",
    "Qwen__Qwen3-235B-A22B",
    "openai__gpt-oss-20b",
    "openai__gpt-oss-120b",
    "google__gemma-3-27b-it",
    "google__gemma-3-1b-it",
    "google__gemma-4-26B-A4B",
    "XiaomiMiMo__MiMo-V2-Flash",
    "stepfun-ai__Step-3.7-Flash",
    "meta-llama__Llama-4-Scout-17B-16E-Instruct",
    "deepseek-ai__DeepSeek-V3.2",
    "deepseek-ai__DeepSeek-V4-Flash",
    "deepseek-ai__DeepSeek-V4-Pro",
    "MiniMaxAI__MiniMax-M3",
    "zai-org__GLM-5.2",
    "moonshotai__Kimi-K3",
    "Qwen__Qwen3-Next-80B-A3B-Instruct",
    "nvidia__Qwen3.6-27B-NVFP4",
    "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nvidia__Nemotron-H-56B-Base-8K",
    "nvidia__Llama-3_3-Nemotron-Super-49B-v1",
)
GIB = 1 << 30
BATCHED_TOKENS = 2048


def questions(release: EngineRelease) -> Iterator[tuple[str, BudgetRequest]]:
    """Models x (TP, PP, DCP) x dtype x mode x (length, memory)."""
    for name in MODELS:
        config = json.loads((CONFIGS / f"{name}.json").read_text())
        for parallel in (Parallel(1), Parallel(2), Parallel(1, 3), Parallel(8, 1, 2)):
            for dtype, mode in (("bfloat16", "none"), ("fp8", "align"), ("bfloat16", "all")):
                for length, available in ((None, GIB), (1001, GIB), (32768, 12 * GIB), (None, 40 * GIB)):
                    yield (
                        f"{name} {parallel} {dtype} {mode} {length} {available / GIB:g} GiB",
                        BudgetRequest(
                            config=config,
                            release=release,
                            parallel=parallel,
                            kv_cache_dtype=dtype,
                            mamba_cache_mode=mode,
                            max_model_len=length,
                            max_num_batched_tokens=BATCHED_TOKENS,
                            available_kv_cache_bytes=available,
                        ),
                    )


def point_of(question: Question) -> dict[str, Any] | None:
    """The same for the engine's planner; None where the engine refuses the sizes before it plans."""
    request = question.request
    shape = question.shape
    assert shape is not None
    serving = question._serving(request.parallel)
    mode = {None: "all", 1: "none"}.get(serving.state_blocks, "align")
    try:
        question.planner(request.parallel)
    except ServingError as error:
        if "pages of one size" not in str(error):
            return None
    layout = question._layout(shape, request.parallel)
    stages = specs_of_stages(shape, layout, request.parallel)
    return {
        "stages": [[asdict(spec) for spec in stage] for stage in stages],
        "length": request.max_model_len or -1,
        "limit": question.limit.tokens,
        "available": request.available_kv_cache_bytes,
        "decode_context": request.parallel.decode_context,
        "batched_tokens": BATCHED_TOKENS,
        "batches": serving.in_flight_tokens // BATCHED_TOKENS,
        "mode": mode,
        "drafts": 0,
        "exported": max(0, (serving.state_blocks or 0) - 2),
        "hybrid_manager": question._has_hybrid_manager,
        "packed": shape.family == "mla+compressed",
    }


def ours(question: Question) -> dict[str, Any]:
    """The numbers here, or the refusal."""
    request = question.request
    available = request.available_kv_cache_bytes or 0
    try:
        planner: Planner = question.planner(request.parallel)
    except ServingError as error:
        return {"error": str(error)}
    length = request.max_model_len or planner.largest_that_fits(available, question.limit.tokens)
    if length == 0 or not planner.fits(length, available):
        return {"error": "does not fit"}
    return {
        "tokens": planner.token_capacity(length, available),
        "concurrency": planner.max_concurrency(length, available),
        "blocks": planner.num_blocks(available),
        "length": length,
    }


@pytest.mark.parametrize("version", RELEASES)
def test_the_releases_planner_says_the_same(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = []
    for name, request in questions(parse_release(version)):
        question = Question(request)
        point = point_of(question)
        if point is not None:
            asked.append((name, question, point))
    run = subprocess.run(
        [str(PYTHON), str(ANSWERS)],
        input=json.dumps([point for _, _, point in asked]),
        env={**os.environ, "PYTHONPATH": f"{sources(version)}:{Path(__file__).parents[1]}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    answers = json.loads(run.stdout.strip().splitlines()[-1])["answers"]
    differences, refused = [], 0
    for (name, question, _), theirs in zip(asked, answers, strict=True):
        here = ours(question)
        refused += "error" in theirs
        if ("error" in theirs) != ("error" in here) or ("error" not in theirs and theirs != here):
            differences.append(f"{name}: engine {theirs}, here {here}")
    with capsys.disabled():
        print(f"\nvLLM {version}: {len(asked)} points ({refused} refused by both), {len(differences)} differences")
        print(*differences[:12], sep="\n")
    assert len(asked) > 500
    assert differences == []
