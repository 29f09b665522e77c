# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cache is said to be made of, and the time that a budget of any family takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

GIB = 1 << 30

Ask = Callable[..., dict[str, Any]]
Config = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nvidia__Kimi-K2.5-NVFP4", ["61 layers x 576 elements x 2 bytes", "not divided by tensor parallelism"]),
        ("Qwen__Qwen3-235B-A22B", ["94 layers x 2 x 4 of 4 key-value heads x 128 elements"]),
        ("openai__gpt-oss-20b", ["12 x a window of 128 tokens of 2,048 bytes", "12 x keys and values", "2 groups"]),
        ("deepseek-ai__DeepSeek-V3.2", ["61 x a latent vector", "61 x an indexer's key (on every card) of 132 bytes"]),
        (
            "nvidia__Qwen3.6-27B-NVFP4",
            [
                "48 x a state of 3,207,168 bytes per request",
                "16 x keys and values",
                "784 tokens (long enough for a state)",
            ],
        ),
    ],
)
def test_words(ask: Ask, published: Config, name: str, words: list[str]) -> None:
    explanation = " ".join(
        ask(published(name), kv_cache_dtype="bfloat16", available_kv_cache_bytes=20 * GIB)["explanation"]
    )
    for each in words:
        assert each in explanation


def test_no_budget_takes_long(ask: Ask, published: Config, capsys: pytest.CaptureFixture[str]) -> None:
    slowest: tuple[float, str] = (0.0, "")
    for name in (
        "google__gemma-3-27b-it",
        "google__gemma-4-26B-A4B",
        "moonshotai__Kimi-K3",
        "nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
        "zai-org__GLM-5.2",
    ):
        start = time.process_time()
        ask(
            published(name),
            tp=8,
            gpu_memory_bytes=95 * GIB,
            weights_bytes=300 * GIB,
            compute_capability="12.0",
            kv_cache_dtype="bfloat16",
        )
        slowest = max(slowest, (time.process_time() - start, name))
    with capsys.disabled():
        print(f"\nslowest of five families: {slowest[0] * 1000:.0f} ms ({slowest[1]})")
    assert slowest[0] < 0.3
