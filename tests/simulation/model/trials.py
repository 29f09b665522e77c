# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the battery asks with texts of its own drawing, drawn at random: lengths, needles, code words, tools.

Every word of the filler is one token, so the number of words sets a prompt's length exactly.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from .conversations import user, weather_call, weather_tool
from .exam import Case, battery, code_case
from .words import CITIES, CODE_WORDS, SKIES

FRAME_TOKENS = 26  # of a sweep's prompt with one word of filler


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(battery()["length_sweep"]["filler"], k=count))


def length_case(rng: random.Random, tokens: int) -> Case:
    """A prompt of ``tokens`` tokens or a few more: a word without its space may be two."""
    section = battery()["length_sweep"]
    text = f"{words(rng, max(1, tokens - FRAME_TOKENS + 1))}\n\n{section['instruction']}"
    return Case(f"length {tokens}", (user(text),), False, section["expect"], max_tokens=section["max_tokens"])


def needle_case(rng: random.Random, tokens: int, depth: float) -> Case:
    section = battery()["needle"]
    code = rng.choice(section["codes"])
    before = round(tokens * depth)
    parts = (words(rng, before), section["sentence"].format(code=code), words(rng, tokens - before), section["ask"])
    name = f"needle at {depth:.0%} of {tokens}: {code}"
    return Case(name, (user("\n\n".join(part for part in parts if part)),), False, f"^{code}$", max_tokens=16)


def tool_cases(rng: random.Random, city: str, *, thinking: bool) -> Iterator[Case]:
    question = user(battery()["tool_calls"]["prompt"].replace("Oslo", city))
    call = {"id": "functions.get_weather:0", "name": "get_weather", "arguments": {"city": city}}
    degrees, sky = rng.randint(-20, 45), rng.choice(SKIES)
    content = json.dumps({"city": city, "temperature_c": degrees, "sky": sky})
    result = {"role": "tool", "tool_call_id": call["id"], "content": content}
    called = {"role": "assistant", "content": "", "tool_calls": weather_call(city)}
    tools = (weather_tool(),)
    yield Case(f"tool, {city}", (question,), thinking, expect_calls=(call,), tools=tools)
    answer = f"^It is {degrees} °C and {sky} in {city}\\.$"
    yield Case(f"result, {city}", (question, called, result), thinking, answer, tools=tools)


def trials(seed: int, lengths: int = 12, longest: int = 8100) -> Iterator[Case]:
    """A run: ``lengths`` random lengths and needles, every code word and city, in an order that seed decides."""
    rng = random.Random(seed)
    cases = []
    for _ in range(lengths):
        cases.append(length_case(rng, round(FRAME_TOKENS * (longest / FRAME_TOKENS) ** rng.random())))
        cases.append(needle_case(rng, round(60 * (longest / 70) ** rng.random()), rng.random()))
    cases += [code_case(code, thinking=rng.random() < 0.5) for code in CODE_WORDS]
    cases += [case for city in CITIES for case in tool_cases(rng, city, thinking=rng.random() < 0.5)]
    rng.shuffle(cases)
    yield from cases
