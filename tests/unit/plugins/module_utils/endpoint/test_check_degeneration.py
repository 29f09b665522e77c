# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import degeneration
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.endpoint.server import Exchange

Run = Callable[..., tuple[Check, Context]]

PROSE = (
    "A refrigerator moves heat from a cold place to a warm one, which heat would never do by itself. A compressor "
    "squeezes a gas until it is hot and dense, and a long coil at the back gives that heat to the room. The gas "
    "becomes a liquid there, passes a narrow valve, and boils in the coil inside, where the pressure is low. Boiling "
    "takes heat from the food around it, so the box grows cold while the kitchen becomes a little warmer. A "
    "thermostat stops the motor when the chosen temperature is reached and starts it again when warm air has found "
    "its way in. Good insulation keeps the pauses long, and a clean coil keeps the motor's work short."
)
LOOP = PROSE[:300] + " and the valve and the coil" * 40
SECTION = {"prompt": "Explain it.", "max_tokens": 400, "min_characters": 500, "scripts": ["latin"]}


def says(content: str | None, reasoning: str | None = "I explain it.", finish: str = "stop") -> Any:
    return lambda exchange: exchange.answer(content, reasoning if exchange.thinking else None, finish)


def test_prose_passes_with_its_numbers(run_check: Run) -> None:
    check, context = run_check(degeneration, says(PROSE), SECTION)
    assert (check.status, check.value, check.threshold) == ("pass", 0, 0)
    assert set(context.metrics["text_statistics"]) >= {"zlib_ratio", "distinct_4grams", "top_word_share"}
    assert context.metrics["text_statistics"]["zlib_ratio"] < 2.5
    assert context.answers[0]["reasoning"] == "I explain it."


@pytest.mark.parametrize(
    ("content", "reasoning", "said"),
    [
        (LOOP, "ok", "loop: distinct 4-grams"),
        (PROSE, "!" * 400, "reasoning: character run: 400"),
        (PROSE + " 但是冰箱里的食物都是冷的", "ok", "foreign letters"),
        (PROSE + " \ufffd.", "ok", "broken bytes"),
        (None, "!" * 400, "reasoning: "),
    ],
)
def test_degenerate_texts_fail(run_check: Run, content: str | None, reasoning: str, said: str) -> None:
    finish = "length" if content is None else "stop"
    check, _context = run_check(degeneration, says(content, reasoning, finish), SECTION)
    assert check.status == "fail"
    assert check.value > 0
    assert said in check.evidence[0]


@pytest.mark.parametrize(
    ("content", "finish", "said"),
    [("It cools.", "stop", "too short"), (PROSE, "length", "does not come to an end"), ("", "stop", "too short")],
)
def test_texts_that_do_not_end_or_do_not_begin(run_check: Run, content: str, finish: str, said: str) -> None:
    check, _context = run_check(degeneration, says(content, finish=finish), SECTION)
    assert check.status == "fail"
    assert said in check.evidence[0]


def test_reasoning_that_takes_every_token_is_not_proven(run_check: Run) -> None:
    check, context = run_check(degeneration, says(None, PROSE, "length"), SECTION)
    assert check.status == "inconclusive"
    assert "asked twice" in check.evidence[0]
    assert len(context.answers) == 2

    def refuses_more(exchange: Exchange) -> bool:
        if exchange.body["max_tokens"] > 400:
            return exchange.send(400, '{"error": {"message": "max_tokens is too large"}}')
        return exchange.answer(None, PROSE, "length")

    check, context = run_check(degeneration, refuses_more, SECTION)
    assert check.status == "inconclusive"
    assert "max_tokens is too large" in check.evidence[0]
    assert len(context.answers) == 1


def test_quick_cuts_the_text_off_and_does_not_think(run_check: Run) -> None:
    bodies: list[dict[str, Any]] = []

    def cut(exchange: Exchange) -> bool:
        bodies.append(exchange.body)
        return exchange.answer(PROSE[:450] + "\ufffd", None, "length")

    check, _context = run_check(degeneration, cut, SECTION, full=False)
    assert check.status == "pass"
    assert bodies[0]["max_tokens"] == 200
    assert bodies[0]["chat_template_kwargs"] == {"thinking": False}
    check, _context = run_check(degeneration, says(" ", None, "length"), SECTION, full=False)
    assert check.status == "fail"


def test_other_scripts_are_a_matter_of_the_section(run_check: Run) -> None:
    text = "Холодильник переносит тепло из холодного места в тёплое. " + PROSE
    assert run_check(degeneration, says(text), SECTION)[0].status == "fail"
    assert run_check(degeneration, says(text), SECTION | {"scripts": ["LATIN", "CYRILLIC"]})[0].status == "pass"
    assert run_check(degeneration, says(text), SECTION | {"scripts": []})[0].status == "pass"


@pytest.mark.parametrize(
    "section", [{"prompt": ""}, {"max_tokens": 0}, {"min_characters": -1}, {"scripts": "LATIN"}, {"prompts": "x"}]
)
def test_sections_that_are_not_usable(section: Any) -> None:
    with pytest.raises(ServingError, match=r"questions\.degeneration is not usable"):
        degeneration.read(section, "questions.degeneration")
