# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""logprobs: the log probabilities of an answer are numbers, and those of a model that knows what it says.

logprobs_after: the same once more after the long prompts, because a long context has left engines that wrote NaN for
every prompt that followed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ServingError
from .. import chat, metrics, raw
from ..chat import Answer
from ..check import FAIL, NOT_RUN, PASS, Check, Context, shorten, shown
from ..failure import EndpointError
from ..fields import positive
from ..percentiles import mean
from ..probes import members

DEFAULT: dict[str, Any] = {
    "prompt": "Explain in two sentences why the sky is blue.",
    "max_tokens": 32,
    "min_mean_logprob": -1.5,
}
_MEMBERS: dict[str, type | tuple[type, ...]] = {"prompt": str, "max_tokens": int, "min_mean_logprob": (int, float)}
_TOP = 5
# A log probability is not above 0, but for rounding.
_ROUNDING = 1e-6
# What vLLM writes for minus infinity.
_FLOOR = -9999.0
_SHOWN = 40


@dataclass(frozen=True)
class Probe:
    prompt: str
    max_tokens: int
    min_mean_logprob: float


def read(section: Any, where: str) -> Probe:
    """Raises ServingError naming the member that is wrong."""
    held = {**DEFAULT, **members(section, where, _MEMBERS)}
    least = float(held["min_mean_logprob"])
    if not held["prompt"].strip():
        raise ServingError(f"{where}.prompt is not usable", why="it says nothing")
    if not _FLOOR < least < 0:
        raise ServingError(f"{where}.min_mean_logprob is not usable", why=f"{least} is no mean of log probabilities")
    return Probe(held["prompt"], positive(held["max_tokens"], f"{where}.max_tokens"), least)


def run(context: Context) -> Check:
    """value = mean log probability of the tokens written, threshold = the least that passes."""
    check = _ask(context, "logprobs")
    counted = metrics.read_counters(context.client, timeout=context.timeout(10))
    if counted and counted.corrupted is not None:
        context.metrics["corrupted_requests"] = counted.corrupted
    return check


def run_after(context: Context) -> Check:
    """As `run`; and the engine's own count of requests with NaN, where it counts them, has not risen since."""
    longest = context.metrics.get("longest_prompt_tokens")
    if longest is None:
        why = "no long prompt came before it (length_sweep and needle send them)"
        return Check("logprobs_after", NOT_RUN, evidence=[why])
    check = _ask(context, "logprobs_after")
    check.evidence.append(f"after a prompt of {longest} tokens")
    before = context.metrics.get("corrupted_requests")
    counted = metrics.read_counters(context.client, timeout=context.timeout(10))
    if before is not None and counted and counted.corrupted is not None:
        risen = counted.corrupted - before
        context.metrics["corrupted_requests"] = counted.corrupted
        if risen > 0:
            check.status = FAIL
            check.evidence.insert(0, f"vllm:corrupted_requests has risen by {risen:.0f}: NaN among the logits")
    return check


def _ask(context: Context, name: str) -> Check:
    probe: Probe = context.probes["logprobs"]
    request = context.request(
        [{"role": "user", "content": probe.prompt}],
        max_tokens=probe.max_tokens,
        # a generation_config.json may set a penalty, and then the chosen token is rightly not the most probable one
        extra={"logprobs": True, "top_logprobs": _TOP, "repetition_penalty": 1.0},
    )
    try:
        answer = chat.ask(context.client, request, timeout=context.timeout())
    except EndpointError as error:
        if not error.is_one_answer:
            raise
        if raw.refuses_logprobs(error):
            return Check(name, NOT_RUN, evidence=[f"log probabilities are not given here: {error}"])
        why = f"NaN among the log probabilities: {error}" if raw.says_nan(error) else str(error)
        return Check(name, FAIL, None, probe.min_mean_logprob, [why])
    if not answer.logprobs:
        why = f"the server gives no log probabilities with its answer; {shown(answer)}"
        return Check(name, NOT_RUN, evidence=[why])
    average, problem = judge(answer, probe.min_mean_logprob)
    evidence = [problem] if problem else []
    status = FAIL if problem else PASS
    return Check(name, status, average, probe.min_mean_logprob, [*evidence, shown(answer)])


def judge(answer: Answer, least: float) -> tuple[float | None, str | None]:
    """The mean log probability of the tokens written, None without one, and what is wrong, or None."""
    for number, entry in enumerate(answer.logprobs, start=1):
        if problem := _wrong_entry(entry):
            return None, f"token {number} of {len(answer.logprobs)}, {entry.get('token')!r}: {problem}"
    average = round(mean([raw.number(entry["logprob"]) for entry in answer.logprobs]), 4)
    if missing := _missing(answer):
        return average, missing
    if average < least:
        return (
            average,
            f"the mean log probability is {average}, less than {least}: the model does not know what it says",
        )
    return average, None


def _wrong_entry(entry: Mapping[str, Any]) -> str | None:
    listed = entry.get("top_logprobs")
    best = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    for one in (entry, *best):
        written = one.get("logprob")
        value = raw.number(written)
        if not math.isfinite(value):
            return f"its log probability is {shorten(repr(written), _SHOWN)}"
        if value > _ROUNDING:
            return f"{value} is no log probability (is --logprobs-mode raw_logits set?)"
        if value <= _FLOOR:
            return f"{value} stands for minus infinity"
    if not best:
        return "no most probable tokens came with it"
    if all(one.get("token") != entry.get("token") for one in best):
        return f"it was chosen greedily, but is not among the {len(best)} most probable ones"
    highest = max(raw.number(one["logprob"]) for one in best)
    if raw.number(entry["logprob"]) < highest - _ROUNDING:
        return f"it was chosen greedily at {entry['logprob']}, but the most probable one has {highest}"
    return None


def _missing(answer: Answer) -> str | None:
    """An entry for each token; a server may leave out the one that ends the answer."""
    expected = answer.completion_tokens
    if expected is None or len(answer.logprobs) == expected:
        return None
    if answer.finish_reason == "stop" and len(answer.logprobs) == expected - 1:
        return None
    return f"{len(answer.logprobs)} log probabilities for {expected} tokens"
