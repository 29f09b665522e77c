# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Questions with one right answer: the default set, and the form in which people give their own."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError

MAX_TOKENS = 64
MAX_TOKENS_THINKING = 2048
_KEYS = {"name", "prompt", "messages", "thinking", "max_tokens", "expect"}


@dataclass(frozen=True)
class Question:
    """expect: a regular expression searched in the stripped content of the answer."""

    name: str
    messages: list[dict[str, Any]]
    expect: re.Pattern[str]
    thinking: bool
    max_tokens: int

    @property
    def prompt(self) -> str:
        """The last thing the user says, for reports."""
        said = [message["content"] for message in self.messages if message.get("role") == "user"]
        return said[-1] if isinstance(said[-1], str) else json.dumps(said[-1])

    def is_right(self, content: str) -> bool:
        return self.expect.search(content.strip()) is not None


def load(entries: Any, where: str = "questions") -> list[Question]:
    """Questions from a list of entries. Raises ServingError naming the wrong entry."""
    if not isinstance(entries, list) or not entries:
        raise ServingError("questions must be a list with at least one entry", where=where)
    return [_question(entry, number, where) for number, entry in enumerate(entries, start=1)]


def _question(entry: Any, number: int, where: str) -> Question:
    def wrong(why: str) -> ServingError:
        return ServingError(
            f"question {number} is not usable",
            where=where,
            why=why,
            remedy="Form: name, prompt or messages, thinking, max_tokens, expect (a regular expression)",
        )

    if not isinstance(entry, dict):
        raise wrong("it is not a dictionary")
    if unknown := set(entry) - _KEYS:
        raise wrong(f"unknown keys: {', '.join(sorted(unknown))}")
    if ("prompt" in entry) == ("messages" in entry):
        raise wrong("exactly one of prompt and messages is needed")
    if not isinstance(entry.get("prompt", ""), str):
        raise wrong("prompt is no text")
    messages = entry["messages"] if "messages" in entry else [{"role": "user", "content": entry["prompt"]}]
    if not isinstance(messages, list) or not all(_is_message(message) for message in messages):
        raise wrong("messages must be a list of dictionaries with role and content (a text, or a list of parts)")
    if not any(message["role"] == "user" and message["content"] for message in messages):
        raise wrong("no message of the user says anything")
    thinking = entry.get("thinking", False)
    max_tokens = entry.get("max_tokens", MAX_TOKENS_THINKING if thinking else MAX_TOKENS)
    if not isinstance(thinking, bool) or isinstance(max_tokens, bool):
        raise wrong("thinking must be a boolean, max_tokens a positive integer")
    if not isinstance(max_tokens, int) or max_tokens < 1:
        raise wrong("thinking must be a boolean, max_tokens a positive integer")
    try:
        expect = re.compile(entry["expect"])
    except (KeyError, TypeError, re.error) as error:
        raise wrong(f"expect is no regular expression ({error})") from error
    if expect.search("") is not None:
        raise wrong("expect matches an empty answer, so it could not fail")
    return Question(str(entry.get("name") or f"question {number}"), messages, expect, thinking, max_tokens)


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str | list)
    )


# One legal answer each, short, in instant mode: facts, arithmetic, spelling, order, format, another language.
DEFAULT = [
    {
        "name": "capital",
        "prompt": "What is the capital of France? Answer with one word.",
        "expect": r"(?i)^\W*paris\W*$",
    },
    {
        "name": "product",
        "prompt": "What is 17*23? Answer with the number only.",
        "expect": r"(?<!\d)391\W*$",
    },
    {
        "name": "decimals",
        "prompt": "Which is larger, 9.9 or 9.11? Reply with the number only.",
        "expect": r"^\W*9\.90?\W*$",
    },
    {
        "name": "reversed",
        "prompt": 'Write the word "stressed" backwards.',
        "expect": r"(?i)\bdesserts\b",
    },
    {
        "name": "leap day",
        "prompt": "Which day comes after 28 February 2024?",
        "expect": r"(?i)\b29(?:th)?(?: of)? february\b|\bfebruary 29\b|2024-02-29",
    },
    {
        "name": "echo",
        "prompt": 'Reply with exactly this JSON: {"a": 1}',
        "expect": r'\{\s*"a"\s*:\s*1\s*\}',
    },
    {
        "name": "spelling",
        "prompt": "Spell Mississippi, letters separated by hyphens.",
        "expect": r"(?i)\bm-i-s-s-i-s-s-i-p-p-i\b",
    },
    {
        "name": "power",
        "prompt": "What is 2^10? Reply with the number only.",
        "expect": r"(?<!\d)1,?024\W*$",
    },
    {
        "name": "translation",
        "prompt": "What is the German word for street?",
        "expect": r"(?i)\bstra(?:ß|ss)e\b",
    },
    {
        "name": "order",
        "prompt": "Sort these numbers in ascending order: 42, 7, 19, 3, 88.",
        "expect": r"(?<!\d)3\W+7\W+19\W+42\W+88(?!\d)",
    },
]
