# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which battery the role vllm_service runs, and what of it goes on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.blackwell.serving.plugins.filter.pick import FilterModule
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.battery import NAMES

ROLE = Path(__file__).resolve().parents[2] / "roles/vllm_service"
HEALTHY: dict[str, Any] = {"state": "healthy", "checks": [], "failed_checks": [], "metrics": {"seed": 7}, "answers": []}
QUESTIONS = {"count": {"last": 50}}


class Role:
    """The role's variables, with what its tasks would have registered."""

    def __init__(self, **changes: Any) -> None:
        loader = DataLoader()
        self.variables: dict[str, Any] = {"ansible_check_mode": False}
        for name in ("defaults", "vars"):
            self.variables |= loader.load_from_file(f"{ROLE}/{name}/main.yml", trusted_as_template=True)
        self.variables |= {
            "vllm_service_health_questions": QUESTIONS,
            "vllm_service_baseline": False,
            "__vllm_service_reasons": [],
            "__vllm_service_running": {"invocation_id": "a"},
            "__vllm_service_after": {"invocation_id": "a"},
            "__vllm_service_health": HEALTHY,
            "__vllm_service_length_inputs": {"engine": "0.32.0"},
            "__vllm_service_record": {"record": {}},
        }
        self.variables["__vllm_service_record"] = {
            "record": {
                "measured": {"invocation_id": "a", "inputs": {"engine": "0.32.0"}},
                "benchmark": {"runs": []},
                "health": {
                    "full": {"state": "healthy", "invocation_id": "a", "asked": self["asked"]},
                    "quick": None,
                },
            }
        }
        self.variables |= changes

    def __getitem__(self, name: str) -> Any:
        templar = Templar(loader=DataLoader(), variables=self.variables)
        templar.environment.filters["blackwell.serving.pick"] = FilterModule().filters()["pick"]
        return templar.template(self.variables[f"__vllm_service_{name}"])

    def recorded(self, **changes: Any) -> Role:
        """With other values in the record's full battery."""
        self.variables["__vllm_service_record"]["record"]["health"]["full"].update(changes)
        return self


def test_a_process_that_passed_everything_is_asked_briefly_and_recorded_no_more() -> None:
    role = Role()
    assert (role["profile"], role["is_on_record"], role["health_record"]) == ("quick", True, {})


@pytest.mark.parametrize(
    "role",
    [
        Role(__vllm_service_reasons=["it does not run"]),
        Role(__vllm_service_running={"invocation_id": "b"}),
        Role(vllm_service_health_questions={"count": {"last": 20}}),
        Role(vllm_service_health_allowed_not_run=["vision"]),
        Role(vllm_service_thinking_parameter=""),
        Role(__vllm_service_record={"record": {}}),
        Role(__vllm_service_record={"record": {"health": {"full": None, "quick": HEALTHY}}}),
        Role().recorded(state="degraded"),
    ],
)
def test_anything_else_is_proven_wholly(role: Role) -> None:
    assert (role["profile"], role["is_on_record"]) == ("full", False)
    assert role["health_record"]["full"]["state"] == "healthy"
    assert role["health_record"]["quick"] is None


def test_after_a_quick_battery_that_failed_all_is_asked_again() -> None:
    role = Role(__vllm_service_health={**HEALTHY, "state": "generating", "failed_checks": ["count"]})
    assert (role["profile"], role["is_on_record"]) == ("quick", False)
    found = role["health_record"]
    assert list(found) == ["quick"]
    assert (found["quick"]["state"], found["quick"]["failed_checks"]) == ("generating", ["count"])
    role.variables["__vllm_service_record"]["record"]["health"]["quick"] = found["quick"]
    assert role["profile"] == "full"


def test_the_users_own_choice_and_check_mode() -> None:
    assert Role(vllm_service_health_profile="full")["profile"] == "full"
    assert Role(vllm_service_health_profile="quick", __vllm_service_reasons=["x"])["profile"] == "quick"
    assert Role(ansible_check_mode=True, __vllm_service_reasons=["x"])["profile"] == "quick"


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("measured", {"invocation_id": "z", "inputs": {"engine": "0.32.0"}}),
        ("measured", {"invocation_id": "a", "inputs": {"engine": "0.33.0"}}),
        ("benchmark", None),
    ],
)
def test_what_the_record_lacks_is_recorded_without_a_new_result_of_the_battery(section: str, value: Any) -> None:
    role = Role()
    record = role.variables["__vllm_service_record"]["record"]
    record.pop(section)
    if value is not None:
        record[section] = value
    assert (role["profile"], role["is_on_record"], role["health_record"]) == ("quick", False, {})


def test_texts_that_fill_a_context_stay_out_of_the_record() -> None:
    short = {"prompt": "What is 17*23?\nAnswer briefly.", "content": "391", "reasoning": ""}
    filler = {"prompt": "lorem " * 60, "content": "391", "reasoning": ""}
    role = Role(__vllm_service_health={**HEALTHY, "answers": [short, filler, short]})
    assert role["found"]["answers"] == [{"question": short["prompt"], "answer": "391", "reasoning": ""}]
    assert role["found"]["seed"] == 7


def test_a_process_is_compared_once_and_one_that_was_started_anew_is_compared_again() -> None:
    recorded = {"invocation_id": "a", "verdict": "equal"}
    role = Role(vllm_service_baseline=True)
    role.variables["__vllm_service_record"]["record"]["baseline"] = recorded
    assert role["is_compared"] is True
    # The look before the switch still shows the process that was compared.
    role.variables["__vllm_service_reasons"] = ["a setting has changed"]
    assert role["is_compared"] is False


def test_the_role_knows_the_checks_that_need_not_run() -> None:
    specification = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert specification["vllm_service_health_allowed_not_run"]["choices"] == list(NAMES)
