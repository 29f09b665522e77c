# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""needle: a code at several depths of long prompts is found again. A cold prefill is known to lose what the same
prompt finds in the prefix cache, so every prompt is cold, and none is asked twice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...errors import ServingError
from .. import chat, failure, filler
from ..check import FAIL, INCONCLUSIVE, NOT_RUN, PASS, Check, Context, shown
from ..failure import EndpointError
from ..fields import integers, positive, texts
from ..probes import members

_COLOURS = ("AMBER", "AZURE", "CORAL", "CRIMSON", "INDIGO", "IVORY", "MAROON", "OLIVE", "SCARLET", "VIOLET")
_BIRDS = ("CURLEW", "EAGLE", "FALCON", "GANNET", "HERON", "LINNET", "MAGPIE", "OSPREY", "PLOVER", "RAVEN")
DEFAULT: dict[str, Any] = {
    "sentence": "The secret code is {code}.",
    "ask": "What is the secret code? Answer with the code only.",
    "codes": [f"{colour}-{bird}" for colour in _COLOURS for bird in _BIRDS],
    "filler": list(filler.WORDS),
    "lengths": [30000, 60000, 120000],
    "depths": [0.1, 0.5, 0.9],
    "max_tokens": 32,
}
_MEMBERS: dict[str, type] = {
    "sentence": str,
    "ask": str,
    "codes": list,
    "filler": list,
    "lengths": list,
    "depths": list,
    "max_tokens": int,
}
# Enough words for their mean number of tokens; a prompt made by it may be this much longer than asked.
_SAMPLE_WORDS = 400
_TOLERANCE = 1.03
# An engine that hangs on long prompts would be waited for at every one.
_TIMEOUTS = 3


@dataclass(frozen=True)
class Probe:
    sentence: str
    ask: str
    codes: tuple[str, ...]
    filler: tuple[str, ...]
    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    max_tokens: int

    def prompt(self, words: str, depth: float, code: str) -> str:
        """The code at this share of the words, between paragraphs of its own."""
        parts = words.split(" ")
        cut = round(len(parts) * depth)
        before, after = " ".join(parts[:cut]), " ".join(parts[cut:])
        return filler.JOIN.join(
            part for part in (before, self.sentence.replace("{code}", code), after, self.ask) if part
        )

    def named(self, content: str) -> set[str]:
        """The codes that an answer names. HERON is not named by HERONS, nor by AMBER-HERON where that is a code too."""
        longest_first = sorted(self.codes, key=len, reverse=True)
        return set(re.findall(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", content))


def read(section: Any, where: str) -> Probe:
    """Raises ServingError naming the member that is wrong."""
    held = {**DEFAULT, **members(section, where, _MEMBERS)}
    if "{code}" not in held["sentence"]:
        raise ServingError(f"{where}.sentence is not usable", why="it holds no {code}")
    if not held["ask"].strip():
        raise ServingError(f"{where}.ask is not usable", why="it says nothing")
    depths = held["depths"]
    if not depths or not all(isinstance(depth, int | float) and 0 <= depth <= 1 for depth in depths):
        raise ServingError(f"{where}.depths is not usable", why="it must be a list of shares from 0 to 1")
    return Probe(
        held["sentence"],
        held["ask"],
        texts(held["codes"], f"{where}.codes", least=2),
        texts(held["filler"], f"{where}.filler", least=2),
        integers(held["lengths"], f"{where}.lengths"),
        tuple(float(depth) for depth in depths),
        positive(held["max_tokens"], f"{where}.max_tokens"),
    )


def run(context: Context) -> Check:
    """value = codes found, threshold = codes hidden. The quick profile hides one, in the shortest prompt.

    Without the model's max_model_len, a prompt that the server refuses as too long is left out as well.
    """
    probe: Probe = context.probes["needle"]
    limit = context.metrics.get("max_model_len")
    wanted = sorted(set(probe.lengths))
    fitting = [one for one in wanted if limit is None or one * _TOLERANCE + probe.max_tokens <= limit]
    left_out = [one for one in wanted if one not in fitting]
    notes = [f"left out, longer than max_model_len {limit} allows: {', '.join(map(str, left_out))}"] if left_out else []
    if not fitting:
        return Check("needle", NOT_RUN, evidence=notes)
    places = [(length, depth) for length in fitting for depth in probe.depths]
    if not context.full:
        places = [(fitting[0], context.rng.choice(probe.depths))]
    tokens_per_word = _tokens_per_word(context, probe)
    if tokens_per_word is None:
        return Check("needle", NOT_RUN, evidence=["usage.prompt_tokens is missing, so no prompt's length can be known"])
    search = _Search(context, probe, tokens_per_word)
    for length, depth in places:
        try:
            search.look(length, depth)
        except EndpointError as error:
            if error.kind != failure.TIME_IS_UP or not search.lost:
                raise
            notes.append(f"not asked from {length} tokens, depth {depth:.0%} on: {error.message}")
            break
        if search.timeouts == _TIMEOUTS:
            notes.append(f"given up, requests without an answer: {_TIMEOUTS}")
            break
    status = FAIL if search.lost else INCONCLUSIVE if search.unclear else PASS if search.found else NOT_RUN
    hidden = len(search.lost) + len(search.unclear) + len(search.found)
    evidence = [*search.lost, *search.unclear, *search.found, *search.refused, *notes]
    return Check("needle", status, len(search.found), hidden, evidence)


class _Search:
    """One needle after the other; each has a code and filler of its own."""

    def __init__(self, context: Context, probe: Probe, tokens_per_word: float) -> None:
        self._context = context
        self._probe = probe
        self._tokens_per_word = tokens_per_word
        self.timeouts = 0
        self.found: list[str] = []
        self.lost: list[str] = []
        self.unclear: list[str] = []
        self.refused: list[str] = []

    def look(self, length: int, depth: float) -> None:
        """Hide a code in a prompt of about so many tokens, and ask for it once."""
        context, probe = self._context, self._probe
        code = context.rng.choice(probe.codes)
        words = filler.text(context.rng, probe.filler, max(1, round(length / self._tokens_per_word)))
        messages = [{"role": "user", "content": probe.prompt(words, depth, code)}]
        where = f"{length} tokens, depth {depth:.0%}"
        try:
            answer = context.ask(
                f"needle, {where}",
                messages,
                max_tokens=probe.max_tokens,
                extra={"cache_salt": filler.salt(context.rng)},
            )[0]
        except EndpointError as error:
            if not error.is_one_answer:
                raise
            too_long = error.kind == failure.REJECTED and context.metrics.get("max_model_len") is None
            self.timeouts += error.kind == failure.TIMEOUT
            (self.refused if too_long else self.lost).append(f"{where}: {error}")
            return
        counted = answer.prompt_tokens or length
        context.metrics["longest_prompt_tokens"] = max(counted, context.metrics.get("longest_prompt_tokens", 0))
        seen = f"{where} ({counted} counted): {code} was hidden, {shown(answer)}"
        if answer.spent_budget:
            self.unclear.append(seen)
        else:
            (self.found if probe.named(answer.content) == {code} else self.lost).append(seen)


def _tokens_per_word(context: Context, probe: Probe) -> float | None:
    """As the server counts them. The template's few tokens count with the words, so prompts become rather shorter."""
    words = filler.text(context.rng, probe.filler, _SAMPLE_WORDS)
    request = context.request([{"role": "user", "content": words}], max_tokens=1)
    counted = chat.ask(context.client, request, timeout=context.timeout()).prompt_tokens
    return counted / _SAMPLE_WORDS if counted else None
