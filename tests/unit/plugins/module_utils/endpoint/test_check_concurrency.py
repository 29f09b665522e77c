# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import questions
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import concurrency
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.endpoint.server import Exchange

Run = Callable[..., tuple[Check, Context]]

CAPITALS = {"Norway": "Oslo", "Japan": "Tokyo", "Italy": "Rome", "Spain": "Madrid", "Peru": "Lima"}
SECTION = {
    "levels": [4, 6],
    "questions": [
        {"name": country, "prompt": f"Capital of {country}?", "expect": rf"\b{capital}\b"}
        for country, capital in CAPITALS.items()
    ],
}


def capital(exchange: Exchange) -> str:
    return next((capital for country, capital in CAPITALS.items() if country in exchange.prompt), "Paris")


class Crowd:
    """Holds every answer back for a moment, and knows how many requests are in flight."""

    def __init__(self, change: Callable[[Exchange, list[Exchange]], str | None], hold: float = 0.05) -> None:
        self.change = change
        self.hold = hold
        self.lock = threading.Lock()
        self.flying: list[Exchange] = []
        self.seen: list[dict[str, Any]] = []
        self.most = 0

    def __call__(self, exchange: Exchange) -> bool:
        with self.lock:
            self.flying.append(exchange)
            self.seen.append(exchange.body)
            self.most = max(self.most, len(self.flying))
        time.sleep(self.hold)
        with self.lock:
            others = [other for other in self.flying if other is not exchange]
            said = self.change(exchange, others)
            self.flying.remove(exchange)
        if said is None:
            return exchange.send(500, '{"error": {"message": "tile is empty"}}')
        return exchange.answer(said)


def test_right_answers_at_every_level_pass(run_check: Run) -> None:
    crowd = Crowd(lambda exchange, others: capital(exchange))
    check, context = run_check(concurrency, crowd, SECTION)
    assert (check.status, check.value, check.threshold) == ("pass", 4 + 6 + 8, 4 + 6 + 8)
    flown = context.metrics["concurrency"]["in_flight"]
    assert list(flown) == ["4", "6", "8"]
    assert crowd.most > 1
    assert all(1 < most <= int(level) for level, most in flown.items())
    assert context.metrics["concurrency"]["preemptions"] is None
    assert len({body["cache_salt"] for body in crowd.seen}) == len(crowd.seen) == 5 + 18
    assert all(body["max_tokens"] == 64 for body in crowd.seen)
    quick, _context = run_check(concurrency, Crowd(lambda exchange, others: capital(exchange)), SECTION, full=False)
    assert quick.threshold == 4 + 8


def test_cross_talk_is_called_so(run_check: Run) -> None:
    def swapped(exchange: Exchange, others: list[Exchange]) -> str:
        return capital(others[0] if others else exchange)

    check, _context = run_check(concurrency, Crowd(swapped), SECTION)
    assert check.status == "fail"
    assert any("cross-talk, the answer to" in line for line in check.evidence)


def test_another_answer_in_the_tail_of_a_right_one_is_cross_talk(run_check: Run) -> None:
    def appended(exchange: Exchange, others: list[Exchange]) -> str:
        other = capital(others[0] if others else exchange)
        return capital(exchange) if other == capital(exchange) else f"{capital(exchange)} {other}"

    check, _context = run_check(concurrency, Crowd(appended), SECTION)
    assert check.status == "fail"
    assert "is in it" in check.evidence[0]


def test_errors_and_garbage_under_load_fail(run_check: Run) -> None:
    def breaks(exchange: Exchange, others: list[Exchange]) -> str | None:
        if not others:
            return capital(exchange)
        return None if exchange.number % 2 else "knots 12"

    check, _context = run_check(concurrency, Crowd(breaks, 0.1), SECTION)
    assert check.status == "fail"
    assert any("server_error: HTTP 500: tile is empty" in line for line in check.evidence)
    assert any("'knots 12', alone" in line for line in check.evidence)


def test_other_words_of_a_right_answer_are_inconclusive(run_check: Run) -> None:
    counter = iter(range(1000))

    def reworded(exchange: Exchange, others: list[Exchange]) -> str:
        return f"{next(counter)}: {capital(exchange)}" if others else capital(exchange)

    check, context = run_check(concurrency, Crowd(reworded), SECTION)
    assert check.status == "inconclusive"
    assert context.metrics["concurrency"]["equal"] < 7


def test_what_is_not_known_alone_says_nothing(run_check: Run) -> None:
    def knows_two(exchange: Exchange, others: list[Exchange]) -> str:
        return capital(exchange) if "Norway" in exchange.prompt or "Japan" in exchange.prompt else "42"

    check, _context = run_check(concurrency, Crowd(knows_two, 0.0), SECTION)
    assert check.status == "pass"
    assert sum("wrong even alone" in line for line in check.evidence) == 3
    check, _context = run_check(concurrency, Crowd(lambda exchange, others: "42", 0.0), SECTION)
    assert (check.status, check.threshold) == ("inconclusive", 0)


def test_without_questions_the_exact_set_is_asked(run_check: Run) -> None:
    check, context = run_check(concurrency, lambda exchange: False, {"levels": [2]}, questions=_two())
    assert check.status == "pass"
    assert {answer["prompt"] for answer in context.answers} == {question.prompt for question in _two()}
    thinking = questions.load([{"prompt": "Why?", "expect": "x", "thinking": True}])
    check, _context = run_check(concurrency, lambda exchange: False, {"levels": [2]}, questions=thinking)
    assert check.status == "not_run"


def _two() -> list[questions.Question]:
    return questions.load(
        [
            {"name": "capital", "prompt": "What is the capital of France? Answer briefly.", "expect": "^Paris$"},
            {"name": "product", "prompt": "What is 17*23?", "expect": "^391$"},
        ]
    )


def test_the_default_questions_are_enough_for_sixteen_different_ones(run_check: Run) -> None:
    asked = questions.load(questions.DEFAULT)
    probe = concurrency.read({}, "questions.concurrency")
    _check, context = run_check(concurrency, lambda exchange: exchange.answer("no"), questions=asked)
    assert len(concurrency._pool(context, probe)) >= max(probe.levels) == 16


def test_preemptions_are_counted(run_check: Run) -> None:
    readings = iter([3, 5])
    texts: list[str] = []

    def answer(exchange: Exchange) -> bool:
        return exchange.answer(capital(exchange))

    check, context = run_check(concurrency, answer, SECTION)
    assert check.status == "pass"

    def get_text(path: str, *, timeout: float) -> str:
        texts.append(path)
        return f'vllm:num_preemptions_total{{engine="0"}} {next(readings)}\n'

    context.client.get_text = get_text  # type: ignore[method-assign]
    concurrency.run(context)
    assert context.metrics["concurrency"]["preemptions"] == 2
    assert texts == ["/metrics"] * 2


def test_a_hang_ends_in_time_and_a_dead_server_ends_the_battery(run_check: Run) -> None:
    began = time.monotonic()
    crowd = Crowd(lambda exchange, others: capital(exchange), 0.0)

    def answer(exchange: Exchange) -> bool:
        if exchange.number > 5:
            time.sleep(0.6)
        return crowd(exchange)

    check, _context = run_check(concurrency, answer, SECTION | {"levels": [2]}, request_timeout=0.3)
    assert check.status == "fail"
    assert any("timeout" in line for line in check.evidence)
    assert time.monotonic() - began < 10
    with pytest.raises(EndpointError, match="HTTP 503"):
        run_check(concurrency, lambda exchange: exchange.number > 5 and exchange.send(503, "{}"), _known())


def _known() -> dict[str, Any]:
    return {
        "levels": [2],
        "questions": [{"prompt": "What is 17*23?", "expect": "391", "name": str(n)} for n in range(5)],
    }


@pytest.mark.parametrize(
    "section",
    [{"levels": []}, {"levels": [1]}, {"levels": [65]}, {"levels": ["8"]}, {"levels": [True]}, {"max_tokens": 0}],
)
def test_sections_that_are_not_usable(section: Any) -> None:
    with pytest.raises(ServingError, match=r"questions\.concurrency is not usable"):
        concurrency.read(section, "questions.concurrency")


def test_a_wrong_question_is_named() -> None:
    with pytest.raises(ServingError, match="question 1 is not usable"):
        concurrency.read({"questions": [{"prompt": "x"}]}, "questions.concurrency")
