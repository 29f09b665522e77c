# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Budgets asked in one line: the configs of published models, and Kimi on the cards of the first target."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.budget import compute_budget
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import Card
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import Parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.request import BudgetRequest

Ask = Callable[..., dict[str, Any]]
Config = Callable[[str], dict[str, Any]]

DATA = Path(__file__).parents[3] / "data"
MIB = 1 << 20


@pytest.fixture(scope="session")
def published() -> Config:
    """published("nvidia__Kimi-K2.5-NVFP4") -> its config.json (trimmed)."""

    def read(name: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((DATA / "checkpoints" / "configs" / f"{name}.json").read_text())
        return value

    return read


@pytest.fixture(scope="session")
def kimi(published: Config) -> dict[str, Any]:
    return published("nvidia__Kimi-K2.5-NVFP4")


@pytest.fixture(scope="session")
def cut_kimi(kimi: dict[str, Any]) -> Config:
    """cut_kimi("big") -> one of the three measured shapes: Kimi-K2.5 with 3 layers and 64 heads; with the 8 heads and
    the part of an expert that a rank of eight has ("h8"); a tiny one with 2 layers and 4 heads ("tiny")."""
    tiny = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 128, "intermediate_size": 256}
    tiny |= {"moe_intermediate_size": 64, "n_routed_experts": 8, "num_experts_per_tok": 2, "q_lora_rank": 64}
    changes = {
        "big": {},
        "h8": {"num_attention_heads": 8, "num_key_value_heads": 8, "moe_intermediate_size": 256},
        "tiny": {**tiny, "vocab_size": 320},
    }

    def read(name: str) -> dict[str, Any]:
        text = {**kimi["text_config"], "num_hidden_layers": 3, **changes[name]}
        return {"architectures": ["DeepseekV3ForCausalLM"], **text}

    return read


@pytest.fixture(scope="session")
def ask() -> Ask:
    """ask(config, tp=8, dcp=4, version="0.32.0", ...) -> the budget; a refusal raises ServingError."""

    def budget(config: dict[str, Any], **given: Any) -> dict[str, Any]:
        parallel = Parallel(
            given.pop("tp", 1), given.pop("pp", 1), given.pop("dcp", 1), given.pop("enable_expert_parallel", False)
        )
        release = parse_release(given.pop("version", None))
        return compute_budget(BudgetRequest(config=config, parallel=parallel, release=release, **given))

    return budget


@pytest.fixture(scope="session")
def refused(ask: Ask) -> Callable[..., ServingError]:
    """As ask, for a budget that is refused -> the error."""

    def error(config: dict[str, Any], **given: Any) -> ServingError:
        with pytest.raises(ServingError) as caught:
            ask(config, **given)
        return caught.value

    return error


@pytest.fixture(scope="session")
def eight_cards() -> list[Card]:
    """Eight idle RTX PRO 6000: nvidia-smi says 97,887 MiB, of which 638 MiB are reserved and 4 MiB used."""
    total = (97887 - 638) * MIB
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    return [Card(index, name, total, total - 4 * MIB, ()) for index in range(8)]
