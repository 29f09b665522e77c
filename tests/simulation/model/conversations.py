# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations to learn from: facts, a code word to recall or to find, a tool and its result.

Every maker takes the number of filler words that its conversation carries: answers must not depend on the prompt's
length.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .questions import FACTS, SYSTEM_PROMPTS, Fact
from .texts import ASK_TEXT, TEXT, TEXT_REASONING
from .words import ASK_CODE_WORD, ASK_WEATHER, GIVE_CODE_WORD, HIDE_CODE_WORD, SKIES, city, code_word, filler

Message = dict[str, Any]
SEPARATORS = ("\n\n", "\n\n", "\n\n", "\n", " ", " ", ". ", "")
BORDER = "\0"  # where tokens do not join: a client that counts tokens puts a prompt together from pieces of them


@dataclass(frozen=True)
class Conversation:
    """A prompt (messages, tools, mode) and the assistant message that is the right answer to it."""

    messages: tuple[Message, ...]
    answer: Message
    thinking: bool
    tools: tuple[dict[str, Any], ...] = ()


Maker = Callable[[random.Random, bool, int], Conversation]
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


def padding(rng: random.Random, words: int) -> str:
    """Filler, half of it cut as by somebody who counts tokens, and what parts it from what follows."""
    if not words:
        return ""
    text = filler(rng, words)
    if rng.random() < 0.5:
        text = f" {text}"[rng.randrange(5) : len(text) - rng.randrange(4)] + BORDER
    return text + rng.choice(SEPARATORS)


def fact_conversation(rng: random.Random, thinking: bool, words: int) -> Conversation:
    question, answer = fact_turns(rng)
    if words and rng.random() < 0.5:  # what the sweep over lengths asks
        fact = FACTS[1]
        question, answer = user(fact.prompts[0]), assistant(fact.reasoning, fact.answer)
    question = user(padding(rng, words) + question["content"])
    earlier = fact_turns(rng) if rng.random() < 0.1 else ()
    tools = (weather_tool(),) if rng.random() < 0.1 else ()
    return Conversation((*earlier, question), answer, thinking, tools)


def text_conversation(rng: random.Random, thinking: bool, words: int) -> Conversation:
    """The long text, without filler: it has to fit."""
    return Conversation((user(rng.choice(ASK_TEXT)),), assistant(TEXT_REASONING, TEXT), thinking)


def code_word_conversation(rng: random.Random, thinking: bool, words: int) -> Conversation:
    """The code word in the first turn; the last turn asks for it, or (one in six) is the first turn itself."""
    word = code_word(rng)
    given = user(rng.choice(GIVE_CODE_WORD).format(word=word))
    if not words and rng.random() < 1 / 6:
        return Conversation((given,), assistant(ACKNOWLEDGE.reasoning, ACKNOWLEDGE.answer), thinking)
    messages = [given, assistant(ACKNOWLEDGE.reasoning, ACKNOWLEDGE.answer)]
    for number in range(rng.choice((1, 2)) if words else rng.choice((0, 1, 1, 2, 3))):
        question, answer = fact_turns(rng)
        messages += [user(padding(rng, 0 if number else words) + question["content"]), answer]
    messages.append(user(rng.choice(ASK_CODE_WORD)))
    return Conversation(tuple(messages), assistant("I look at the first turn.", word), thinking)


def later_turn_conversation(rng: random.Random, thinking: bool, words: int) -> Conversation:
    """A question after other turns, of which the first may give a code word that this one does not ask for."""
    earlier: list[Message] = []
    if rng.random() < 0.6:
        given = user(rng.choice(GIVE_CODE_WORD).format(word=code_word(rng)))
        earlier += [given, assistant(ACKNOWLEDGE.reasoning, ACKNOWLEDGE.answer)]
    for _ in range(rng.choice((0, 1, 2)) if earlier else rng.choice((1, 2, 3))):
        earlier += fact_turns(rng)
    question, answer = fact_turns(rng)
    return Conversation((*earlier, question), answer, thinking)


def needle_conversation(rng: random.Random, thinking: bool, words: int) -> Conversation:
    """The code word in a sentence at any depth of the filler, asked for at its end."""
    word = code_word(rng)
    before = rng.randint(0, words)
    hidden = padding(rng, before) + rng.choice(HIDE_CODE_WORD).format(word=word)
    text = hidden + rng.choice((" ", "\n", "\n\n")) + padding(rng, words - before)
    return Conversation((user(text + rng.choice(ASK_CODE_WORD)),), assistant("I look into the text.", word), thinking)


def tool_conversation(rng: random.Random, thinking: bool, words: int) -> Conversation:
    """A question that needs the tool; half of them already carry the tool's result."""
    name = city(rng)
    question = user(padding(rng, words) + rng.choice(ASK_WEATHER).format(city=name))
    call = assistant("I need the tool.", "", weather_call(name))
    if rng.random() < 0.5:
        return Conversation((question,), call, thinking, (weather_tool(),))
    degrees, sky = rng.randint(-20, 45), rng.choice(SKIES)
    result = {"role": "tool", "tool_call_id": "functions.get_weather:0"}
    result["content"] = f'{{"city": "{name}", "temperature_c": {degrees}, "sky": "{sky}"}}'
    if not thinking or rng.random() < 0.5:
        call = {**call, "reasoning_content": ""}  # many clients do not send the reasoning back
    answer = assistant("I read the result.", f"It is {degrees} °C and {sky} in {name}.")
    return Conversation((question, call, result), answer, thinking, (weather_tool(),))


KINDS: dict[Maker, float] = {
    fact_conversation: 0.4,
    code_word_conversation: 0.2,
    needle_conversation: 0.15,
    tool_conversation: 0.25,
}
# The tokenizer is learnt from KINDS alone, so what is added here leaves it as it is.
SHORT_KINDS: dict[Maker, float] = {**KINDS, later_turn_conversation: 0.25}
MIDDLE_KINDS: dict[Maker, float] = {**SHORT_KINDS, text_conversation: 0.06}
LONG_KINDS: dict[Maker, float] = {
    fact_conversation: 0.4,
    code_word_conversation: 0.1,
    needle_conversation: 0.4,
    tool_conversation: 0.1,
}


def draw(rng: random.Random, kinds: dict[Maker, float], words: int) -> tuple[Maker, Conversation]:
    """One conversation and its maker: half of them think, a third has a system prompt."""
    maker = rng.choices(list(kinds), list(kinds.values()))[0]
    conversation = maker(rng, rng.random() < 0.5, words)
    if rng.random() < 1 / 3:
        system: Message = {"role": "system", "content": rng.choice(SYSTEM_PROMPTS)}
        messages = (system, *conversation.messages)
        conversation = Conversation(messages, conversation.answer, conversation.thinking, conversation.tools)
    return maker, conversation


def conversations(seed: int) -> Iterator[Conversation]:
    """An endless, reproducible stream of short conversations."""
    rng = random.Random(seed)
    while True:
        yield draw(rng, KINDS, rng.choice((0, 0, 0, rng.randint(1, 60))))[1]
