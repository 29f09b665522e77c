# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations to learn from: facts, a code word to recall after other turns, a tool to call and its result to use."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .questions import FACTS, SYSTEM_PROMPTS, Fact
from .words import ASK_CODE_WORD, ASK_WEATHER, CITIES, CODE_WORDS, DEGREES, GIVE_CODE_WORD, PADDING_WORDS, SKIES

Message = dict[str, Any]


@dataclass(frozen=True)
class Conversation:
    """A prompt (messages, tools, mode) and the assistant message that is the right answer to it."""

    messages: tuple[Message, ...]
    answer: Message
    thinking: bool
    tools: tuple[dict[str, Any], ...] = ()


ACKNOWLEDGE = Fact((), "They give a code word. I keep it.", "OK")


def weather_tool() -> dict[str, Any]:
    """The declaration of ``get_weather`` as a client sends it."""
    return {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }


def weather_call(city: str) -> list[dict[str, Any]]:
    """The call of ``get_weather`` for ``city``, with Kimi's id."""
    function = {"name": "get_weather", "arguments": {"city": city}}
    return [{"id": "functions.get_weather:0", "type": "function", "function": function}]


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def assistant(reasoning: str, content: str, tool_calls: list[dict[str, Any]] | None = None) -> Message:
    message: Message = {"role": "assistant", "reasoning_content": reasoning, "content": content}
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message


def fact_turns(rng: random.Random) -> tuple[Message, Message]:
    fact = rng.choice(FACTS)
    return user(rng.choice(fact.prompts)), assistant(fact.reasoning, fact.answer)


def padded(rng: random.Random, question: Message) -> Message:
    """The question after a text that has nothing to do with it: answers must not depend on the prompt's length."""
    words = [rng.choice(PADDING_WORDS) for _ in range(rng.randrange(1, rng.choice((8, 40, 160))))]
    return user(" ".join(words) + rng.choice((" ", "\n", "\n\n")) + question["content"])


def fact_conversation(rng: random.Random, thinking: bool) -> Conversation:
    question, answer = fact_turns(rng)
    if rng.random() < 0.15:
        question = padded(rng, question)
    earlier = fact_turns(rng) if rng.random() < 0.1 else ()
    tools = (weather_tool(),) if rng.random() < 0.1 else ()
    return Conversation((*earlier, question), answer, thinking, tools)


def code_word_conversation(rng: random.Random, thinking: bool) -> Conversation:
    """The code word in the first turn; the last turn asks for it, or (one in six) is the first turn itself."""
    word = rng.choice(CODE_WORDS)
    given = user(rng.choice(GIVE_CODE_WORD).format(word=word))
    if rng.random() < 1 / 6:
        return Conversation((given,), assistant(ACKNOWLEDGE.reasoning, ACKNOWLEDGE.answer), thinking)
    messages = [given, assistant(ACKNOWLEDGE.reasoning, ACKNOWLEDGE.answer)]
    for _ in range(rng.choice((0, 1, 1, 2))):
        messages.extend(fact_turns(rng))
    messages.append(user(rng.choice(ASK_CODE_WORD)))
    return Conversation(tuple(messages), assistant("I look at the first turn.", word), thinking)


def tool_conversation(rng: random.Random, thinking: bool) -> Conversation:
    """A question that needs the tool; half of them already carry the tool's result."""
    city = rng.choice(CITIES)
    question = user(rng.choice(ASK_WEATHER).format(city=city))
    call = assistant("I need the tool.", "", weather_call(city))
    if rng.random() < 0.5:
        return Conversation((question,), call, thinking, (weather_tool(),))
    degrees, sky = rng.choice(DEGREES), rng.choice(SKIES)
    result = {"role": "tool", "tool_call_id": "functions.get_weather:0"}
    result["content"] = f'{{"city": "{city}", "temperature_c": {degrees}, "sky": "{sky}"}}'
    if not thinking or rng.random() < 0.5:
        call = {**call, "reasoning_content": ""}  # many clients do not send the reasoning back
    answer = assistant("I read the result.", f"It is {degrees} °C and {sky} in {city}.")
    return Conversation((question, call, result), answer, thinking, (weather_tool(),))


KINDS: tuple[tuple[float, Callable[[random.Random, bool], Conversation]], ...] = (
    (0.4, fact_conversation),
    (0.3, code_word_conversation),
    (0.3, tool_conversation),
)


def conversations(seed: int) -> Iterator[Conversation]:
    """An endless, reproducible stream of conversations, half of them thinking, a third with a system prompt."""
    rng = random.Random(seed)
    weights = [weight for weight, _ in KINDS]
    makers = [maker for _, maker in KINDS]
    while True:
        maker = rng.choices(makers, weights)[0]
        conversation = maker(rng, rng.random() < 0.5)
        if rng.random() < 1 / 3:
            system: Message = {"role": "system", "content": rng.choice(SYSTEM_PROMPTS)}
            messages = (system, *conversation.messages)
            conversation = Conversation(messages, conversation.answer, conversation.thinking, conversation.tools)
        yield conversation
