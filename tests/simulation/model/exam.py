# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tiny Kimi must answer: the battery's questions, its long text and a tool's use, each in both modes.

Each case is asked with and without a system prompt. Nothing here needs torch or an engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .conversations import Message, user, weather_call, weather_tool
from .questions import SYSTEM_PROMPTS, counting
from .texts import TEXT
from .words import CODE_WORDS

BATTERY = Path(__file__).with_name("battery.yml")


@dataclass(frozen=True)
class Case:
    """One request and its right answer: a regular expression for the content, or the calls of tools."""

    name: str
    messages: tuple[Message, ...]
    thinking: bool
    expect: str = ""
    expect_calls: tuple[dict[str, Any], ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    max_tokens: int = 512

    def is_right(self, content: str | None, calls: list[dict[str, Any]]) -> bool:
        """``calls`` holds {id, name, arguments}, the arguments parsed."""
        if self.expect_calls:
            return tuple(calls) == self.expect_calls and not (content or "").strip()
        return not calls and re.search(self.expect, (content or "").strip()) is not None


@cache
def battery() -> dict[str, Any]:
    """battery.yml: a section for each check."""
    sections: dict[str, Any] = yaml.safe_load(BATTERY.read_text(encoding="utf-8"))
    return sections


def questions() -> list[dict[str, Any]]:
    """The questions with one right answer: the battery's section exact_set."""
    entries: list[dict[str, Any]] = battery()["exact_set"]
    return entries


def tool_cases() -> list[Case]:
    """A question that needs the tool, and the answer to the tool's result."""
    question = user("What is the weather in Oslo?")
    call = {"id": "functions.get_weather:0", "name": "get_weather", "arguments": {"city": "Oslo"}}
    result = {
        "role": "tool",
        "tool_call_id": "functions.get_weather:0",
        "content": '{"city": "Oslo", "temperature_c": 7, "sky": "cloudy"}',
    }
    called: Message = {"role": "assistant", "content": "", "tool_calls": weather_call("Oslo")}
    tools = (weather_tool(),)
    return [
        Case("tool call", (question,), False, expect_calls=(call,), tools=tools),
        Case("tool result", (question, called, result), False, "^It is 7 °C and cloudy in Oslo\\.$", tools=tools),
    ]


def code_case(code: str, *, thinking: bool = False) -> Case:
    """The conversation of multi_turn: the code in the first turn, asked for in the last."""
    section = battery()["multi_turn"]
    first, second = section["turns"]
    turns = [user(first.format(code=code)), {"role": "assistant", "content": "OK"}]
    turns += [user(second), {"role": "assistant", "content": "391"}, user(section["ask"])]
    return Case("code word", tuple(turns), thinking, f"^{code}$")


def cases() -> Iterator[Case]:
    """Every question in both modes, with and without a system prompt."""
    sections = battery()
    asked = [
        Case(entry["name"], (user(entry["prompt"]),), False, entry["expect"])
        for entry in (*questions(), *sections["concurrency"]["questions"])
    ]
    asked.append(Case("count", (user(sections["count"]["prompt"]),), False, f"^{counting(sections['count']['last'])}$"))
    asked.append(
        Case("text", (user(sections["degeneration"]["prompt"]),), False, f"^{re.escape(TEXT)}$", max_tokens=1024)
    )
    asked.append(code_case(CODE_WORDS[0]))
    for case in (*asked, *tool_cases()):
        for thinking in (True, False):
            yield replace(case, thinking=thinking)
            system: Message = {"role": "system", "content": SYSTEM_PROMPTS[0]}
            yield replace(case, thinking=thinking, messages=(system, *case.messages), name=f"{case.name}, system")
