# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.filter.questions_problem import questions_problem
from hypothesis import given
from hypothesis import strategies as st

RIGHT: list[Any] = [
    {},
    None,
    {"vision": None, "count": {"last": 20}},
    [{"name": "sum", "prompt": "2 + 2?", "expect": "4"}],
]


@pytest.mark.parametrize("questions", RIGHT)
def test_nothing_is_wrong(questions: Any) -> None:
    assert questions_problem(questions) == ""
    assert questions_problem(json.dumps(questions)) == ""


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ({"cuont": {}}, "did you mean count?"),
        ({"count": {"lst": 9}}, "did you mean last?"),
        ({"count": {"last": "9"}}, "last has the type str"),
        ([{"name": "sum", "prompt": "2 + 2?", "expect": "("}], "question 1 is not usable"),
        (5, "questions must be a dictionary"),
        ("{", "the questions are not JSON"),
    ],
)
def test_what_is_wrong_is_said(questions: Any, said: str) -> None:
    assert said in questions_problem(questions)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_anything_has_an_answer(questions: Any) -> None:
    assert isinstance(questions_problem(questions), str)
