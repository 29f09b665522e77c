# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""From the requests of one concurrency to one entry of `runs`, by the names of vLLM's benchmark result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import ServingError
from .percentiles import mean, percentile
from .samples import Repetition

STABLE_SPREAD = 0.1
PERCENTILES = (90, 95, 99)
_DIGITS = 4


def summarise(concurrency: int, repetitions: Sequence[Repetition], warmup_s: Sequence[float] | None) -> dict[str, Any]:
    """One entry of `runs` (shape in vllm_benchmark's RETURN). Raises ServingError for a number that is not finite."""
    samples = [sample for repetition in repetitions for sample in repetition.samples]
    duration = sum(repetition.duration for repetition in repetitions)
    tokens = sum(repetition.tokens for repetition in repetitions)
    rates = [repetition.tokens / repetition.duration for repetition in repetitions]
    ttft = [1000 * sample.first_token_s for sample in samples if sample.first_token_s is not None]
    tpot = [1000 * sample.tpot_s for sample in samples if sample.tpot_s is not None]
    e2el = [1000 * sample.last_token_s for sample in samples if sample.last_token_s is not None]
    deltas = sum(sample.deltas or 0 for sample in samples)
    right = [sample.right for sample in samples]
    values: dict[str, Any] = {
        "max_concurrency": concurrency,
        "completed": len(samples),
        "failed_requests": sum(len(repetition.errors) for repetition in repetitions),
        "duration": duration,
        "total_input_tokens": sum(sample.prompt_tokens or 0 for sample in samples),
        "total_output_tokens": tokens,
        "request_throughput": len(samples) / duration,
        "output_throughput": tokens / duration,
        **distribution("ttft", ttft),
        **distribution("tpot", tpot),
        **distribution("e2el", e2el),
        "decode_tokens_per_s": 1000 / mean(tpot) if tpot and mean(tpot) > 0 else None,
        "tokens_per_delta": tokens / deltas if deltas else None,
        "warmup_s": None if warmup_s is None else [round(seconds, 3) for seconds in warmup_s],
        "repetitions": [round(rate, 3) for rate in rates],
        "spread": (max(rates) - min(rates)) / percentile(rates, 50),
        "correct": False if False in right else None if None in right else True,
    }
    return {name: _rounded(name, value) for name, value in values.items()}


def distribution(name: str, milliseconds: Sequence[float]) -> dict[str, float | None]:
    """mean, median and the percentiles under vLLM's names; all None without samples."""
    known = len(milliseconds) > 0
    return {
        f"mean_{name}_ms": mean(milliseconds) if known else None,
        f"median_{name}_ms": percentile(milliseconds, 50) if known else None,
        **{f"p{percent}_{name}_ms": percentile(milliseconds, percent) if known else None for percent in PERCENTILES},
    }


def _rounded(name: str, value: Any) -> Any:
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ServingError("nothing was measured", where=name, why="the number is not finite")
    return round(value, _DIGITS)


def outcome(runs: list[dict[str, Any]], notes: Sequence[str] = ()) -> dict[str, Any]:
    """{runs, stable, notes}: stable only when every answer is right and no repetition strays."""
    remarks = [remark for run in runs for remark in _remarks(run)]
    stable = all(run["correct"] is True and run["spread"] <= STABLE_SPREAD for run in runs)
    return {"runs": runs, "stable": stable, "notes": [*notes, *remarks]}


def _remarks(run: dict[str, Any]) -> list[str]:
    at = f"concurrency {run['max_concurrency']}"
    notes = []
    if run["correct"] is False:
        notes.append(f"{at}: invalid, an answer does not count from 1 to 50; the speed of wrong text is no speed")
    if run["spread"] > STABLE_SPREAD:
        notes.append(f"{at}: unstable, repetitions differ by {run['spread']:.0%} of their median: {run['repetitions']}")
    if (run["tokens_per_delta"] or 0) > 1.5:
        notes.append(
            f"{at}: {run['tokens_per_delta']:.1f} tokens arrive per delta; the tpot percentiles say little about pauses"
        )
    if run["failed_requests"]:
        notes.append(f"{at}: {run['failed_requests']} requests failed, which min_success_rate allows")
    return notes
