# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.serving.plugins.filter.unknown_role_variables import unknown_role_variables

SPECS: dict[str, dict[str, Any]] = {
    "vllm_service": {"argument_specs": {"main": {"options": {"vllm_service_port": {}, "vllm_service_gpus": {}}}}},
    "gpu_cleanup": {"argument_specs": {"main": {"options": {"gpu_cleanup_units": {}}}, "look": {}}},
}


def test_a_typing_error_is_found_with_the_name_that_was_meant() -> None:
    names = ["vllm_service_prot", "vllm_service_port", "gpu_cleanup_unit", "inventory_hostname"]
    assert unknown_role_variables(names, SPECS) == [
        {"name": "gpu_cleanup_unit", "nearest": "gpu_cleanup_units"},
        {"name": "vllm_service_prot", "nearest": "vllm_service_port"},
    ]


def test_nothing_like_it() -> None:
    assert unknown_role_variables(["gpu_cleanup_zzzzzzzzzzzzzzzzzzzzzzzzzzz"], SPECS)[0]["nearest"] is None


def test_facts_and_internals_are_known() -> None:
    names = ["vllm_service_result", "__vllm_service_x", "vllm_servicemesh"]
    assert unknown_role_variables(names, SPECS, allowed=["vllm_service_result"]) == []


def test_every_entry_point_counts() -> None:
    specs = {"gpu_cleanup": {"argument_specs": {"main": {"options": {}}, "retire": {"options": {"gpu_cleanup_x": {}}}}}}
    assert unknown_role_variables(["gpu_cleanup_x"], specs) == []


@pytest.mark.parametrize("spec", [{}, {"argument_specs": None}, {"argument_specs": {"main": None}}, "text"])
def test_a_spec_that_is_none_is_refused_with_its_role(spec: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="vllm_service is no parsed"):
        unknown_role_variables(["vllm_service_port"], {"vllm_service": spec})
