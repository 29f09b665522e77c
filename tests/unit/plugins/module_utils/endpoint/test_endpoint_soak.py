# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, counting, memory, soak
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.chat import Request
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.memory import Samples
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.questions import load
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.soak import Limits, Readers
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.traffic import KINDS, Plan
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given
from hypothesis import strategies as st
from simulation.endpoint.server import QUESTIONS, Endpoint, Exchange, delta

REQUEST = Request("kimi", [{"role": "user", "content": counting.PROMPT}], 512, thinking=False)
ASKED = load(QUESTIONS)
LIMITS = Limits(0, 0.05, 0.9)
SECONDS = 0.6


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        running.metrics = lambda: "vllm:num_requests_running 0\n"
        yield running


def speeds(*rates: float) -> list[dict[str, Any]]:
    return [{"max_concurrency": 1, "output_throughput": rate} for rate in rates]


def run(endpoint: Endpoint, readers: Readers | None = None, end: float = 100.0, **changed: Any) -> dict[str, Any]:
    plan = Plan(
        **{
            "seconds": SECONDS,
            "concurrency": 3,
            "request_timeout": 5,
            "long_words": 40,
            "request": REQUEST,
            "questions": ASKED,
            **changed,
        }
    )

    def client() -> Client:
        return Client(address.parse(endpoint.url))

    return soak.run(client, plan, readers or Readers(), speeds(100.0), lambda: speeds(end), seed=1)


def test_a_sound_service_passes(endpoint: Endpoint) -> None:
    found = run(endpoint, Readers(lambda: 1000, lambda: 2000))
    assert soak.judge(found, LIMITS) == []
    assert set(found["requests"]) == {*KINDS, "total"}
    assert found["requests"]["total"] == sum(found["requests"][kind] for kind in KINDS) > 8
    assert (found["failed_requests"], found["wrong_answers"], found["evidence"]) == (0, 0, [])
    assert (found["requests_left_running"], found["speed_ratio"]) == (0, 1.0)
    assert found["output_throughput"] > 0
    assert (found["memory"]["growth"], found["gpu_memory"]["end_bytes"]) == (0.0, 2000)
    assert found["questions"] == ["capital", "product"]
    assert SECONDS <= found["seconds"] < 5


def test_no_reader_is_no_memory(endpoint: Endpoint) -> None:
    found = run(endpoint)
    assert (found["memory"], found["gpu_memory"]) == (None, None)
    assert soak.judge(found, LIMITS) == []


def test_long_prompts_are_new_each_time_and_bounded(endpoint: Endpoint) -> None:
    prompts: list[str] = []

    def note(exchange: Exchange) -> bool:
        if "occur most often" in exchange.prompt:
            prompts.append(exchange.prompt)
        return False

    endpoint.fault = note
    run(endpoint)
    assert len(set(prompts)) == len(prompts) > 1
    assert all(10 <= len(prompt.split()) - 6 <= 41 for prompt in prompts)


CONTENTS: list[tuple[str, Callable[[Exchange], bool], str]] = [
    ("failed", lambda e: e.send(500, '{"error": "boom"}'), r"\d+ of \d+ requests failed \(first: \w+: server_error"),
    ("wrong", lambda e: e.answer("Sis"), r"\d+ answers were wrong that were right at rest"),
    ("in the stream", lambda e: e.stream('data: {"error": {"message": "boom"}}\n\n'), "requests failed"),
    ("no end", lambda e: e.stream(delta({"content": "1"})), "requests failed"),
]


@pytest.mark.parametrize(("name", "fault", "said"), CONTENTS)
def test_faults_are_counted(endpoint: Endpoint, name: str, fault: Callable[[Exchange], bool], said: str) -> None:
    endpoint.fault = lambda exchange: (
        exchange.path.endswith("completions") and exchange.number % 4 == 0 and fault(exchange)
    )
    found = run(endpoint)
    problems = soak.judge(found, LIMITS)
    assert len(problems) == 1, name
    assert re.search(said, problems[0])
    assert 1 <= len(found["evidence"]) <= 5
    assert soak.judge(found, Limits(10_000, 0.05, 0.9)) == []


def test_a_server_that_went_away_is_not_hammered(endpoint: Endpoint) -> None:
    gone = Endpoint()
    with gone.running():
        pass
    began = time.monotonic()
    found = run(gone, seconds=1.0)
    assert found["failed_requests"] == found["requests"]["total"] < 40
    assert time.monotonic() - began < 5
    assert found["requests_left_running"] is None


def test_slower_at_the_end(endpoint: Endpoint) -> None:
    found = run(endpoint, end=80.0)
    assert found["speed"] == [{"max_concurrency": 1, "start": 100.0, "end": 80.0, "ratio": 0.8}]
    assert soak.judge(found, LIMITS) == ["the speed at the end is 80% of that at the start"]


def test_memory_that_grows(endpoint: Endpoint) -> None:
    sizes = count(1000, 100)
    found = run(endpoint, Readers(lambda: next(sizes)), seconds=2.0)
    assert found["memory"]["peak_bytes"] > found["memory"]["start_bytes"] == 1000
    assert soak.judge(found, LIMITS)[0].startswith("memory grew by ")
    assert soak.judge({**found, "gpu_memory": found["memory"], "memory": None}, LIMITS)[0].startswith("gpu_memory grew")


def test_a_reader_that_fails_is_an_error(endpoint: Endpoint) -> None:
    def fail() -> int:
        raise OSError("gone")

    with pytest.raises(ServingError, match="can no longer be read: gone"):
        run(endpoint, Readers(fail))


def test_memory_of_the_first_requests_is_no_growth() -> None:
    early = Samples(100.0, [(0.0, 100), (10.0, 400), (30.0, 500), (45.0, 500), (80.0, 500), (100.0, 505)])
    assert early.summary() == {
        "start_bytes": 100,
        "settled_bytes": 500,
        "end_bytes": 502,
        "peak_bytes": 505,
        "growth": 0.004,
    }
    assert Samples(10.0).summary() is None
    assert Samples(10.0, [(0.0, 7)]).summary() == {
        "start_bytes": 7,
        "settled_bytes": 7,
        "end_bytes": 7,
        "peak_bytes": 7,
        "growth": 0.0,
    }


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50))
def test_the_summary_lies_within_the_readings(values: list[int]) -> None:
    found = Samples(len(values), [(float(at), value) for at, value in enumerate(values)]).summary()
    assert found is not None
    assert min(values) <= found["settled_bytes"] <= max(values)
    assert found["peak_bytes"] == max(values)


def test_only_what_is_right_at_rest_is_asked(endpoint: Endpoint) -> None:
    client = Client(address.parse(endpoint.url))
    asked = load([*QUESTIONS, {"name": "unknown", "prompt": "What is 2+2?", "expect": "^4$"}])
    assert [question.name for question in soak.usable_questions(client, REQUEST, asked, 5)] == ["capital", "product"]
    with pytest.raises(ServingError, match="none of 1 questions"):
        soak.usable_questions(client, REQUEST, asked[2:], 5)
    endpoint.fault = lambda exchange: exchange.prompt == counting.PROMPT and exchange.answer("1 2 4")
    with pytest.raises(ServingError, match="came as '1 2 4'"):
        soak.usable_questions(client, REQUEST, asked, 5)
    endpoint.fault = lambda exchange: exchange.send(401, "{}")
    with pytest.raises(ServingError, match="the soak cannot begin"):
        soak.usable_questions(client, REQUEST, asked, 5)


def test_requests_left_running_are_told(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "_DRAIN_S", 0.2)
    endpoint.metrics = lambda: "vllm:num_requests_running 2\n"
    assert run(endpoint)["requests_left_running"] == 2


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("system.slice/kimi.service", "anon 4096\nfile 9\nshmem 100\n"),
        ("memory/system.slice/kimi.service", "rss 1\ntotal_rss 4096\ntotal_shmem 100\ntotal_cache 9\n"),
    ],
)
def test_memory_of_a_control_group(tmp_path: Path, folder: str, text: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "memory.stat").write_text(text)
    read = memory.of_control_group("/system.slice/kimi.service", cgroups=tmp_path)
    assert read is not None
    assert read() == 4196
    assert memory.of_control_group("/system.slice/other.service", cgroups=tmp_path) is None


def test_memory_of_processes_counts_the_descendants() -> None:
    """A parent whose child holds 64 MiB of its own."""
    child = "import sys; held = bytearray(64 << 20); print('ready', flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    read = memory.of_processes(process.pid)
    assert 64 << 20 < read() < 200 << 20
    process.communicate()
    with pytest.raises(ServingError, match="is gone"):
        read()
