# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever config.json holds: a budget, or a refusal that says where; never a traceback."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.budget import compute_budget
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import read_cards
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.families.architectures import ARCHITECTURES
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import Parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.request import BudgetRequest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CONFIGS = Path(__file__).parents[3] / "data" / "checkpoints" / "configs"
GIB = 1 << 30
PUBLISHED = {path.stem: json.loads(path.read_text()) for path in sorted(CONFIGS.glob("*.json"))}
# One per family, and the ones with the strangest fields.
BASES = (
    "nvidia__Kimi-K2.5-NVFP4", "deepseek-ai__DeepSeek-V3.2", "deepseek-ai__DeepSeek-V4-Flash", "zai-org__GLM-5.2",
    "moonshotai__Kimi-K3", "Qwen__Qwen3.5-27B", "Qwen__Qwen3-Next-80B-A3B-Instruct", "MiniMaxAI__MiniMax-M3",
    "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia__Llama-3_3-Nemotron-Super-49B-v1",
    "google__gemma-3-27b-it", "google__gemma-4-26B-A4B", "openai__gpt-oss-20b", "XiaomiMiMo__MiMo-V2-Flash",
    "meta-llama__Llama-4-Scout-17B-16E-Instruct", "stepfun-ai__Step-3.7-Flash", "Qwen__Qwen3-VL-8B-Instruct",
)  # fmt: skip

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([0, 1, -1, 3, 7, 128, 1 << 62, "auto", "full_attention", "sliding_attention", "M*-E"]),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=6,
)


def budget(config: Any, **given_options: Any) -> None:
    request = BudgetRequest(
        config=config,
        release=parse_release("0.33.0"),
        parallel=Parallel(2),
        available_kv_cache_bytes=20 * GIB,
        **given_options,
    )
    try:
        compute_budget(request)
    except ServingError as error:
        assert error.where or error.why, str(error)


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    """A published configuration with one to three fields that are something else, at any depth."""
    config: dict[str, Any] = copy.deepcopy(PUBLISHED[draw(st.sampled_from(BASES))])
    for _change in range(draw(st.integers(1, 3))):
        place: Any = config
        for _level in range(2):
            nested = [name for name, value in place.items() if isinstance(value, dict) and value]
            goes_down: bool = draw(st.booleans())
            if nested and goes_down:
                place = place[draw(st.sampled_from(sorted(nested)))]
        names = sorted(place)
        if names:
            name = draw(st.sampled_from(names))
            if draw(st.integers(0, 5)) == 0:
                del place[name]
            else:
                place[name] = draw(anything)
    return config


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(changed())
def test_a_changed_configuration(config: dict[str, Any]) -> None:
    budget(config)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(changed(), st.sampled_from(["mtp", "eagle3", "draft_model", "ngram", "x"]), anything)
def test_a_changed_configuration_with_drafts(config: dict[str, Any], method: str, draft: Any) -> None:
    budget(config, speculative_config={"method": method, "num_speculative_tokens": 2, "draft_config": draft})


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(ARCHITECTURES)), st.dictionaries(st.text(max_size=10), anything, max_size=6))
def test_an_invented_configuration(architecture: str, fields: dict[str, Any]) -> None:
    budget({**fields, "architectures": [architecture]})


@pytest.mark.parametrize("name", ["architectures", "num_hidden_layers", "hidden_size", "max_position_embeddings"])
@pytest.mark.parametrize("value", [None, 0, -1, "8", [], {}, True, 1.5, [8], {"a": 1}])
def test_fields_that_everything_needs(name: str, value: Any) -> None:
    config = {**PUBLISHED["Qwen__Qwen3-8B"], name: value}
    with pytest.raises(ServingError) as caught:
        compute_budget(BudgetRequest(config=config, available_kv_cache_bytes=GIB, release=parse_release("0.33.0")))
    assert name in str(caught.value) or "architecture" in str(caught.value) or "head" in str(caught.value)


def card() -> dict[str, Any]:
    """One card as gpu_info has it."""
    mib = 1 << 20
    memory = {"total_bytes": 97887 * mib, "reserved_bytes": 638 * mib, "used_bytes": 4 * mib}
    memory |= {"free_bytes": 97245 * mib, "torch_total_bytes": 97249 * mib}
    process = {"pid": 1, "unit": "x.service", "used_bytes": 3 * mib, "name": "python"}
    named = {"index": 0, "name": "NVIDIA RTX PRO 6000", "compute_capability": "12.0", "mig": False}
    return {**named, "memory": memory, "processes": [process]}


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([*card(), *card()["memory"], "used", "unit"]),
    anything | st.sampled_from(["[N/A]", "97887 MiB", "[Not Supported]", float("nan")]),
)
def test_cards_with_a_cell_that_is_something_else(field: str, value: Any) -> None:
    changed_card = card()
    if field in changed_card["memory"]:
        changed_card["memory"][field] = value
    elif field in ("used", "unit"):
        changed_card["processes"][0]["used_bytes" if field == "used" else field] = value
    else:
        changed_card[field] = value
    try:
        cards = read_cards([changed_card], ["x.service"])
        compute_budget(
            BudgetRequest(
                config=PUBLISHED["Qwen__Qwen3-8B"],
                release=parse_release("0.33.0"),
                cards=cards,
                weights_bytes=16 * GIB,
                compute_capability=changed_card["compute_capability"],
            )
        )
    except ServingError as error:
        assert error.where or error.why, str(error)
