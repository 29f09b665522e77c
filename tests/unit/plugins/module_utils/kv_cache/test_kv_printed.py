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
from unit.plugins.module_utils.kv_cache.printed_rows import (
    CAPABILITIES,
    CARDS,
    COARSE,
    DIGITS,
    FOUND,
    GIB,
    MODELS,
    OTHER_ENGINES,
    SIBLINGS,
    TOLD,
    UNKNOWN_MODELS,
    named,
)

DATA = Path(__file__).parents[3] / "data" / "kv"
HALF_A_PRINTED_DIGIT = 0.005

PRINTED = {row["id"]: row for row in map(json.loads, (DATA / "printed.jsonl").read_text().splitlines())}
MEASURED = json.loads((DATA / "h200_memory.json").read_text())
WITH_MEMORY = [
    name
    for name, row in PRINTED.items()
    if (row["avail_kv_gib"] or 0) > 0
    and (row["kv_tokens"] or row["err_estimated_max_len"] or row["concurrency"])
    and name not in UNKNOWN_MODELS | set(OTHER_ENGINES)
]
SAID_WITHOUT_MEMORY = [
    name
    for name, row in PRINTED.items()
    if row["avail_kv_gib"] is None and row["kv_tokens"] and row["config"] and name not in OTHER_ENGINES
]

Ask = Callable[..., dict[str, Any]]
Config = Callable[[str], dict[str, Any]]


def version_of(text: str | None) -> str | None:
    match = re.match(r"\d+\.\d+(\.\d+)?", text or "")
    return match[0] if match else None


def config_of(name: str, published: Config) -> dict[str, Any]:
    return MODELS.get(name) or published(SIBLINGS.get(name) or PRINTED[name]["config"])


def budget_of(name: str, config: dict[str, Any], ask: Ask, available_bytes: int) -> dict[str, Any]:
    """The budget by the row's fields and what is known besides."""
    row = PRINTED[name]
    memory = named(CARDS, row["gpu"])
    arguments = {
        "tp": row["tp"] or 1,
        "pp": row["pp"] or 1,
        "dcp": row["dcp"] or 1,
        "version": version_of(row["vllm"]),
        "kv_cache_dtype": row["kv_dtype"],
        "block_size": row["block_size"],
        "max_model_len": row["max_model_len"],
        "gpu_memory_bytes": memory and memory * GIB,
        "compute_capability": named(CAPABILITIES, row["gpu"]),
        "available_kv_cache_bytes": available_bytes,
        **TOLD.get(name, {}),
        **FOUND.get(name, {}),
    }
    try:
        return ask(config, **arguments)
    except ServingError as error:
        if "kv_cache" not in error.facts:
            raise
        return error.facts


def predict(name: str, config: dict[str, Any], ask: Ask, available_gib: float) -> float:
    """The token line; the estimated longest length where the start failed; the concurrency where that is all."""
    row = PRINTED[name]
    budget = budget_of(name, config, ask, round(available_gib * GIB))
    if row["kv_tokens"]:
        return float(budget["kv_cache"]["token_capacity"])
    if row["err_estimated_max_len"]:
        return float(budget["max_model_len"]["largest_that_fits"])
    return round(float(budget["kv_cache"]["max_concurrency"]), 2)


def said(name: str) -> float:
    row = PRINTED[name]
    return float(row["kv_tokens"] or row["err_estimated_max_len"] or row["concurrency"])


def test_public_logs(ask: Ask, published: Config, capsys: pytest.CaptureFixture[str]) -> None:
    """Every row that says how much memory was left and whose model is known."""
    errors: dict[str, float] = {}
    allowed: dict[str, float] = {}
    lines = []
    for name in WITH_MEMORY:
        config, available = config_of(name, published), PRINTED[name]["avail_kv_gib"]
        budget = predict(name, config, ask, available)
        errors[name] = abs(budget - said(name)) / said(name) * 100
        found = " (arguments found)" if name in FOUND else ""
        lines.append(f"{name:24} said {said(name):>11,} budget {budget:>11,} {errors[name]:.3f} %{found}")
        low, high = (predict(name, config, ask, available + sign * HALF_A_PRINTED_DIGIT) for sign in (-1, 1))
        allowed[name] = (high - low) / 2 / said(name) * 100
        if name not in COARSE or COARSE[name].startswith(DIGITS):
            assert low <= said(name) <= high, lines[-1]
    plain = [error for name, error in errors.items() if name not in FOUND]
    close = [error for name, error in errors.items() if name not in COARSE]
    with capsys.disabled():
        print("", *lines, sep="\n")
        print(f"{len(plain)} rows by their own fields: median {statistics.median(plain):.3f} %")
        print(
            f"{len(errors)} rows, {len(FOUND)} of them with arguments found: {statistics.median(errors.values()):.3f} %"
        )
        print(f"without the {len(COARSE)} coarse rows max {max(close):.3f} %; coarse:")
        for name, why in COARSE.items():
            print(f"  {name} {errors[name]:.3f} % (two printed decimals leave +-{allowed[name]:.2f} %): {why}")
        print(f"two printed decimals leave, in the middle of all rows, +-{statistics.median(allowed.values()):.3f} %")
    assert len(plain) >= 60
    assert statistics.median(plain) <= 0.02
    assert max(close) <= 0.5


@pytest.mark.parametrize(
    "name",
    ["kz-03", "kz-12", "kz-22", "dj-02", "dj-03", "qwen36-35b-nvfp4-5090-1", "exaone4-32b-l40s", "qwen-tp2-fp8e5m2"],
)
def test_the_printed_concurrency_of_hybrids(name: str, ask: Ask, published: Config) -> None:
    row = PRINTED[name]
    low, high = (
        budget_of(name, config_of(name, published), ask, round((row["avail_kv_gib"] + digit) * GIB))["kv_cache"]
        for digit in (-HALF_A_PRINTED_DIGIT, HALF_A_PRINTED_DIGIT)
    )
    assert low["max_concurrency"] - 0.01 <= row["concurrency"] <= high["max_concurrency"] + 0.01


@pytest.mark.parametrize("name", ["dsr1-qwen3-8b-err", "gptoss120b-err", "err-16384", "qwen-27b-5090-192k-err"])
def test_the_printed_need(name: str, ask: Ask, published: Config) -> None:
    """GiB that one request of that length takes, as the error says."""
    row = PRINTED[name]
    budget = budget_of(name, config_of(name, published), ask, round(row["avail_kv_gib"] * GIB))
    assert round(budget["kv_cache"]["bytes_needed"] / GIB, 2) == row["err_needed_gib"]


@pytest.mark.parametrize("name", SAID_WITHOUT_MEMORY)
def test_a_number_printed_without_memory_can_be_reached(name: str, ask: Ask, published: Config) -> None:
    """Some number of blocks gives the printed tokens, where the source calls them exact."""
    row, config = PRINTED[name], config_of(name, published)
    block = budget_of(name, config, ask, GIB)["kv_cache"]
    guess = budget_of(name, config, ask, 1024 * block["bytes_per_block"])["kv_cache"]["token_capacity"]
    blocks = round(row["kv_tokens"] / guess * 1024)
    reached = {
        budget_of(name, config, ask, count * block["bytes_per_block"])["kv_cache"]["token_capacity"]
        for count in range(max(1, blocks - 2), blocks + 3)
    }
    if "rounded" in row["notes"]:
        assert min(reached) * 0.999 <= row["kv_tokens"] <= max(reached) * 1.001
    else:
        assert row["kv_tokens"] in reached


def test_every_row_is_accounted_for() -> None:
    """What is not compared has no memory line, no model, or no memory at all."""
    left = set(PRINTED) - set(WITH_MEMORY) - set(SAID_WITHOUT_MEMORY) - UNKNOWN_MODELS - set(OTHER_ENGINES)
    for name in left:
        row = PRINTED[name]
        assert row["avail_kv_gib"] is None or row["avail_kv_gib"] < 0, name


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
