# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Text without meaning that makes a prompt as long as it has to be, and prompts of exactly N tokens made of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from . import failure, raw
from .check import Context

# Frequent English words, which tokenizers know as one token; none of them is part of an answer.
WORDS = (
    *("about", "after", "again", "air", "another", "around", "away", "before", "below", "between", "book", "both"),
    *("boy", "came", "change", "children", "city", "close", "cold", "country", "door", "each", "earth", "enough"),
    *("every", "eye", "face", "family", "field", "fire", "food", "found", "garden", "girl", "grow", "hand", "head"),
    *("high", "hill", "home", "house", "keep", "land", "large", "last", "leave", "letter", "life", "light", "line"),
    *("little", "long", "mile", "mountain", "move", "near", "never", "night", "often", "old", "open", "page"),
    *("paper", "part", "people", "place", "plant", "quiet", "rain", "river", "road", "room", "run", "sea", "side"),
    *("sky", "small", "song", "sound", "still", "stone", "story", "summer", "table", "through", "tree", "under"),
    *("walk", "wall", "warm", "water", "while", "white", "wind", "window", "winter", "wood", "work", "year"),
)
# Between the filler and what is asked.
JOIN = "\n\n"
_SHORT_WORDS = 64
_SPARE_TOKENS = 512
_TRIES = 3
_MAX_GROWTH = 4


def text(rng: random.Random, words: Sequence[str], count: int) -> str:
    """So many random words, separated by single spaces."""
    return " ".join(rng.choices(words, k=count))


def salt(rng: random.Random) -> str:
    """A value of cache_salt that no other request has: nothing of its prompt is found in the prefix cache."""
    return f"{rng.getrandbits(128):032x}"


@dataclass(frozen=True)
class Frame:
    """A chat in token ids: what the template puts first, filler, and what is asked with the template's end."""

    prefix: list[int]
    filler: list[int]
    suffix: list[int]
    _starts: set[int] = field(default_factory=set)

    @property
    def smallest(self) -> int:
        """Tokens of the chat without any filler; shorter prompts cannot hold what is asked."""
        return len(self.prefix) + len(self.suffix)

    def prompt(self, tokens: int, rng: random.Random) -> list[int]:
        """A chat of exactly `tokens` tokens, its filler from a random place; of one too short for it, the end."""
        whole = self.prefix + self.suffix
        if tokens < len(whole):
            return whole[-tokens:]
        count = tokens - len(whole)
        start = self._start(len(self.filler) - count + 1, rng)
        return self.prefix + self.filler[start : start + count] + self.suffix

    def _start(self, places: int, rng: random.Random) -> int:
        """A place that no prompt began at before: a server that knows no cache_salt finds nothing in its cache."""
        for _try in range(places):
            start = rng.randrange(places)
            if start not in self._starts:
                break
        self._starts.add(start)
        return start


def ask_frame(context: Context, words: Sequence[str], asked: str, longest: int) -> Frame:
    """The frame of this endpoint's chat in instant mode, from its own tokenizer and template."""
    template = {context.thinking_parameter: False} if context.thinking_parameter else {}

    def tokenize(said: str) -> list[int]:
        messages = [{"role": "user", "content": said}]
        return raw.tokenize_chat(context.client, context.model, messages, template, timeout=context.timeout())

    return frame(tokenize, context.rng, words, asked, longest)


def frame(
    tokenize: Callable[[str], list[int]], rng: random.Random, words: Sequence[str], asked: str, longest: int
) -> Frame:
    """Find the frame around the filler, with filler for prompts of up to `longest` tokens.

    tokenize: the ids of the chat in which the user says this text. Two fillers that begin and end differently are
    compared: what both chats begin and end with is the frame. Raises Untokenized when there is nothing of the kind.
    """
    starts, ends = rng.sample(sorted(set(words)), 2), rng.sample(sorted(set(words)), 2)

    def chat(which: int, count: int) -> list[int]:
        return tokenize(f"{starts[which]} {text(rng, words, count)} {ends[which]}{JOIN}{asked}")

    short = chat(0, _SHORT_WORDS)
    needed = longest + _SPARE_TOKENS
    count = needed
    for _try in range(_TRIES):
        long = chat(1, count)
        before = _common(short, long)
        after = _common(short[before:][::-1], long[before:][::-1])
        if not after:
            raise raw.Untokenized(failure.NOT_OPENAI, "two chats that end alike do not end with the same token ids")
        filler = long[before : len(long) - after]
        if len(filler) >= needed:
            return Frame(long[:before], filler, long[len(long) - after :])
        count = min(count * needed // max(len(filler), 1) + count // 10, _MAX_GROWTH * count)
    raise raw.Untokenized(failure.NOT_OPENAI, f"{count} words become {len(filler)} token ids only")


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many of their first items are the same."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
