# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights per rank: the tensors of Kimi-K2.5-NVFP4 spread over cards, and the same from the size of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.activation_shape import (
    ActivationShape,
    activation_shape,
)
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import Parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.weights import (
    WeightParts,
    weight_parts,
    weights_of_parts,
    weights_of_size,
)

GIB = 1 << 30
LOADED_BY_THE_ENGINE = 70.81  # GiB per card at TP 8


def nvfp4(rows: int, columns: int) -> int:
    """Two elements per byte and an 8-bit scale per 16 of them."""
    return rows * columns // 2 + rows * columns // 16


def kimi_tensors(layers: int = 61) -> Iterator[tuple[str, int]]:
    """Names and bytes of the checkpoint by its config.json: attention in 16 bits, experts in NVFP4."""
    hidden = 7168
    yield "language_model.model.embed_tokens.weight", 163840 * hidden * 2
    yield "language_model.lm_head.weight", 163840 * hidden * 2
    yield "vision_tower.encoder.blocks.0.wqkv.weight", 900_000_000
    for layer in range(layers):
        name = f"language_model.model.layers.{layer}."
        yield name + "input_layernorm.weight", hidden * 2
        yield name + "self_attn.q_a_proj.weight", hidden * 1536 * 2
        yield name + "self_attn.q_b_proj.weight", 1536 * 64 * 192 * 2
        yield name + "self_attn.kv_a_proj_with_mqa.weight", hidden * 576 * 2
        yield name + "self_attn.kv_b_proj.weight", 512 * 64 * 256 * 2
        yield name + "self_attn.o_proj.weight", 64 * 128 * hidden * 2
        if layer == 0:
            for part in ("gate", "up", "down"):
                yield f"{name}mlp.{part}_proj.weight", hidden * 18432 * 2
            continue
        yield name + "mlp.gate.weight", 384 * hidden * 2
        for part in ("gate", "up", "down"):
            yield f"{name}mlp.shared_experts.{part}_proj.weight", nvfp4(2048, hidden)
            yield f"{name}mlp.experts.0.{part}_proj.weight", 384 * nvfp4(2048, hidden)


@pytest.fixture
def shape(kimi: dict[str, Any]) -> ActivationShape:
    found = activation_shape(kimi)
    assert found is not None
    return found


def gib(parts: WeightParts, shape: ActivationShape, *parallel: Any) -> float:
    return weights_of_parts(parts, shape, Parallel(*parallel))[0] / GIB


def test_what_a_rank_of_eight_loads(kimi: dict[str, Any], shape: ActivationShape) -> None:
    parts = weight_parts(kimi_tensors(), kimi)
    assert parts.total == pytest.approx(591e9, rel=0.005)
    by_tensors = gib(parts, shape, 8)
    by_size = weights_of_size(parts.total, shape, Parallel(8))[0] / GIB
    assert by_tensors == pytest.approx(LOADED_BY_THE_ENGINE, rel=0.005)
    assert by_size == pytest.approx(by_tensors, rel=0.001)
    assert by_tensors > parts.total / 8 / GIB + 1.5  # what every rank holds in full


def test_stages_share_the_layers_and_experts_stay_whole(kimi: dict[str, Any], shape: ActivationShape) -> None:
    parts = weight_parts(kimi_tensors(), kimi)
    assert gib(parts, shape, 1) == pytest.approx(parts.total / GIB)
    two_stages = gib(parts, shape, 4, 2)
    assert gib(parts, shape, 8) * 0.97 < two_stages < gib(parts, shape, 8) * 1.05
    # 384 experts are a multiple of 8, not of 5: a rank then holds 77 whole ones
    assert gib(parts, shape, 8, 1, 1, True) == pytest.approx(gib(parts, shape, 8))
    assert gib(parts, shape, 5, 1, 1, True) > gib(parts, shape, 5)


def test_what_the_engine_does_not_load(kimi: dict[str, Any], shape: ActivationShape) -> None:
    """Draft layers stand behind the model's own; without images no encoder is loaded."""
    with_drafts = [*kimi_tensors(), ("model.layers.61.mlp.experts.0.up_proj.weight", 10**10), ("mtp.fc.weight", 10**9)]
    parts = weight_parts(with_drafts, kimi)
    assert parts.skipped == 11 * 10**9
    assert parts.total == weight_parts(kimi_tensors(), kimi).total
    assert "10.24 GiB of draft layers or encoder are not loaded" in weights_of_parts(parts, shape, Parallel(8))[1]
    assert weight_parts(with_drafts, kimi, drafts=True).skipped == 0
    assert weight_parts(kimi_tensors(), kimi, encoder=False).skipped == 900_000_000


def test_few_key_value_heads_are_repeated(published: Callable[[str], dict[str, Any]]) -> None:
    """Qwen3-30B-A3B has 4: at TP 8 a rank holds a quarter of the keys and values, not an eighth."""
    config = published("Qwen__Qwen3-30B-A3B")
    shape = activation_shape(config)
    assert shape is not None
    parts = weight_parts([("model.layers.0.self_attn.k_proj.weight", 800)], config)
    assert [weights_of_parts(parts, shape, Parallel(size))[0] for size in (1, 2, 4, 8)] == [800, 400, 200, 200]
