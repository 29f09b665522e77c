# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""multi_turn: what was said in the first turn is known in the last, with the model's real answers between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ServingError
from .. import probes, special_tokens
from ..check import FAIL, PASS, Check, Context, shown
from ..failure import EndpointError
from ..questions import MAX_TOKENS_THINKING

DEFAULT: dict[str, Any] = {
    "turns": ["The code word is {code}. Please remember it.", "What is 17*23? Answer with the number only."],
    "ask": "What was the code word? Reply with the word only.",
    "codes": [
        *("HERON", "FALCON", "OSPREY", "PELICAN", "MAGPIE", "CURLEW", "PLOVER", "KESTREL", "LAPWING", "PUFFIN"),
        *("GANNET", "LINNET", "AMBER", "AZURE", "CORAL", "CRIMSON", "INDIGO", "IVORY", "MAROON", "SCARLET"),
    ],
    "max_tokens": 64,
}


@dataclass(frozen=True)
class Probe:
    """turns: what the user says, one of them with {code}; ask: the last turn; codes: where {code} is drawn from."""

    turns: tuple[str, ...]
    ask: str
    codes: tuple[str, ...]
    max_tokens: int


def read(section: Any, where: str) -> Probe:
    known: dict[str, Any] = {"turns": list, "ask": str, "codes": list, "max_tokens": int}
    given = {**DEFAULT, **probes.members(section, where, known)}
    turns = tuple(str(turn) for turn in given["turns"])
    codes = tuple(dict.fromkeys(str(code) for code in given["codes"]))
    if not any("{code}" in turn for turn in turns) or "{code}" in given["ask"]:
        raise ServingError(f"{where} is not usable", why="turns must give {code}, and ask must ask for it")
    if len(codes) < 2 or not given["ask"].strip() or given["max_tokens"] < 1:
        raise ServingError(
            f"{where} is not usable", why="it needs two codes or more, what to ask, and max_tokens of at least 1"
        )
    return Probe(turns, given["ask"], codes, given["max_tokens"])


def run(context: Context) -> Check:
    """value = conversations with the right code, threshold = conversations.

    In instant mode the history holds contents only. The full profile holds a second conversation with thinking on,
    whose reasoning goes back too, as from clients that append the whole message.
    """
    probe: Probe = context.probes["multi_turn"]
    modes = [False, True] if context.full and context.thinking_parameter else [False]
    codes = context.rng.sample(probe.codes, len(modes))
    right = 0
    evidence: list[str] = []
    for thinking, code in zip(modes, codes, strict=True):
        mode = f"thinking {'on' if thinking else 'off'}"
        try:
            problem, seen = _converse(context, probe, code, thinking=thinking)
        except EndpointError as error:
            if not error.is_one_answer:
                raise
            problem, seen = str(error), ""
        if problem:
            evidence.insert(0, f"{mode}: {problem}{seen and f', {seen}'}")
        else:
            right += 1
            evidence.append(f"{mode}: {code}, {seen}")
    return Check("multi_turn", PASS if right == len(modes) else FAIL, right, len(modes), evidence)


def _converse(context: Context, probe: Probe, code: str, *, thinking: bool) -> tuple[str | None, str]:
    """What is wrong, or None, and the answer in which it is seen."""
    history: list[dict[str, Any]] = []
    turns = [*(turn.replace("{code}", code) for turn in probe.turns), probe.ask]
    for number, turn in enumerate(turns, start=1):
        history.append({"role": "user", "content": turn})
        answer = context.ask(
            f"multi_turn, turn {number}, thinking {'on' if thinking else 'off'}",
            list(history),
            max_tokens=max(probe.max_tokens, MAX_TOKENS_THINKING) if thinking else probe.max_tokens,
            thinking=thinking,
        )[-1]
        if markup := special_tokens.leaked(answer.content):
            return f"turn {number}: special token {markup} in the answer", shown(answer)
        if not answer.content.strip():
            return f"turn {number}: no answer", shown(answer)
        history.append(answer.as_message(with_reasoning=thinking))
    named = _named(answer.content, probe.codes)
    if named != [code]:
        return f"expected {code} from turn 1, found {', '.join(named) or 'none of the codes'}", shown(answer)
    return None, shown(answer)


def _named(content: str, codes: Sequence[str]) -> list[str]:
    """The codes in the text, as whole words."""
    return [code for code in codes if re.search(rf"(?<!\w){re.escape(code)}(?!\w)", content)]
