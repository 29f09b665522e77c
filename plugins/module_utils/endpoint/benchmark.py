# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Speed of an endpoint: tokens from its usage counts, time from the wall clock, and a proof that the text is right."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ..errors import ServingError
from . import counting
from .chat import Answer, Request, ask
from .client import Client
from .failure import EndpointError
from .percentiles import mean, percentile

STABLE_SPREAD = 0.1


@dataclass(frozen=True)
class Settings:
    """num_prompts: requests of one repetition; None = as many as the concurrency. timeouts in seconds."""

    concurrency: Sequence[int] = (1,)
    num_prompts: int | None = None
    warmup: int = 1
    repetitions: int = 3
    request_timeout: float = 300.0
    min_success_rate: float = 1.0


@dataclass
class _Repetition:
    duration: float
    answers: list[Answer]
    errors: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(answer.completion_tokens or 0 for answer in self.answers)


def measure(client: Client, request: Request, settings: Settings) -> dict[str, Any]:
    """{runs, stable, notes} (shapes in vllm_benchmark's RETURN).

    Raises ServingError when a number would mean nothing: no request completed, too few of them, no usage counts.
    """
    runs = []
    notes: list[str] = []
    for concurrency in settings.concurrency:
        prompts = settings.num_prompts or concurrency
        warmups = [_repeat(client, request, concurrency, concurrency, settings) for _round in range(settings.warmup)]
        for warmup in warmups:
            _require(warmup, concurrency, settings, client)
        measured = [_repeat(client, request, concurrency, prompts, settings) for _round in range(settings.repetitions)]
        for repetition in measured:
            _require(repetition, prompts, settings, client)
        run = _summary(concurrency, measured)
        run["warmup_s"] = [round(warmup.duration, 3) for warmup in warmups]
        runs.append(run)
        notes += _remarks(run)
    return {
        "runs": runs,
        "stable": all(run["correct"] and run["spread"] <= STABLE_SPREAD for run in runs),
        "notes": notes,
    }


def _repeat(client: Client, request: Request, concurrency: int, prompts: int, settings: Settings) -> _Repetition:
    answers: list[Answer] = []
    errors: list[str] = []

    def one(_number: int) -> Answer | str:
        try:
            return ask(client, request, timeout=settings.request_timeout, stream=True)
        except EndpointError as error:
            return str(error)

    began = time.monotonic()
    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        for outcome in pool.map(one, range(prompts)):
            if isinstance(outcome, Answer):
                answers.append(outcome)
            else:
                errors.append(outcome)
    return _Repetition(time.monotonic() - began, answers, errors)


def _require(done: _Repetition, prompts: int, settings: Settings, client: Client) -> None:
    """A benchmark in which nothing happened is a failure, not a row of zeros."""
    why = None
    if not done.answers:
        why = f"no request of {prompts} completed: {done.errors[0]}"
    elif len(done.answers) < settings.min_success_rate * prompts:
        why = f"{len(done.errors)} of {prompts} requests failed: {done.errors[0]}"
    elif any(answer.completion_tokens is None for answer in done.answers):
        why = "the server sends no usage counts, and deltas are no tokens"
    elif done.tokens <= 0 or any(answer.first_token_s is None for answer in done.answers):
        why = "the answers hold no tokens"
    if why:
        raise ServingError(
            "nothing was measured", where=client.address.root, why=why, facts={"runs": [], "stable": False}
        )


def _summary(concurrency: int, repetitions: Sequence[_Repetition]) -> dict[str, Any]:
    answers = [answer for repetition in repetitions for answer in repetition.answers]
    duration = sum(repetition.duration for repetition in repetitions)
    tokens = sum(repetition.tokens for repetition in repetitions)
    rates = [repetition.tokens / repetition.duration for repetition in repetitions]
    ttft = [1000 * (answer.first_token_s or 0.0) for answer in answers]
    tpot = [value for value in map(_tpot_ms, answers) if value is not None]
    values: dict[str, Any] = {
        "max_concurrency": concurrency,
        "completed": len(answers),
        "failed_requests": sum(len(repetition.errors) for repetition in repetitions),
        "duration": duration,
        "total_input_tokens": sum(answer.prompt_tokens or 0 for answer in answers),
        "total_output_tokens": tokens,
        "request_throughput": len(answers) / duration,
        "output_throughput": tokens / duration,
        "mean_ttft_ms": mean(ttft),
        "median_ttft_ms": percentile(ttft, 50),
        "p99_ttft_ms": percentile(ttft, 99),
        "mean_tpot_ms": mean(tpot) if tpot else None,
        "median_tpot_ms": percentile(tpot, 50) if tpot else None,
        "p99_tpot_ms": percentile(tpot, 99) if tpot else None,
        "mean_e2el_ms": 1000 * mean([answer.seconds for answer in answers]),
        "decode_tokens_per_s": 1000 / mean(tpot) if tpot and mean(tpot) > 0 else None,
        "tokens_per_delta": tokens / max(1, sum(answer.deltas for answer in answers)),
        "repetitions": [round(rate, 3) for rate in rates],
        "spread": (max(rates) - min(rates)) / percentile(rates, 50),
        "correct": all(counting.is_right(a.content, cut=a.finish_reason == "length") for a in answers),
    }
    for name, value in values.items():
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ServingError("nothing was measured", where=name, why="the number is not finite")
            values[name] = round(value, 4)
    return values


def _tpot_ms(answer: Answer) -> float | None:
    """Time per output token after the first: prefill has no part in it, and several tokens may share one delta."""
    if answer.first_token_s is None or answer.last_token_s is None or (answer.completion_tokens or 0) < 2:
        return None
    if answer.deltas < 2:
        return None
    return 1000 * (answer.last_token_s - answer.first_token_s) / ((answer.completion_tokens or 0) - 1)


def _remarks(run: dict[str, Any]) -> list[str]:
    at = f"concurrency {run['max_concurrency']}"
    notes = []
    if not run["correct"]:
        notes.append(f"{at}: invalid, an answer does not count from 1 to 50; the speed of wrong text is no speed")
    if run["spread"] > STABLE_SPREAD:
        notes.append(f"{at}: unstable, repetitions differ by {run['spread']:.0%} of their median: {run['repetitions']}")
    if run["tokens_per_delta"] > 1.5:
        notes.append(
            f"{at}: {run['tokens_per_delta']:.1f} tokens arrive per delta; p99_tpot_ms says little about pauses"
        )
    return notes
