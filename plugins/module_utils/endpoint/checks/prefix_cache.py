# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""prefix_cache: one prompt three times: cold, from the prefix cache, and cold again. Engines are known to answer the
first well and the others with garbage, when what they read back from the cache is not what they wrote."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from .. import filler, metrics, raw
from ..check import FAIL, INCONCLUSIVE, NOT_RUN, PASS, Check, Context, shorten
from ..failure import EndpointError
from ..fields import pattern, positive, texts
from ..metrics import Counters
from ..probes import members

DEFAULT: dict[str, Any] = {
    "instruction": "What is the capital of France? Answer in one sentence.",
    "expect": r"(?i)\bparis\b",
    "filler": list(filler.WORDS),
    "prompt_tokens": 600,
    "max_tokens": 32,
}
_MEMBERS: dict[str, type] = {
    "instruction": str,
    "expect": str,
    "filler": list,
    "prompt_tokens": int,
    "max_tokens": int,
}
# A hit computes its last tokens in another batch than a miss did, so the rounding differs and late tokens may, too.
_SAME_TOKENS = 16
# Blocks, and the prompt's last token, are computed again on a hit as well.
_HIT_SHARE = 0.5
_COUNTER_READS = 10
_COUNTER_WAIT_S = 0.1


@dataclass(frozen=True)
class Probe:
    instruction: str
    expect: re.Pattern[str]
    filler: tuple[str, ...]
    prompt_tokens: int
    max_tokens: int


@dataclass(frozen=True)
class _Turn:
    """reused: prompt tokens from the prefix cache, at least; None when it cannot be told. error: instead of a text."""

    name: str
    text: str = ""
    reused: int | None = None
    error: str | None = None

    def __str__(self) -> str:
        if self.error:
            return f"{self.name}: {self.error}"
        told = "unknown how many" if self.reused is None else str(self.reused)
        return f"{self.name}, {told} tokens from the cache: {shorten(self.text)!r}"


def read(section: Any, where: str) -> Probe:
    """Raises ServingError naming the member that is wrong."""
    held = {**DEFAULT, **members(section, where, _MEMBERS)}
    return Probe(
        held["instruction"],
        pattern(held["expect"], f"{where}.expect"),
        texts(held["filler"], f"{where}.filler", least=2),
        positive(held["prompt_tokens"], f"{where}.prompt_tokens"),
        positive(held["max_tokens"], f"{where}.max_tokens"),
    )


def run(context: Context) -> Check:
    """value = right answers, threshold = 3. A hit that cannot be shown proves nothing: inconclusive or not_run."""
    probe: Probe = context.probes["prefix_cache"]
    counters = metrics.read_counters(context.client, timeout=context.timeout(10))
    if counters and counters.prefix_caching is False:
        return _not_run("prefix caching is switched off in the engine (enable_prefix_caching=False in /metrics)")
    limit = context.metrics.get("max_model_len")
    if limit is not None and probe.prompt_tokens + probe.max_tokens > limit:
        return _not_run(f"a prompt of {probe.prompt_tokens} tokens is longer than max_model_len {limit} allows")
    try:
        frame = filler.ask_frame(context, probe.filler, probe.instruction, probe.prompt_tokens)
        if probe.prompt_tokens < frame.smallest:
            return _not_run(f"{probe.prompt_tokens} tokens cannot hold the instruction, which needs {frame.smallest}")
        prompt = frame.prompt(probe.prompt_tokens, context.rng)
        salt, other_salt = filler.salt(context.rng), filler.salt(context.rng)
        cold = _turn(context, probe, "cold", prompt, salt)
        hit = _turn(context, probe, "again", prompt, salt)
        cold_again = _turn(context, probe, "cold under another cache_salt", prompt, other_salt)
    except EndpointError as error:
        if not raw.lacks(error):
            raise
        return _not_run(f"token ids cannot be asked about here: {error}")
    turns = [cold, hit, cold_again]
    wrong = [turn for turn in turns if turn.error or not probe.expect.search(turn.text)]
    status, why = (FAIL, f"expected /{probe.expect.pattern}/") if wrong else _compare(context, probe, *turns)
    evidence = [*([why] if why else []), *(str(turn) for turn in wrong or turns)]
    return Check("prefix_cache", status, len(turns) - len(wrong), len(turns), evidence)


def _not_run(why: str) -> Check:
    return Check("prefix_cache", NOT_RUN, evidence=[why])


def _compare(context: Context, probe: Probe, cold: _Turn, hit: _Turn, cold_again: _Turn) -> tuple[str, str | None]:
    """The status of three right answers, and why it is no pass."""
    words = [match[0] for turn in (cold, hit, cold_again) if (match := probe.expect.search(turn.text))]
    if len(set(words)) > 1:
        return FAIL, f"the answers are different words: {', '.join(map(repr, words))}"
    if hit.reused is None:
        return NOT_RUN, "whether the cache was hit cannot be told: neither /metrics nor usage counts it"
    if hit.reused < _HIT_SHARE * probe.prompt_tokens:
        return INCONCLUSIVE, f"the cache was not hit: {hit.reused} of {probe.prompt_tokens} tokens"
    for other in (hit, cold_again):
        if not _same_start(context, cold.text, other.text):
            return INCONCLUSIVE, f"{cold.name} and {other.name} differ within the first {_SAME_TOKENS} tokens"
    return PASS, None


def _turn(context: Context, probe: Probe, name: str, prompt: list[int], salt: str) -> _Turn:
    before = metrics.read_counters(context.client, timeout=context.timeout(10))
    try:
        completion = raw.complete(
            context.client,
            context.model,
            prompt,
            max_tokens=probe.max_tokens,
            timeout=context.timeout(),
            cache_salt=salt,
        )
    except EndpointError as error:
        if not error.is_one_answer or raw.lacks(error):
            raise
        return _Turn(name, error=str(error))
    reused = completion.cached_tokens
    return _Turn(name, completion.text.strip(), _counted(context, before, len(prompt)) if reused is None else reused)


def _counted(context: Context, before: Counters | None, tokens: int) -> int | None:
    """Tokens of this prompt that the engine's counters say were found; a lower bound when others ask as well.

    What others asked for in between can at most have been found whole. The counters may follow the answer a little.
    """
    if before is None or before.prefix_hits is None or before.prefix_queries is None:
        return None
    for _reading in range(_COUNTER_READS):
        after = metrics.read_counters(context.client, timeout=context.timeout(10))
        if after is None or after.prefix_hits is None or after.prefix_queries is None:
            return None
        asked = after.prefix_queries - before.prefix_queries
        if asked >= tokens:
            return max(0, round(after.prefix_hits - before.prefix_hits - (asked - tokens)))
        time.sleep(_COUNTER_WAIT_S)
    return None


def _same_start(context: Context, one: str, other: str) -> bool:
    if one == other:
        return True
    first, second = (
        raw.tokenize_text(context.client, context.model, text, timeout=context.timeout())[:_SAME_TOKENS]
        for text in (one, other)
    )
    return first == second
