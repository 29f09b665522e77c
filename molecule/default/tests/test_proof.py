# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a deployment is proven: wholly after a start, briefly afterwards, and never by a run that fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from testinfra.host import Host

PROJECT = Path(__file__).resolve().parents[3]
LOG = PROJECT / ".cache/molecule/default.log"
SITE = PROJECT / "playbooks/site.yml"
VARIABLES = PROJECT / "inventories/demo/group_vars/llm_hosts/deployment.yml"
STATE = "/var/lib/blackwell-serving/vllm-kimi"
Converge = Callable[..., Any]


def health_on(host: Host) -> dict[str, Any]:
    record = json.loads(host.file(f"{STATE}/deployment.json").content_string)
    found: dict[str, Any] = record["health"]
    return found


def wrong_questions() -> dict[str, Any]:
    """The demo's questions, of which none has its right answer."""
    line = yaml.safe_load(VARIABLES.read_text())["vllm_service_health_questions"]
    match = re.search(r"'/\.\./\.\./(\S+)'", line)
    assert match
    asked = yaml.safe_load((PROJECT / match[1]).read_text())
    sections: dict[str, Any] = asked if isinstance(asked, dict) else {"exact_set": asked}
    return {**sections, "exact_set": [{**question, "expect": "^Rome$"} for question in sections["exact_set"]]}


def allowed_not_run() -> list[str]:
    names: list[str] = yaml.safe_load(VARIABLES.read_text())["vllm_service_health_allowed_not_run"]
    return names


@pytest.fixture(scope="module")
def health(host: Host) -> dict[str, Any]:
    return health_on(host)


def test_the_running_process_has_passed_the_whole_battery(host: Host, health: dict[str, Any]) -> None:
    """By name and by start: whatever did not pass is what the inventory lists as allowed."""
    allowed = allowed_not_run()
    battery = health["full"]
    statuses = {check["name"]: check["status"] for check in battery["checks"]}
    assert {name for name, status in statuses.items() if status != "pass"} == set(allowed)
    assert all(statuses[name] == "not_run" for name in allowed)
    assert len(statuses) == 15
    process = host.check_output("systemctl show vllm-kimi.service --property=InvocationID --value")
    assert (battery["state"], battery["invocation_id"]) == ("healthy", process)
    assert battery["seed"] > 0


def test_a_converged_run_left_no_quick_battery_on_record(health: dict[str, Any]) -> None:
    assert health.get("quick") is None


def roads() -> list[list[str]]:
    """The lines of each run of the road that was logged."""
    found: dict[str, list[str]] = {}
    for line in LOG.read_text(errors="replace").splitlines():
        if match := re.match(r"\S+ \S+ p=(\d+) u=\S+ n=\S+ \w+\| (.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return [lines for lines in found.values() if any("Prove the answers]" in line for line in lines)]


def test_the_first_run_showed_its_checks_and_the_converged_one_had_nothing_to_show() -> None:
    check, first, converged = ([line for line in lines if line.startswith("demo-host: ")] for lines in roads()[:3])
    assert any(re.match(r"demo-host: waiting for the engine: \w+, ", line) for line in first)
    assert any(re.match(r"demo-host: \w+ \d+/15(, .+)?; \d+ passed", line) for line in first)
    passed = 15 - len(allowed_not_run())
    assert any(re.match(rf"demo-host: {passed} of 15 checks passed in .+; not_run: ", line) for line in first)
    assert check == converged == []


def test_the_report_has_every_check_with_its_evidence(host: Host, health: dict[str, Any]) -> None:
    report = host.file(f"{STATE}/report.md").content_string
    assert f"seed {health['full']['seed']}" in report
    for check in health["full"]["checks"]:
        assert f"| {check['name']} | {check['status']} |" in report


def test_wrong_answers_end_the_road_with_a_report_and_the_next_run_proves_all_again(
    host: Host, converge: Converge
) -> None:
    before = health_on(host)["full"]
    wrong = json.dumps({"vllm_service_health_questions": wrong_questions(), "vllm_service_health_profile": "quick"})
    failed = converge("-e", wrong, playbook=SITE)
    assert failed.status != 0
    assert "is generating, not healthy" in failed.error
    assert "exact_set fail" in failed.error
    found = health_on(host)
    assert found["full"] == before
    assert (found["quick"]["state"], found["quick"]["failed_checks"]) == ("generating", ["exact_set"])
    report = host.file(f"{STATE}/report.md").content_string
    assert "Health: **generating**" in report
    assert report.index("| exact_set | **fail** |") < report.index("| ready | pass |")

    again = converge(playbook=SITE)
    assert again.status == 0, again.output[-3000:]
    assert re.search(r"^demo-host: \w+ \d+/15", again.output, re.M)
    found = health_on(host)
    assert (found["full"]["state"], found["quick"]) == ("healthy", None)
    assert converge(playbook=SITE).changed == []
