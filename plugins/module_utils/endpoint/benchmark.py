# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Speed of an endpoint: tokens from its usage counts, time from the wall clock, and a proof that the text is right."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import counting, failure
from .chat import Answer, Request
from .failure import EndpointError
from .load import Recording, Sender, Target, opened
from .samples import Repetition, Sample, require
from .speed import outcome, summarise


@dataclass(frozen=True)
class Settings:
    """num_prompts: requests of one repetition; None = as many as the concurrency. timeouts in seconds."""

    concurrency: Sequence[int] = (1,)
    num_prompts: int | None = None
    warmup: int = 1
    repetitions: int = 3
    request_timeout: float = 300.0
    min_success_rate: float = 1.0

    def prompts(self, concurrency: int) -> int:
        return self.num_prompts or concurrency


def measure(target: Target, request: Request, settings: Settings) -> dict[str, Any]:
    """{runs, stable, notes} (shapes in vllm_benchmark's RETURN).

    Raises ServingError when a number would mean nothing: no request completed, too few of them, no usage counts.
    """
    runs = [asyncio.run(_measure(target, request, settings, concurrency)) for concurrency in settings.concurrency]
    return outcome(runs)


async def _measure(target: Target, request: Request, settings: Settings, concurrency: int) -> dict[str, Any]:
    prompts = settings.prompts(concurrency)
    root = target.address.root
    async with opened(target) as sender:
        warmups = []
        for _round in range(settings.warmup):  # which opens the connections, too
            warmups.append(await _repeat(sender, request, concurrency, concurrency, settings.request_timeout))
            require(warmups[-1], concurrency, settings.min_success_rate, root)
        measured = []
        for _round in range(settings.repetitions):
            measured.append(await _repeat(sender, request, concurrency, prompts, settings.request_timeout))
            require(measured[-1], prompts, settings.min_success_rate, root)
    return summarise(concurrency, measured, [warmup.duration for warmup in warmups])


async def _repeat(sender: Sender, request: Request, concurrency: int, prompts: int, timeout: float) -> Repetition:
    """Send so many requests, at most `concurrency` of them at once."""
    left = iter(range(prompts))
    recordings: list[Recording] = []
    errors: list[str] = []

    async def work() -> None:
        for _number in left:  # the iterator is shared: each number is taken once
            try:
                recordings.append(await sender.record(request, timeout))
            except EndpointError as error:
                errors.append(str(error))

    began = time.monotonic()
    await asyncio.gather(*(work() for _number in range(min(concurrency, prompts))))
    duration = time.monotonic() - began
    samples = []
    for recording in recordings:
        try:
            samples.append(sample_of(recording.answer(), request.max_tokens))
        except EndpointError as error:
            errors.append(str(error))
    return Repetition(duration, samples, errors)


def sample_of(answer: Answer, max_tokens: int) -> Sample:
    """Raises EndpointError for a count of tokens that cannot be: more than were allowed, or fewer than numbers."""
    right = counting.is_right(answer.content, cut=answer.finish_reason == "length")
    tokens, numbers = answer.completion_tokens, counting.numbers(answer.content) if right else 0
    if tokens is not None and not numbers <= tokens <= max_tokens:
        said = f"usage.completion_tokens is {tokens} for an answer of {numbers} numbers and at most {max_tokens} tokens"
        raise EndpointError(failure.NOT_OPENAI, said)
    return Sample(
        answer.first_token_s,
        answer.last_token_s,
        answer.prompt_tokens,
        answer.completion_tokens,
        answer.deltas,
        right,
    )
