# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory estimate against what real engines had left: a half that it was fitted to, and a half that it was not."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import Card
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import Parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.memory import memory_of
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.request import BudgetRequest

DATA = Path(__file__).parents[3] / "data" / "kv"
GIB = 1 << 30
ROWS = [json.loads(line) for line in (DATA / "memory_rows.jsonl").read_text().splitlines()]
CAPABILITY = {"RTX PRO 6000": "12.0", "5090": "12.0", "GB10": "12.1", "H200": "9.0", "A100": "8.0", "3090": "8.6"}

Config = Callable[[str], dict[str, Any]]


def config_of(row: dict[str, Any], published: Config, cut_kimi: Config) -> dict[str, Any]:
    name: str = row["config"]
    return cut_kimi(name.removeprefix("kimi:")) if name.startswith("kimi:") else published(name)


def estimate(row: dict[str, Any], config: dict[str, Any]) -> float:
    """GiB available for the KV cache, from the card, the weights and the settings of the row."""
    match = re.match(r"\d+\.\d+", row["vllm"] or "")
    total = round(row["total"] * GIB)
    capability = next((value for part, value in CAPABILITY.items() if part in row["gpu"]), "8.9")
    request = BudgetRequest(
        config=config,
        release=parse_release(match[0] if match else None),
        parallel=Parallel(row["tp"], row["pp"], row["dcp"], row["expert_parallel"]),
        attention_backend=row["backend"],
        compute_capability=capability,
        cards=[Card(0, row["gpu"], total, total, ())],
        gpu_memory_utilization=row["utilization"],
        weights_bytes_per_gpu=round(row["weights"] * GIB),
        max_num_seqs=row["max_num_seqs"],
        enforce_eager=row["enforce_eager"],
        cuda_graph_bytes_per_gpu=None if row["graphs_subtracted"] else 0,
    )
    return memory_of(request, max_model_len=row["max_model_len"] or 131072, block_size=16).available / GIB


def summary(errors: list[float]) -> str:
    return f"median {statistics.median(errors):.2f} %, max {max(errors):.2f} %"


def test_error_of_each_half(published: Config, cut_kimi: Config, capsys: pytest.CaptureFixture[str]) -> None:
    """In percent of the card; beside it what `gpu_memory_utilization x total - weights` misses."""
    ours: dict[str, list[float]] = {"fitted": [], "held out": []}
    plain: dict[str, list[float]] = {"fitted": [], "held out": []}
    lines = []
    for row in ROWS:
        guess = estimate(row, config_of(row, published, cut_kimi))
        naive = row["utilization"] * row["total"] - row["weights"]
        error, without = (abs(value - row["available"]) / row["total"] * 100 for value in (guess, naive))
        ours[row["half"]].append(error)
        plain[row["half"]].append(without)
        lines.append(
            f"{row['id']:26} {row['half']:9} available {row['available']:7.2f} GiB, estimated {guess:7.2f}: "
            f"{error:5.2f} % of the card, without a model {without:5.2f} %"
        )
    with capsys.disabled():
        print("", *lines, sep="\n")
        for half in ours:
            print(f"{half}: {len(ours[half])} rows, {summary(ours[half])}; without a model {summary(plain[half])}")
    for errors in ours.values():
        assert statistics.median(errors) <= 3
        assert max(errors) <= 10
    assert statistics.median(ours["held out"]) < statistics.median(plain["held out"]) / 2
