# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import metrics, questions
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError

RIGHT = {
    "capital": ["Paris", "Paris.", "**Paris**"],
    "product": ["391", "17*23 = 391."],
    "decimals": ["9.9", "9.90"],
    "reversed": ["desserts", 'The word "stressed" backwards is "desserts".'],
    "leap day": ["29 February 2024", "The day after is February 29, 2024 (a leap year)."],
    "echo": ['{"a": 1}', '```json\n{"a":1}\n```'],
    "spelling": ["M-i-s-s-i-s-s-i-p-p-i"],
    "power": ["1024", "1,024"],
    "translation": ["Straße", "The German word is *Strasse*."],
    "order": ["3, 7, 19, 42, 88", "3\n7\n19\n42\n88"],
}
WRONG = {
    "capital": ["Lyon", "巴黎是 pelo", "Paris Paris"],
    "product": ["1391", "Green window of 4 hours"],
    "decimals": ["9.11", "9.99"],
    "reversed": ["dessert", "stressed"],
    "leap day": ["1 March 2024"],
    "echo": ["{a:1", '{"a": 10}'],
    "spelling": ["M-i-s-s-i-s-i-p-p-i"],
    "power": ["10240", "512"],
    "translation": ["Weg"],
    "order": ["3, 7, 19, 88, 42", "13, 7, 19, 42, 88"],
}


@pytest.mark.parametrize("question", questions.load(questions.DEFAULT), ids=lambda question: question.name)
def test_default_set_tells_right_from_wrong(question: questions.Question) -> None:
    assert all(question.is_right(answer) for answer in RIGHT[question.name])
    assert not any(question.is_right(answer) for answer in [*WRONG[question.name], "", "!" * 40])


def test_a_question_as_messages() -> None:
    entry = {"messages": [{"role": "user", "content": "Hi"}], "expect": "x", "thinking": True}
    (question,) = questions.load([entry])
    assert (question.name, question.prompt, question.thinking, question.max_tokens) == ("question 1", "Hi", True, 2048)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([], "at least one"),
        ({"prompt": "x"}, "must be a list"),
        (["x"], "not a dictionary"),
        ([{"prompt": "x", "expect": "("}], "no regular expression"),
        ([{"prompt": "x"}], "no regular expression"),
        ([{"prompt": "x", "expect": "y", "answer": "z"}], "unknown keys: answer"),
        ([{"expect": "y"}], "exactly one of prompt and messages"),
        ([{"messages": [{"role": "system", "content": "x"}], "expect": "y"}], "no message of the user"),
        ([{"prompt": "x", "expect": "y", "max_tokens": 0}], "positive integer"),
        ([{"prompt": "x", "expect": "y", "max_tokens": True}], "positive integer"),
        ([{"prompt": "x", "expect": ".*"}], "matches an empty answer"),
        ([{"prompt": ["x"], "expect": "y"}], "prompt is no text"),
        ([{"messages": 5, "expect": "y"}], "list of dictionaries"),
        ([{"messages": [{"role": "user", "content": "x"}, "y"], "expect": "y"}], "list of dictionaries"),
        ([{"messages": [{"role": "user", "content": 5}], "expect": "y"}], "list of dictionaries"),
    ],
)
def test_unusable_questions_are_named(source: Any, said: str) -> None:
    with pytest.raises(ServingError, match=said):
        questions.load(source)


def test_metrics_are_summed_over_engines() -> None:
    text = '# HELP x y\nvllm:n{engine="0",m="a b"} 1.5\nvllm:n{engine="1"} 2\nbroken\nx NaNa\nvllm:t_total 7e3 123\n'
    text += "vllm:n NaN\nvllm:i +Inf\n"
    assert metrics.parse(text) == {"vllm:n": 3.5, "vllm:t_total": 7000.0}
