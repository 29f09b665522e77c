# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Against what real engines printed: the available memory is theirs, the tokens must be theirs too."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import Card

DATA = Path(__file__).parents[3] / "data" / "kv"
GIB = 1 << 30
HALF_A_PRINTED_DIGIT = 0.005

PRINTED = [json.loads(line) for line in (DATA / "printed.jsonl").read_text().splitlines()]
REFUSED = {"kz-05", "kz-12", "kz-22", "glm51-05", "dsv4flash-h200-tp2", "dj-02", "jh-02", "qwen35-35b-eager"}
# Rows whose memory line cannot give the tokens closely, and why (their own notes say so).
COARSE = {
    "qwen3-235b-fp8-h100x4": "the memory line is one worker's, the tokens are the smallest worker's",
    "qwen3-235b-fp8-l40sx8": "the memory line is one worker's, other workers have less",
    "qwen25-7b-lora-l4-err": "0.09 GiB printed with two decimals: +-5 %",
}
MEASURED = json.loads((DATA / "h200_memory.json").read_text())

Ask = Callable[..., dict[str, Any]]
Config = Callable[[str], dict[str, Any]]


def version_of(text: str | None) -> str | None:
    match = re.match(r"\d+\.\d+", text or "")
    return match[0] if match else None


def predict(row: dict[str, Any], config: dict[str, Any], ask: Ask, available_gib: float) -> int:
    """The token line, or the estimated longest length where the start failed."""
    try:
        budget = ask(
            config,
            tp=row["tp"] or 1,
            pp=row["pp"] or 1,
            dcp=row["dcp"] or 1,
            version=version_of(row["vllm"]),
            kv_cache_dtype=row["kv_dtype"],
            block_size=row["block_size"],
            max_model_len=row["max_model_len"],
            available_kv_cache_bytes=round(available_gib * GIB),
        )
    except ServingError as error:
        if "kv_cache" not in error.facts:
            raise
        budget = error.facts
    if row["kv_tokens"]:
        return int(budget["kv_cache"]["token_capacity"])
    return int(budget["max_model_len"]["largest_that_fits"])


def test_public_logs_of_gqa_and_mla_models(ask: Ask, published: Config, capsys: pytest.CaptureFixture[str]) -> None:
    errors: dict[str, float] = {}
    lines = []
    for row in PRINTED:
        if row["id"] in REFUSED:
            continue
        said = row["kv_tokens"] or row["err_estimated_max_len"]
        config = published(row["config"])
        budget = predict(row, config, ask, row["avail_kv_gib"])
        errors[row["id"]] = abs(budget - said) / said * 100
        lines.append(f"{row['id']:24} {row['config']:34} said {said:>9,} budget {budget:>9,} {errors[row['id']]:.3f} %")
        if row["id"] not in COARSE:
            low, high = (
                predict(row, config, ask, row["avail_kv_gib"] + sign * HALF_A_PRINTED_DIGIT) for sign in (-1, 1)
            )
            assert low <= said <= high, lines[-1]
    close = [error for name, error in errors.items() if name not in COARSE]
    with capsys.disabled():
        print("", *lines, sep="\n")
        print(f"{len(errors)} rows: median {statistics.median(errors.values()):.3f} %; without the coarse rows")
        print(f"({', '.join(COARSE)}) max {max(close):.3f} %")
    assert statistics.median(errors.values()) <= 0.02
    assert max(close) <= 0.5


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_rows_of_other_families_are_refused(name: str, ask: Ask, published: Config) -> None:
    row = next(row for row in PRINTED if row["id"] == name)
    with pytest.raises(ServingError, match="cannot estimate"):
        predict(row, published(row["config"]), ask, row["avail_kv_gib"])


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: str(row["id"]))
def test_measured_starts_on_an_h200(row: dict[str, Any], ask: Ask, cut_kimi: Config) -> None:
    common = {
        "version": "0.24.0",
        "kv_cache_dtype": row["kv_cache_dtype"],
        "max_model_len": row["max_model_len"],
        "attention_backend": row["backend"],
    }
    config = cut_kimi(row["model"])
    config["max_position_embeddings"] = max(262144, row["max_model_len"])
    low, high = (
        ask(config, available_kv_cache_bytes=round((row["available"] + sign * HALF_A_PRINTED_DIGIT) * GIB), **common)
        for sign in (-1, 1)
    )
    assert low["kv_cache"]["token_capacity"] <= row["tokens"] <= high["kv_cache"]["token_capacity"]
    assert low["kv_cache"]["max_concurrency"] - 0.01 <= row["concurrency"] <= high["kv_cache"]["max_concurrency"] + 0.01

    estimated = ask(
        config,
        cards=[Card(0, "NVIDIA H200", 143156 << 20, 143152 << 20, ())],
        gpu_memory_utilization=row["utilization"],
        weights_bytes_per_gpu=round(row["weights"] * GIB),
        max_num_seqs=row["max_num_seqs"],
        enforce_eager=row["enforce_eager"],
        **common,
    )["memory"]
    assert estimated["cuda_graphs"] / GIB == pytest.approx(row["cuda_graphs"], abs=0.08)
    used = estimated["usable"] / GIB - row["weights"] - row["cuda_graphs"] - row["available"]
    assert estimated["overhead"] / GIB == pytest.approx(used, abs=0.2)
