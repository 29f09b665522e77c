# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prediction beside the engine's line: equal, or off by a term that is named."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.comparison import difference

GIB = 1 << 30
PREDICTED: dict[str, Any] = {
    "token_capacity": 150_000,
    "available_kv_cache_bytes": 10 * GIB,
    "memory": {"weights": 70 * GIB, "overhead": 3 * GIB, "cuda_graphs": 2 * GIB},
}
MEASURED: dict[str, Any] = {
    "tokens": 150_000,
    "available_bytes": 10 * GIB,
    "weights_bytes": 70 * GIB,
    "cuda_graph_estimated_bytes": 2 * GIB,
}


def test_equal_lines_are_off_by_nothing() -> None:
    found = difference(PREDICTED, MEASURED)
    assert found is not None
    assert (found["tokens"], found["term"]) == (0, None)
    assert found["text"] == "The engine's line is the prediction: 150,000 tokens."


@pytest.mark.parametrize(
    ("measured", "term", "says"),
    [
        ({"weights_bytes": 71 * GIB}, "weights", "the weights: 71.00 GiB instead of 70.00 GiB per card"),
        ({"cuda_graph_estimated_bytes": 3 * GIB}, "cuda_graphs", "the CUDA graphs: 3.00 GiB instead of 2.00 GiB"),
        ({}, "overhead", "the overhead (activations, libraries, NCCL): 4.00 GiB instead of 3.00 GiB"),
    ],
)
def test_the_term_that_was_off(measured: dict[str, Any], term: str, says: str) -> None:
    found = difference(PREDICTED, {**MEASURED, "tokens": 135_000, "available_bytes": 9 * GIB, **measured})
    assert found is not None
    assert (found["tokens"], found["percent"], found["term"]) == (-15_000, -10.0, term)
    assert "The engine says 135,000 tokens, 15,000 fewer than predicted (-10.00 %); off was" in found["text"]
    assert says in found["text"]


def test_other_tokens_of_the_same_memory() -> None:
    found = difference(PREDICTED, {**MEASURED, "tokens": 300_000})
    assert found is not None
    assert found["term"] == "plan"
    assert "150,000 more than predicted (+100.00 %); off was the tokens of the same memory" in found["text"]


def test_a_given_memory_that_was_not_there() -> None:
    given = {"token_capacity": 150_000, "available_kv_cache_bytes": 10 * GIB, "memory": {"weights": None}}
    found = difference(given, {**MEASURED, "tokens": 135_000, "available_bytes": 9 * GIB})
    assert found is not None
    assert found["term"] == "available_kv_cache"
    assert [row["term"] for row in found["terms"]] == ["available_kv_cache"]


def test_what_is_not_known_yet() -> None:
    assert difference(PREDICTED, {**MEASURED, "tokens": None}) is None
    assert difference({}, MEASURED) is None
