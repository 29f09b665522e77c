# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a broken engine makes of a right text, as reports of real deployments show it."""

from __future__ import annotations

import random
import re

SPECIAL_TOKENS = ("<|im_end|>", "<|tool_calls_section_begin|>", "</think>")
# Real words of several languages: such an answer has the length and the letters of ordinary text, and no meaning.
SALAD = (
    *("green", "window", "of", "four", "hours", "inside", "knots", "lemon", "the", "banana", "under", "paper"),
    *("river", "engine", "slowly", "and", "seven", "carried", "stone", "because", "yellow", "march", "without"),
    *("olvas", "negyed", "lampa", "sakte", "kveld", "puerta", "noche", "livre", "toujours", "strada", "vecchio"),
    *("window", "between", "harvest", "quiet", "borrow", "plain", "candle", "through", "never", "sailor", "corn"),
)
_NUMBER = re.compile(r"\d+")


def bang(text: str, rng: random.Random, tokens: int) -> str:
    """NaN logits from a random place on: token 0, which is "!", until the budget is used."""
    return text[: rng.randrange(len(text) // 2 + 1)] + "!" * tokens


def loop(text: str, rng: random.Random, tokens: int) -> str:
    """From a random place on, one fragment of the text again and again."""
    words = text.split(" ")
    at = rng.randrange(len(words))
    fragment = words[at : at + rng.randint(1, 4)]
    return " ".join([*words[:at], *(fragment * (tokens // len(fragment)))])


def salad(text: str, rng: random.Random) -> str:
    """As many words as the right text has, at least three, and none of them belongs there."""
    return " ".join(rng.choice(SALAD) for _ in range(max(3, len(text.split()))))


def wrong_digit(text: str, rng: random.Random) -> str:
    """The same text with one digit of its last number changed; a text without a number stays."""
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return text
    at = rng.randrange(*numbers[-1].span())
    return text[:at] + str((int(text[at]) + rng.randint(1, 9)) % 10) + text[at + 1 :]


def miscounted(text: str, rng: random.Random) -> str:
    """One number left out or said twice; a text without a number stays."""
    numbers = list(re.finditer(r"\s*\d+", text))
    if not numbers:
        return text
    start, end = rng.choice(numbers).span()
    return text[:start] + text[start:end] * rng.choice((0, 2)) + text[end:]


def leak(text: str, rng: random.Random) -> str:
    """A special token at a random place."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(SPECIAL_TOKENS) + text[at:]


def tail_of(text: str, other: str, rng: random.Random) -> str:
    """The beginning of one answer and the end of another."""
    at = rng.randrange(len(text) // 2 + 1)
    return text[:at] + other[len(other) // 2 :]
