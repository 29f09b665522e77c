# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import multi_turn
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation.endpoint.server import Exchange

Run = Callable[..., tuple[Check, Context]]


class Model:
    """It knows what the history that it is sent says."""

    def __init__(self, **changed: str) -> None:
        self.changed = changed
        self.histories: list[list[dict[str, Any]]] = []

    def __call__(self, exchange: Exchange) -> bool:
        messages = exchange.body["messages"]
        self.histories.append(messages)
        said = "OK"
        if exchange.prompt == multi_turn.DEFAULT["ask"]:
            given = re.findall(r"code word is (\w+)", str(messages[0]["content"]))
            said = self.changed.get("last", f"It was **{given[0]}**." if given else "I do not know.")
        elif exchange.prompt.startswith("What"):
            said = self.changed.get("second", "391")
        return exchange.answer(said, "I look." if exchange.thinking else None)


def test_the_code_of_the_first_turn_is_known_in_the_last(run_check: Run) -> None:
    model = Model()
    check, context = run_check(multi_turn, model)
    assert (check.status, check.value, check.threshold) == ("pass", 2, 2)
    assert len(context.answers) == 6
    instant, thinking = model.histories[2], model.histories[5]
    assert [message["role"] for message in instant] == ["user", "assistant"] * 2 + ["user"]
    assert instant[1] == {"role": "assistant", "content": "OK"}
    assert thinking[3] == {"role": "assistant", "content": "391", "reasoning": "I look."}
    assert instant[0] != thinking[0]


def test_quick_and_a_model_without_thinking_hold_one_conversation(run_check: Run) -> None:
    assert len(run_check(multi_turn, Model(), full=False)[1].answers) == 3
    plain = run_check(multi_turn, lambda e: e.answer("OK"), thinking_parameter="")[1]
    assert len(plain.answers) == 3


def test_codes_are_drawn_anew(run_check: Run) -> None:
    drawn = set()
    for seed in range(6):
        model = Model()
        run_check(multi_turn, model, full=False, rng=random.Random(seed))
        drawn.add(model.histories[0][0]["content"])
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"last": "I do not know."}, "found none of the codes"),
        ({"last": "HERONS"}, "found none of the codes"),
        ({"last": " ".join(multi_turn.DEFAULT["codes"])}, "expected"),
        ({"second": "391<|im_end|>"}, "turn 2: special token <|"),
        ({"second": " "}, "turn 2: no answer"),
    ],
)
def test_what_is_lost_fails(run_check: Run, changed: dict[str, str], said: str) -> None:
    check, _context = run_check(multi_turn, Model(**changed))
    assert (check.status, check.value) == ("fail", 0)
    assert said in check.evidence[0]


def test_lost_turns_fail(run_check: Run) -> None:
    def forgets(exchange: Exchange) -> bool:
        exchange.body["messages"] = exchange.body["messages"][-1:]
        return Model()(exchange)

    check, _context = run_check(multi_turn, forgets, full=False)
    assert check.status == "fail"


def test_one_failed_request_is_one_failed_conversation(run_check: Run) -> None:
    model = Model()

    def fails(exchange: Exchange) -> bool:
        if exchange.thinking:
            return exchange.send(500, '{"error": {"message": "shape mismatch"}}')
        return model(exchange)

    check, _context = run_check(multi_turn, fails)
    assert (check.status, check.value) == ("fail", 1)
    assert "thinking on: server_error: HTTP 500: shape mismatch" in check.evidence[0]


CODES = multi_turn.DEFAULT["codes"]


@given(st.sampled_from(CODES), st.text("\"'*. \n:,", max_size=6), st.text("\"'*. \n:,", max_size=6))
@settings(deadline=None)
def test_a_code_is_a_whole_word(code: str, before: str, after: str) -> None:
    assert multi_turn._named(f"{before}{code}{after}", CODES) == [code]
    assert multi_turn._named(f"{before}{code}X{after}", CODES) == []
    assert multi_turn._named(f"{before}{code.lower()}{after}", CODES) == []


@pytest.mark.parametrize(
    "section",
    [
        {"turns": ["Hello"]},
        {"ask": "Is it {code}?"},
        {"codes": ["HERON", "HERON"]},
        {"ask": ""},
        {"max_tokens": 0},
        {"code": ["x"]},
    ],
)
def test_sections_that_are_not_usable(section: Any) -> None:
    with pytest.raises(ServingError, match=r"questions\.multi_turn is not usable"):
        multi_turn.read(section, "questions.multi_turn")
