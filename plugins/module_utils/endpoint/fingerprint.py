# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What an engine answers to fixed prompts, token by token with log probabilities: the fingerprint of its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ServingError
from .chat import Request, ask
from .client import Client
from .failure import EndpointError
from .percentiles import percentile

TOP_LOGPROBS = 5
MAX_TOKENS = 48
# Long enough that attention crosses many blocks of the KV cache, short enough for a context of 4,096 bytes.
_LONG = " ".join(
    f"On day {day} the harbour log notes {3 * day + 2} ships, {day % 7} of them under sail, and wind from the "
    f"{('north', 'east', 'south', 'west')[day % 4]}."
    for day in range(1, 26)
)
# What is right does not matter here, only that it stays the same; so a model that knows none of it will do too.
PROMPTS = (
    "What is the capital of France?",
    "Count from 1 to 50.",
    "What is 17*23? Explain each step.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "List the planets of the solar system in order, with one fact for each.",
    "Translate into German: The ship leaves the harbour at noon.",
    'Answer with JSON only: an object with the keys "name", "year" and "tags" for the film Metropolis.',
    "Explain in three sentences why the sky is blue.",
    "用中文写一句关于海的句子。",
    "Write the first eight lines of a poem about a lighthouse.",
    "Which is heavier, a kilogram of iron or a kilogram of feathers, and why do people get it wrong?",
    f"{_LONG}\n\nSummarise the log above and name the day with the most ships.",
)


@dataclass(frozen=True)
class Fingerprint:
    """One answer, greedy. top: for each token the most likely ones there, {token: log probability}."""

    prompt: str
    tokens: list[str]
    logprobs: list[float]
    top: list[dict[str, float]]
    finish_reason: str | None

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Observation:
    """tokens_per_s: the median over the prompts, prefill included."""

    answers: list[Fingerprint]
    tokens_per_s: float


def observe(client: Client, requests: Sequence[Request], *, timeout: float) -> Observation:
    """Ask one request after the other, the first one twice, as the first may be slow.

    Raises ServingError when the endpoint fails, or gives no finite log probabilities.
    """
    answers, rates = [], []
    for number, request in enumerate([requests[0], *requests]):
        prompt = str(request.messages[-1]["content"])
        try:
            answer = ask(client, request, timeout=timeout)
        except EndpointError as error:
            raise ServingError(
                "the endpoint cannot be compared with its baseline",
                where=client.address.root,
                why=f"{prompt[:60]!r}: {error.message}",
            ) from error
        if not answer.logprobs:
            raise ServingError(
                "the endpoint gives no log probabilities",
                where=client.address.root,
                why=f"{prompt[:60]!r} was answered without them",
                remedy="A baseline needs logprobs and top_logprobs of the chat completions API",
            )
        if number:
            answers.append(_fingerprint(prompt, answer.logprobs, answer.finish_reason, client.address.root))
            rates.append(len(answer.logprobs) / answer.seconds)
    return Observation(answers, round(percentile(rates, 50), 3))


def _fingerprint(prompt: str, entries: Sequence[dict[str, Any]], finish: str | None, where: str) -> Fingerprint:
    try:
        tokens = [_text(entry["token"]) for entry in entries]
        logprobs = [_finite(entry["logprob"]) for entry in entries]
        top = [{_text(o["token"]): _finite(o["logprob"]) for o in entry.get("top_logprobs") or ()} for entry in entries]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ServingError(
            "the log probabilities are not usable", where=where, why=f"{prompt[:60]!r}: {error or type(error).__name__}"
        ) from error
    return Fingerprint(prompt, tokens, logprobs, top, finish)


def _text(value: Any) -> str:
    """Half of a surrogate pair, which JSON can hold and a file cannot, becomes a question mark."""
    return str(value).encode(errors="replace").decode()


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    return round(float(value), 5)
