# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role kimi_model makes of the engine's answer, and what it records of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLE = Path(__file__).resolve().parents[2] / "roles/kimi_model"
DECISION = {
    "kv_cache_dtype": "auto",
    "must_patch": False,
    "stored_as": "fp8_e4m3",
    "why": "as published, the checkpoint asks for fp8_e4m3",
    "decided_by": None,
}


def templated(expression: str, **variables: Any) -> Any:
    return Templar(loader=DataLoader(), variables=variables).template(trust_as_template(expression))


def tasks(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROLE / "tasks" / name).read_text())
    return found


def arguments(file: str, module: str) -> dict[str, Any]:
    found: dict[str, Any] = next(task[module] for task in tasks(file) if module in task)
    return found


@pytest.mark.parametrize(
    ("answer", "supported"),
    [
        ({"supported_kv_cache_dtypes": ["bfloat16"], "unanswered": {}, "possible": {}}, ["bfloat16"]),
        ({"supported_kv_cache_dtypes": [], "unanswered": {"bfloat16": ["a"]}, "possible": {}}, ["bfloat16"]),
        ({"supported_kv_cache_dtypes": [], "unanswered": {"fp8": ["a"]}, "possible": {"fp8": ["B"]}}, []),
    ],
)
def test_what_the_sources_do_not_tell_is_not_refused(answer: dict[str, Any], supported: list[str]) -> None:
    asked = arguments("decide.yml", "blackwell.serving.checkpoint_info")["kv_cache_decision"]["supported"]
    assert templated(asked, __kimi_model_attention=answer) == supported


@pytest.mark.parametrize("module", ["quant_config_patch", "checkpoint_info"])
def test_the_files_are_adapted_by_the_rules_they_were_decided_by(module: str) -> None:
    install = {"site_packages": "/venv/packages", "version": "0.33.0"}
    asked = arguments("adapt.yml", f"blackwell.serving.{module}")
    decided = arguments("decide.yml", "blackwell.serving.checkpoint_info")
    for name, value in install.items():
        option = {"version": "vllm_version"}.get(name, name)
        for options in (asked, decided):
            assert templated(options[option], vllm_install_result=install) == value


@pytest.mark.parametrize(
    ("asked", "overrides_flag", "value", "flag"),
    [
        ({}, False, "fp8_e4m3", "auto"),
        ({"vllm_service_kv_cache_dtype": "auto"}, False, "fp8_e4m3", "auto"),
        ({"vllm_service_kv_cache_dtype": "bfloat16"}, False, "bfloat16", "bfloat16"),
        ({"vllm_service_kv_cache_dtype": "bfloat16"}, True, "fp8_e4m3", "bfloat16"),
    ],
)
def test_the_record_has_the_flag_that_the_service_passes(
    asked: dict[str, str], overrides_flag: bool, value: str, flag: str
) -> None:
    names = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    (recorded,) = names["__kimi_model_decisions"]
    variables = {
        **asked,
        "kimi_model_kv_cache": "checkpoint",
        "__kimi_model_decision": DECISION,
        "__kimi_model_checkpoint": {"quantization": {"kv_cache": {"overrides_flag": overrides_flag}}},
    }
    variables["__kimi_model_flag"] = templated(names["__kimi_model_flag"], **variables)
    assert templated(recorded["value"], **variables) == value
    assert f"Flag: --kv-cache-dtype {flag};" in templated(recorded["reason"], **variables)
