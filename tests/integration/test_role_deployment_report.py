# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role deployment_report, run by ansible-playbook on this machine as a normal user would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.schema import SCHEMA
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.validation import flaws

ROOT = Path(__file__).resolve().parents[2]
RECORD: dict[str, Any] = json.loads((Path(__file__).parent / "deployment.json").read_text())
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  roles: [blackwell.serving.deployment_report]
"""


class Host:
    """A state directory, and the role run against it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.directory = folder / "vllm-kimi"
        self.report = self.directory / "report.md"
        self.picture = self.directory / "memory.svg"

    def record(self, record: dict[str, Any]) -> None:
        self.directory.mkdir(exist_ok=True)
        (self.directory / "deployment.json").write_text(json.dumps(record))

    def run(self, *words: str, **variables: object) -> str:
        playbook = self.root / "play.yml"
        playbook.write_text(PLAYBOOK)
        extra = json.dumps({"deployment_report_state_root": str(self.root), **variables})
        result = subprocess.run(
            [
                Path(sys.executable).parent / "ansible-playbook",
                "-i",
                "localhost,",
                "-c",
                "local",
                "-e",
                extra,
                *words,
                playbook,
            ],
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
                "ANSIBLE_LOCAL_TEMP": str(self.root / "tmp"),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert "[WARNING]" not in result.stderr, result.stderr
        return result.stdout


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def changed(output: str) -> int:
    found = re.search(r"changed=(\d+)", output)
    assert found
    return int(found[1])


def test_the_record_of_this_test_fits_the_schema() -> None:
    assert list(flaws(RECORD, SCHEMA)) == []


def test_a_full_report_and_nothing_new_the_second_time(host: Host) -> None:
    host.record(RECORD)
    copy = host.root / "copy.md"
    predicted = host.run("--check", deployment_report_controller_path=str(copy))
    assert not host.report.exists()
    shown = host.run(deployment_report_controller_path=str(copy))
    assert changed(predicted) == changed(shown) == 4
    text = host.report.read_text()
    assert copy.read_text() == text.replace("](memory.svg)", "](copy.svg)")
    assert (host.root / "copy.svg").read_text() == host.picture.read_text()
    for line in (
        "| 0 | NVIDIA RTX PRO 6000 Blackwell | 12.0 | 97,887 MiB (95.59 GiB) | GPU-0 |",
        "| experts | 384 routed, 8 active, 1 shared |",
        "| shards | 119 of 119 |",
        "| weights | 502.91 GiB (540.00 GB) |",
        '| edit of config.json#/quantization_config/kv_cache_scheme | {"num_bits": 8} -> absent |',
        "- **max_model_len = 131072**: 178,768 tokens fit, 25 % of them are left free",
        "  - not 262144: more than what fits",
        "| KV cache tokens | 178,768 | 178,752 |",
        "| weights, per card | 70.81 GiB | 70.81 GiB |",
        "| overhead (activations, libraries, NCCL), per card | 2.76 GiB | 2.79 GiB |",
        "| CUDA graphs taken off the KV cache, per card | 2.10 GiB | 2.10 GiB |",
        "![Memory of one card](memory.svg)",
        "| `--max-num-seqs 64` | 204,112 |",
        "Difference of measured and predicted tokens: -16 tokens (-0.01 %).",
        "The engine's own line: `GPU KV cache size: 178,752 tokens`",
        "| 4 | no | not yet known |",
        "> A simple fact.",
        "> France: Paris.",
        "> Paris.",
        "State healthy, seed 20261129, start of the engine 4d1f2a.",
        "| vision | not_run | - | - | 0.00 s | the model takes \\| no &lt;images> at all |",
        "| exact_set | pass | 5 | 5 | 2.50 s | Paris |",
        '| length_sweep | pass | {"right": 38, "asked": 38} | all | 20.25 s | 1 to 4096 tokens |',
        "| 1 | 60.24 tok/s | 95.0 ms | not yet known | 16.60 ms | not yet known | yes |",
        "| mixed traffic | 1,800 s, 4 requests at once |",
        "| failed | 1 |",
        "| speed at 1 at once, start and end | 60.24 tok/s, 59.98 tok/s |",
        "| memory of the service, settled and at the end | 10.00 GiB, 10.10 GiB (+1.00 %) |",
        "| | long: timeout: no answer within 300 s |",
        "| answers equal token by token | 10 of 12 |",
        "| log probabilities apart, mean and largest | 0.0121 nats, 0.3180 nats (over 431 tokens) |",
        "| largest move of a choice where answers part | 0.1200 nats |",
        "| what differs most | Explain in three sentences why the sky is blue.:  scatters became  \\| bends |",
        "- memory of the cards that became free: 732.68 GiB",
        "- **fp8_kv**: no MLA kernel for it on this card",
        "| 2026-11-29T16:52:00Z | identity: repo_id |",
        "- **template = {\"a\": \"{{ lookup('pipe', 'id') }}\"}**: a | in {{ braces }}",
    ):
        assert line in text.splitlines()
    assert "uid=" not in text
    for part in ("predicted 178,768 tokens, the engine says 178,752", "reasoning A simple fact. France: Paris."):
        assert part in shown
    assert "60.24 tokens per second" in shown
    assert "1,800 s of mixed traffic: 1 of 1,200 requests failed, 0 answers wrong, 1.00 x as fast at the end" in shown
    assert "Baseline    close: within the limits" in shown
    assert "memory of the cards, settled" not in text
    assert "Health      2 of 3 checks passed, full battery, seed 20261129" in shown
    assert text.index("| vision | not_run") < text.index("| exact_set | pass")
    assert "### Quick battery" not in text
    assert "[WWWW" in shown
    assert "K KV cache of one request of 131,072 tokens   8.58 GiB" in shown
    off = "The engine says 178,752 tokens, 16 fewer than predicted (-0.01 %); off was the overhead"
    assert off in shown
    assert f"- **prediction**: {off}" in text
    before = [path.stat() for path in (host.report, host.picture)]
    assert changed(host.run(deployment_report_controller_path=str(copy))) == 0
    after = [path.stat() for path in (host.report, host.picture)]
    assert [(one.st_ino, one.st_mtime_ns) for one in before] == [(one.st_ino, one.st_mtime_ns) for one in after]


def test_what_the_record_does_not_say_is_not_yet_known(host: Host) -> None:
    host.record({"schema_version": 1, "identity": {"service": "vllm-kimi"}, "history": []})
    shown = host.run()
    text = host.report.read_text()
    assert "| KV cache tokens | not yet known | not yet known |" in text
    assert 'The answer to "What is the capital of France?" is not yet known.' in text
    assert "health not yet known" in shown
    assert not host.picture.exists()


def test_what_failed_stands_first_and_a_quick_battery_that_found_it_before_the_full_one(host: Host) -> None:
    count = {
        "name": "count",
        "status": "fail",
        "value": 4,
        "threshold": 50,
        "evidence": ["expected 5, got 7", 300 * "7"],
    }
    passed = RECORD["health"]["full"]["checks"][0]
    doubtful = {"name": "channels", "status": "inconclusive", "evidence": "no reasoning asked for"}
    quick = {"state": "generating", "seed": 5, "checks": [passed, doubtful, count], "failed_checks": ["count"]}
    host.record({**RECORD, "health": {**RECORD["health"], "quick": quick}})
    shown = host.run()
    text = host.report.read_text()
    assert "Health: **generating**." in text
    assert "State **generating**. Failed checks: count." in text
    rows = [line for line in text.partition("### Quick battery")[2].splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[:2] for row in rows[1:4]] == [
        ["| count", "**fail**"],
        ["| channels", "inconclusive"],
        ["| exact_set", "pass"],
    ]
    assert "| 4 | 50 | not yet known | expected 5, got 7; 777" in rows[1]
    assert text.index("### Quick battery") < text.index("### Full battery")
    assert "health generating" in shown
    assert "1 of 3 checks passed, quick battery, seed 5" in shown
    assert "count: fail, expected 5, got 7; 777" in shown
    assert "> A simple fact." in text.splitlines()  # the full battery's answer


def test_a_dense_model_and_a_prediction_that_came_true(host: Host) -> None:
    checkpoint = {**RECORD["checkpoint"], "experts": None, "quantization": None, "shards": None}
    host.record({**RECORD, "checkpoint": checkpoint, "measured": {"tokens": 178768}})
    shown = host.run()
    text = host.report.read_text()
    assert "| experts | none |" in text
    assert "| shards | not yet known of not yet known |" in text
    assert "61 layers, no experts" in shown
    assert "difference: none, exactly equal" in shown


def test_without_a_record_nothing_is_written(host: Host) -> None:
    for words in (("--check",), ()):
        output = host.run(*words)
        assert "unknown until report" in output
        assert changed(output) == 0
    assert not host.directory.exists()


def test_absent_takes_away_its_own_files_and_no_others(host: Host) -> None:
    host.record(RECORD)
    host.run(deployment_report_show=False)
    other = host.directory / ".someone-else"
    other.touch()
    assert changed(host.run(deployment_report_state="absent")) == 3
    assert list(host.directory.iterdir()) == [other]
    other.unlink()
    assert changed(host.run(deployment_report_state="absent")) == 1
    assert not host.directory.exists()
    assert changed(host.run(deployment_report_state="absent")) == 0
