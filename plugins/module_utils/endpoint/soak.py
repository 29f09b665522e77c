# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A soak: mixed traffic for minutes, between two measurements of the speed, with an eye on memory and answers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from . import counting, metrics
from .chat import Request, ask
from .client import Client
from .failure import EndpointError
from .memory import Read, Sampler
from .questions import Question
from .traffic import Plan, Traffic, request_of

_DRAIN_S = 10.0


@dataclass(frozen=True)
class Limits:
    """Failed requests and wrong answers, each; growth and ratio as shares."""

    max_failures: int
    max_memory_growth: float
    min_speed_ratio: float


@dataclass(frozen=True)
class Readers:
    """memory: of the service on the host; gpu_memory: of the cards. None where it cannot be read."""

    memory: Read | None = None
    gpu_memory: Read | None = None


Speeds = Sequence[Mapping[str, Any]]


def usable_questions(client: Client, request: Request, questions: Sequence[Question], timeout: float) -> list[Question]:
    """The questions that the service answers rightly now, at rest; only of these can it be said that they still are.

    Raises ServingError when none is, or when the service does not count rightly.
    """
    try:
        count = ask(client, request, timeout=timeout, stream=True)
        right = [
            question
            for question in questions
            if question.is_right(ask(client, request_of(question, request), timeout=timeout).content)
        ]
    except EndpointError as error:
        raise ServingError("the soak cannot begin", where=client.address.root, why=error.message) from error
    counts = counting.is_right(count.content, cut=count.finish_reason == "length")
    if not right or not counts:
        raise ServingError(
            "the soak cannot begin",
            where=client.address.root,
            why=f"1 to {counting.LAST} came as {count.content[:100]!r}"
            if not counts
            else f"none of {len(questions)} questions is answered rightly even at rest",
            remedy="Give questions that this model answers, or find out with vllm_healthcheck what is wrong",
        )
    return right


def run(
    connect: Callable[[], Client], plan: Plan, readers: Readers, start: Speeds, measure: Callable[[], Speeds], seed: int
) -> dict[str, Any]:
    """The soak's result (shape in vllm_benchmark's RETURN), judged by `judge`. start: the speeds before it."""
    client = connect()
    traffic = Traffic(connect, plan, random.Random(seed))  # noqa: S311 - texts, no secrets
    interval = min(10.0, max(0.5, plan.seconds / 60))
    began = time.monotonic()
    with (
        Sampler(readers.memory, plan.seconds, interval) as memory,
        Sampler(readers.gpu_memory, plan.seconds, interval) as gpu_memory,
    ):
        for worker in traffic.start():
            worker.join()
        seconds = time.monotonic() - began
    left = _left_running(client)
    ratios = [
        {
            "max_concurrency": before["max_concurrency"],
            "start": before["output_throughput"],
            "end": after["output_throughput"],
            "ratio": round(after["output_throughput"] / before["output_throughput"], 4),
        }
        for before, after in zip(start, measure(), strict=True)
    ]
    tally = traffic.tally
    return {
        "seconds": round(seconds, 1),
        "seed": seed,
        "concurrency": plan.concurrency,
        "requests": {**tally.requests, "total": tally.requests.total()},
        "failed_requests": tally.failed,
        "wrong_answers": tally.wrong,
        "evidence": tally.shown,
        "output_throughput": round(tally.tokens / seconds, 3),
        "questions": [question.name for question in plan.questions],
        "requests_left_running": left,
        "speed": ratios,
        "speed_ratio": min(entry["ratio"] for entry in ratios),
        "memory": memory.summary(),
        "gpu_memory": gpu_memory.summary(),
    }


def judge(found: Mapping[str, Any], limits: Limits) -> list[str]:
    """What is beyond the limits, in words; empty when the soak is passed."""
    said = []
    shown = f" (first: {found['evidence'][0]})" if found["evidence"] else ""
    if found["failed_requests"] > limits.max_failures:
        said.append(f"{found['failed_requests']} of {found['requests']['total']} requests failed{shown}")
    if found["wrong_answers"] > limits.max_failures:
        said.append(f"{found['wrong_answers']} answers were wrong that were right at rest{shown}")
    for name in ("memory", "gpu_memory"):
        growth = (found[name] or {}).get("growth", 0.0)
        if growth > limits.max_memory_growth:
            said.append(f"{name} grew by {growth:.1%}, allowed is {limits.max_memory_growth:.1%}")
    if found["speed_ratio"] < limits.min_speed_ratio:
        said.append(f"the speed at the end is {found['speed_ratio']:.0%} of that at the start")
    return said


def _left_running(client: Client) -> int | None:
    """Requests that the engine still works on although nobody waits; None when it does not tell."""
    deadline = time.monotonic() + _DRAIN_S
    while True:
        work = metrics.read_work(client)
        if work is None or work.running is None:
            return None
        if not work.running or time.monotonic() > deadline:
            return int(work.running)
        time.sleep(0.5)
