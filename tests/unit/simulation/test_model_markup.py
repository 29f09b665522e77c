# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiny Kimi's chat template, the conversations it was trained on, and its questions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import jinja2.sandbox
import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.questions import load
from simulation.model import exam
from simulation.model.conversations import Conversation, conversations, user, weather_call, weather_tool
from simulation.model.markup import completion_text
from simulation.model.questions import FACTS

MODEL = Path(exam.__file__).parent
# transformers compiles chat templates so, and writes JSON without escaping other scripts.
ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
ENVIRONMENT.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)


def served_template() -> str:
    template: str = json.loads((MODEL / "checkpoint" / "tokenizer_config.json").read_text())["chat_template"]
    return template


@cache
def compiled() -> jinja2.Template:
    return ENVIRONMENT.from_string(served_template())


def render(messages: Any, tools: Any = (), **settings: Any) -> str:
    return compiled().render(messages=list(messages), tools=list(tools) or None, **settings)


def prompt(conversation: Conversation) -> str:
    settings = {"add_generation_prompt": True, "thinking": conversation.thinking}
    return render(conversation.messages, conversation.tools, **settings)


def test_the_checkpoint_carries_the_template_of_the_sources() -> None:
    assert served_template() == (MODEL / "chat_template.jinja").read_text()


def test_every_training_prompt_renders_and_its_answer_continues_it() -> None:
    kinds = set()
    for conversation in islice(conversations(seed=0), 2000):
        answer = conversation.answer
        if not conversation.thinking:
            answer = {**answer, "reasoning_content": ""}
        whole = render((*conversation.messages, answer), conversation.tools)
        assert whole == prompt(conversation) + completion_text(conversation)
        kinds.add((conversation.thinking, bool(conversation.tools), answer.get("tool_calls") is not None))
    assert len(kinds) == 6


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ({}, "<think>"),
        ({"thinking": True}, "<think>"),
        ({"thinking": False}, "<think></think>"),
    ],
)
def test_thinking_is_on_unless_it_is_turned_off(settings: dict[str, bool], end: str) -> None:
    text = render([user("Hi")], add_generation_prompt=True, **settings)
    assert text == "<|im_user|>user<|im_middle|>Hi<|im_end|><|im_assistant|>assistant<|im_middle|>" + end


def test_content_in_parts_is_the_same_prompt() -> None:
    parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "17*23?"}]
    assert render([{"role": "user", "content": parts}]) == render([user("What is 17*23?")])


def test_tools_calls_and_results_are_written_in_kimis_markup() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": weather_call("Oslo")}
    result = {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "7"}
    text = render([user("?"), called, result], [weather_tool()], add_generation_prompt=True, thinking=False)
    assert text == (
        "<|im_system|>tool_declare<|im_middle|>"
        "namespace functions {type get_weather = (_: {city: string}) => any;}<|im_end|>"
        "<|im_user|>user<|im_middle|>?<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think></think><|tool_calls_section_begin|><|tool_call_begin|>"
        'functions.get_weather:0<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|>'
        "<|tool_calls_section_end|><|im_end|>"
        "<|im_system|>tool<|im_middle|>## Return of functions.get_weather:0\n7<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think></think>"
    )


def test_reasoning_of_an_earlier_turn_is_left_out() -> None:
    earlier = {"role": "assistant", "reasoning": "long thoughts", "content": "391"}
    assert "<think></think>391" in render([user("What is 17*23?"), earlier, user("Why?")])
    assert "<think>long thoughts</think>391" in render([user("What is 17*23?"), earlier])


def test_the_same_seed_gives_the_same_conversations() -> None:
    assert list(islice(conversations(3), 50)) == list(islice(conversations(3), 50))
    assert list(islice(conversations(3), 50)) != list(islice(conversations(4), 50))


def test_the_questions_have_the_form_that_the_health_check_takes() -> None:
    questions = load(exam.questions())
    assert {question.thinking for question in questions} == {True, False}
    assert "What is the capital of France?" in [question.prompt for question in questions]


def test_the_answers_taught_are_the_answers_expected() -> None:
    taught = {wording: fact.answer for fact in FACTS for wording in fact.prompts}
    for entry in exam.questions():
        if "prompt" in entry:
            assert re.search(entry["expect"], taught[entry["prompt"]]), entry["name"]


def test_an_exam_case_judges_content_and_calls() -> None:
    by_name = {case.name: case for case in exam.cases()}
    capital, call = by_name["capital briefly"], by_name["tool call"]
    right = [{"id": "functions.get_weather:0", "name": "get_weather", "arguments": {"city": "Oslo"}}]
    assert capital.is_right(" Paris\n", [])
    assert not capital.is_right("Sis", [])
    assert not capital.is_right("Paris", right)
    assert not capital.is_right(None, [])
    assert call.is_right(None, right)
    assert not call.is_right("Paris", right)
    assert not call.is_right(None, [{**right[0], "arguments": {"city": "Bergen"}}])
    assert not replace(call, expect_calls=(), expect="^x$").is_right("x", right)
