# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunModule = Callable[..., dict[str, Any]]
DECISION = {"name": "max_model_len", "value": 131072, "reason": "fits"}


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, Any]:
    return {
        "service": "vllm-kimi",
        "section": "decisions",
        "data": [DECISION],
        "path": str(tmp_path / "state" / "deployment.json"),
    }


def test_check_predicts_the_real_run_and_a_second_run_changes_nothing(
    run_module: RunModule, arguments: dict[str, Any]
) -> None:
    predicted = run_module("deployment_record", arguments, check=True, diff=True)
    assert not Path(arguments["path"]).exists()
    real = run_module("deployment_record", arguments, diff=True)
    assert predicted["changed"] is real["changed"] is True
    assert predicted["record"]["decisions"] == real["record"]["decisions"] == [DECISION]
    assert real["path"] == arguments["path"]
    assert real["diff"]["before"] == ""
    assert json.loads(real["diff"]["after"]) == real["record"]
    again = run_module("deployment_record", arguments, diff=True)
    assert again["changed"] is False
    assert again["record"] == real["record"]
    assert again["diff"]["before"] == again["diff"]["after"]


def test_reading_needs_the_service_only(run_module: RunModule, arguments: dict[str, Any]) -> None:
    read = {"service": "vllm-kimi", "path": arguments["path"]}
    assert run_module("deployment_record", read)["record"] == {}
    written = run_module("deployment_record", arguments)
    result = run_module("deployment_record", read)
    assert (result["changed"], result["record"]) == (False, written["record"])


def test_several_sections(run_module: RunModule, arguments: dict[str, Any]) -> None:
    several = {
        "service": "vllm-kimi",
        "path": arguments["path"],
        "sections": {"decisions": [DECISION], "measured": {"tokens": 1}},
    }
    predicted = run_module("deployment_record", several, check=True)
    real = run_module("deployment_record", several)
    assert predicted["changed"] is real["changed"] is True
    assert real["record"]["decisions"] == [DECISION]
    assert real["record"]["measured"] == {"tokens": 1}
    assert run_module("deployment_record", several)["changed"] is False
    both = run_module("deployment_record", {**arguments, "sections": {}})
    assert "mutually exclusive" in both["msg"]
    absent = {"service": "vllm-kimi", "path": arguments["path"], "state": "absent", "sections": {}}
    assert "sections has no meaning with state absent" in run_module("deployment_record", absent)["msg"]


def test_absent(run_module: RunModule, arguments: dict[str, Any]) -> None:
    run_module("deployment_record", arguments)
    remove = {"service": "vllm-kimi", "state": "absent", "path": arguments["path"]}
    assert run_module("deployment_record", remove, check=True)["changed"] is True
    assert run_module("deployment_record", remove)["changed"] is True
    assert not Path(arguments["path"]).exists()
    assert run_module("deployment_record", remove)["changed"] is False


def test_an_unknown_section_and_data_without_one(run_module: RunModule, arguments: dict[str, Any]) -> None:
    result = run_module("deployment_record", {**arguments, "section": "decision"})
    assert result["failed"]
    assert "value of section must be one of: identity, plan, decisions" in result["msg"]
    result = run_module("deployment_record", {"service": "vllm-kimi", "data": []})
    assert "missing parameter(s) required by 'data': section" in result["msg"]


def test_data_that_does_not_fit_names_the_pointer(run_module: RunModule, arguments: dict[str, Any]) -> None:
    result = run_module("deployment_record", {**arguments, "data": [{**DECISION, "resaon": "x"}]})
    assert result["failed"]
    assert "/decisions/0/resaon is not known, nearest is reason" in result["msg"]


@pytest.mark.parametrize("inputs", [{"HF_TOKEN": "canary-1234"}, {"line": "Bearer canary-1234567890"}])
def test_a_secret_is_refused_and_comes_back_nowhere(
    run_module: RunModule, arguments: dict[str, Any], inputs: dict[str, str]
) -> None:
    result = run_module("deployment_record", {**arguments, "data": [{**DECISION, "inputs": inputs}]}, diff=True)
    assert "looks like a secret" in result["msg"]
    assert f"/decisions/0/inputs/{next(iter(inputs))}" in result["msg"]
    assert "canary" not in json.dumps(result)
    assert not Path(arguments["path"]).exists()
