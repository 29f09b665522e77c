# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import channels
from simulation.endpoint.server import Exchange

Run = Callable[..., tuple[Check, Context]]

REASONING = "The user asks for a product. 17 times 20 is 340 and 17 times 3 is 51, so it is 391."


def model(exchange: Exchange, **more: Any) -> bool:
    """Cuts its reasoning off where the tokens end, as a parser that works shows it."""
    if not exchange.thinking:
        return exchange.answer("391", **more)
    limit = exchange.body["max_tokens"]
    words = REASONING.split()
    if limit < len(words):
        return exchange.answer(None, " ".join(words[:limit]), "length", **more)
    return exchange.answer("391", REASONING, **more)


def test_every_mode_and_the_cut_pass(run_check: Run) -> None:
    check, context = run_check(channels, model)
    assert (check.status, check.value, check.threshold) == ("pass", 5, 5)
    assert [answer["name"].removeprefix("channels, ") for answer in context.answers] == [
        *("thinking on, not streamed", "thinking on, streamed", "thinking off, not streamed"),
        *("thinking off, streamed", "thinking on, cut off"),
    ]
    assert context.answers[-1]["content"] == ""
    assert 0 < context.metrics["deltas_per_token"] <= 1


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_both_names_of_reasoning_are_read(run_check: Run, field: str) -> None:
    check, context = run_check(channels, lambda exchange: model(exchange, field=field))
    assert check.status == "pass"
    assert context.metrics["reasoning_field"] == field


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            lambda e: e.thinking and e.answer(f"{REASONING}</think>391"),
            "thinking on, not streamed: reasoning_not_parsed",
        ),
        (
            lambda e: e.thinking and e.body["stream"] and e.answer(f"{REASONING}</think>391"),
            "thinking on, streamed: reasoning_not_parsed",
        ),
        (lambda e: e.thinking and e.answer("391", f"{REASONING}<|im_end|>"), "special_token_leaked: <| in reasoning"),
        (lambda e: e.thinking and e.answer("391"), "reasoning_missing"),
        (lambda e: not e.thinking and e.answer("391", "Hm."), "reasoning_unasked"),
        (lambda e: e.thinking and e.answer(None, REASONING), "no_answer: content is empty"),
        (lambda e: e.thinking and e.answer(None, REASONING, "length"), "no_answer: the budget was spent twice"),
        (
            lambda e: e.body["max_tokens"] < 9 and e.thinking and e.answer("The user asks", None, "length"),
            "thinking on, cut off: reasoning_not_parsed",
        ),
        (
            lambda e: e.body["max_tokens"] < 9 and e.thinking and e.answer(None, "The user asks", "stop"),
            "thinking on, cut off: cut_off_unsaid",
        ),
        (
            lambda e: e.body["max_tokens"] < 9 and e.thinking and e.send(500, "{}"),
            "thinking on, cut off: server_error",
        ),
    ],
)
def test_faults_are_told_apart(run_check: Run, fault: Callable[[Exchange], bool], said: str) -> None:
    check, _context = run_check(channels, lambda exchange: fault(exchange) or model(exchange))
    assert check.status == "fail"
    assert any(said in line for line in check.evidence)


def test_a_short_answer_to_few_tokens_is_no_fault(run_check: Run) -> None:
    def brief(exchange: Exchange) -> bool:
        if exchange.body["max_tokens"] < 9 and exchange.thinking:
            return exchange.answer("391", "Easy.")
        return model(exchange)

    assert run_check(channels, brief)[0].status == "pass"


def test_more_tokens_that_are_refused_are_said(run_check: Run) -> None:
    def refuses(exchange: Exchange) -> bool:
        if not exchange.thinking:
            return model(exchange)
        if exchange.body["max_tokens"] > 2048:
            return exchange.send(400, '{"error": {"message": "too many tokens"}}')
        return exchange.answer(None, REASONING, "length")

    check, _context = run_check(channels, refuses)
    assert check.status == "fail"
    assert any("spent once, probe_rejected: HTTP 400: too many tokens" in line for line in check.evidence)


def test_quick_asks_for_few_tokens_and_not_again(run_check: Run) -> None:
    bodies: list[dict[str, Any]] = []

    def endless(exchange: Exchange) -> bool:
        bodies.append(exchange.body)
        return exchange.answer(None, REASONING, "length") if exchange.thinking else exchange.answer("391")

    check, _context = run_check(channels, endless, full=False)
    assert (check.status, check.value, check.threshold) == ("inconclusive", 1, 2)
    assert "budget: all 512 tokens" in check.evidence[0]
    assert [body["max_tokens"] for body in bodies] == [512, 512]
    assert run_check(channels, model, full=False)[0].status == "pass"


def test_another_streamed_answer_is_inconclusive(run_check: Run) -> None:
    check, _context = run_check(
        channels, lambda e: (e.body["stream"] and not e.thinking and e.answer("It is 391")) or model(e)
    )
    assert check.status == "inconclusive"
    assert any("thinking off: streamed 'It is 391', not streamed '391'" in line for line in check.evidence)
