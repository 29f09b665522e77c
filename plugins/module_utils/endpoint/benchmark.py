# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Speed of an endpoint: tokens from its usage counts, time from the wall clock, and a proof that the text is right."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any

from . import counting
from .chat import Answer, Request, ask
from .failure import EndpointError
from .samples import Repetition, Sample, require
from .speed import outcome, summarise
from .wire import Connection


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


Connect = Callable[[], Connection]


def measure(connect: Connect, request: Request, settings: Settings) -> dict[str, Any]:
    """{runs, stable, notes} (shapes in vllm_benchmark's RETURN).

    Raises ServingError when a number would mean nothing: no request completed, too few of them, no usage counts.
    """
    return outcome([_measure(connect, request, settings, concurrency) for concurrency in settings.concurrency])


def _measure(connect: Connect, request: Request, settings: Settings, concurrency: int) -> dict[str, Any]:
    prompts = settings.prompts(concurrency)
    with ExitStack() as stack:
        connections = [stack.enter_context(closing(connect())) for _number in range(min(concurrency, prompts))]
        warmups = [_repeat(connections, request, concurrency, settings) for _round in range(settings.warmup)]
        for warmup in warmups:
            require(warmup, concurrency, settings.min_success_rate, connections[0].address.root)
        measured = [_repeat(connections, request, prompts, settings) for _round in range(settings.repetitions)]
        for repetition in measured:
            require(repetition, prompts, settings.min_success_rate, connections[0].address.root)
    return summarise(concurrency, measured, [warmup.duration for warmup in warmups])


def _repeat(connections: Sequence[Connection], request: Request, prompts: int, settings: Settings) -> Repetition:
    """Send the requests, each connection one after the other until none is left."""
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(prompts):
        left.put(number)
    samples: list[Sample] = []
    errors: list[str] = []

    def work(connection: Connection) -> None:
        while True:
            try:
                left.get_nowait()
            except queue.Empty:
                return
            try:
                samples.append(sample_of(ask(connection, request, timeout=settings.request_timeout, stream=True)))
            except EndpointError as error:
                errors.append(str(error))

    for connection in connections:
        with suppress(EndpointError):  # the request that needs it says why
            connection.open()
    threads = [threading.Thread(target=work, args=(connection,), daemon=True) for connection in connections]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Repetition(time.monotonic() - began, samples, errors)


def sample_of(answer: Answer) -> Sample:
    right = counting.is_right(answer.content, cut=answer.finish_reason == "length")
    return Sample(
        answer.first_token_s,
        answer.last_token_s,
        answer.prompt_tokens,
        answer.completion_tokens,
        answer.deltas,
        right,
    )
