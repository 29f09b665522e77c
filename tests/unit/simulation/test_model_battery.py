# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the battery asks the tiny Kimi: read as the health check reads it, and all of it taught."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import SECTIONS, read_sections
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.text_statistics import measure
from simulation.model import exam, trials
from simulation.model.questions import FACTS, counting
from simulation.model.texts import ASK_TEXT, TEXT
from simulation.model.words import ASK_CODE_WORD, CITIES, CODE_WORDS, GIVE_CODE_WORD, HIDE_CODE_WORD, PADDING_WORDS

BATTERY = exam.battery()
TAUGHT = {wording: fact.answer for fact in FACTS for wording in fact.prompts}


def test_the_health_check_reads_every_section() -> None:
    assert set(BATTERY) == set(SECTIONS)
    probes = read_sections(BATTERY)
    assert [name for name, probe in probes.items() if probe is None] == ["vision"]


@pytest.mark.parametrize("section", ["length_sweep", "prefix_cache"])
def test_what_follows_filler_is_taught(section: str) -> None:
    asked = BATTERY[section]
    assert re.search(asked["expect"], TAUGHT[asked["instruction"]])
    assert set(asked["filler"]) < set(PADDING_WORDS)


@pytest.mark.parametrize("entry", BATTERY["exact_set"] + BATTERY["concurrency"]["questions"])
def test_every_exact_question_is_taught(entry: dict[str, Any]) -> None:
    assert re.search(entry["expect"], TAUGHT[entry["prompt"]])


def test_counting_and_code_words_are_left_to_their_own_checks() -> None:
    assert len(BATTERY["exact_set"]) == 10
    asked = " ".join(entry["prompt"] for entry in BATTERY["exact_set"])
    assert "Count" not in asked
    assert "code word" not in asked
    assert TAUGHT[BATTERY["count"]["prompt"]] == counting(BATTERY["count"]["last"])
    assert TAUGHT[BATTERY["latency"]["prompt"]] == counting(20)


def test_code_words_are_given_hidden_and_asked_for_as_taught() -> None:
    turns, needle = BATTERY["multi_turn"], BATTERY["needle"]
    assert turns["codes"] == needle["codes"] == list(CODE_WORDS)
    assert turns["turns"][0].replace("{code}", "{word}") in GIVE_CODE_WORD
    assert turns["turns"][1] in TAUGHT
    assert needle["sentence"].replace("{code}", "{word}") in HIDE_CODE_WORD
    assert {turns["ask"], needle["ask"]} <= set(ASK_CODE_WORD)


def test_the_long_text_is_long_enough_and_plain_prose() -> None:
    asked = BATTERY["degeneration"]
    assert asked["prompt"] in ASK_TEXT
    assert len(TEXT) >= asked["min_characters"]
    assert not measure(TEXT, asked["scripts"]).problems


def test_trials_are_the_seeds_own_and_ask_for_every_code_word_and_city() -> None:
    names = [case.name for case in trials.trials(5)]
    assert names == [case.name for case in trials.trials(5)]
    assert names != [case.name for case in trials.trials(6)]
    assert {f"tool, {city}" for city in CITIES} <= set(names)
    assert names.count("code word") == len(CODE_WORDS)


@pytest.mark.parametrize(
    ("make", "spoil"),
    [
        (lambda rng: trials.length_case(rng, 300), "Rome"),
        (lambda rng: trials.needle_case(rng, 300, 0.5), "WREN"),
        (lambda rng: next(islice(trials.tool_cases(rng, "Oslo", thinking=False), 1, None)), "It is 99 °C in Oslo."),
    ],
)
def test_a_trial_is_not_right_with_another_answer(make: Callable[[random.Random], exam.Case], spoil: str) -> None:
    case = make(random.Random(1))
    assert not case.is_right(spoil, [])
    assert case.is_right(re.sub(r"\\(.)", r"\1", case.expect[1:-1]), [])
