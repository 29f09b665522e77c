# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What one request of a benchmark took, whoever measured it, and when such measurements say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import ServingError


@dataclass(frozen=True)
class Sample:
    """A completed request. Times in seconds after it was sent; None: the tool cannot tell.

    deltas: events of the stream that held text
    right:  whether the answer counts from 1 to 50
    """

    first_token_s: float | None
    last_token_s: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    deltas: int | None
    right: bool | None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first: prefill has no part in it, and several tokens may share a delta."""
        if self.first_token_s is None or self.last_token_s is None or (self.completion_tokens or 0) < 2:
            return None
        if self.deltas is not None and self.deltas < 2:
            return None
        return (self.last_token_s - self.first_token_s) / ((self.completion_tokens or 0) - 1)


@dataclass(frozen=True)
class Repetition:
    """One round of requests. duration: seconds of wall time from the first request to the last answer."""

    duration: float
    samples: Sequence[Sample]
    errors: Sequence[str] = field(default=())

    @property
    def tokens(self) -> int:
        return sum(sample.completion_tokens or 0 for sample in self.samples)


def require(done: Repetition, prompts: int, min_success_rate: float, where: str) -> None:
    """A benchmark in which nothing happened is a failure, not a row of zeros."""
    why = None
    if not done.samples:
        why = f"no request of {prompts} completed: {done.errors[0] if done.errors else 'none is reported'}"
    elif len(done.samples) < min_success_rate * prompts:
        lost = prompts - len(done.samples)
        why = f"{lost} of {prompts} requests failed: {done.errors[0] if done.errors else 'they are not reported'}"
    elif uncounted := sum(sample.completion_tokens is None for sample in done.samples):
        why = f"{uncounted} of {len(done.samples)} answers came with no usage counts, and deltas are no tokens"
    elif done.tokens <= 0 or any(sample.first_token_s is None for sample in done.samples):
        why = "the answers hold no tokens"
    if why:
        raise nothing_measured(where, why, "Find out with vllm_healthcheck what is wrong")


def nothing_measured(where: str, why: str, remedy: str | None = None) -> ServingError:
    return ServingError(
        "nothing was measured", where=where, why=why, remedy=remedy, facts={"runs": [], "stable": False}
    )
