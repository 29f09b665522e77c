# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import latency
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.endpoint.server import Exchange, delta

Run = Callable[..., tuple[Check, Context]]

SECTION = {"prompt": "Count from 1 to 50.", "max_ttft_s": 0.6}


def slow(*numbers: int) -> Callable[[Exchange], bool]:
    def answer(exchange: Exchange) -> bool:
        if exchange.number in numbers:
            time.sleep(0.8)
        return False

    return answer


def in_bursts(exchange: Exchange) -> bool:
    """Forty tokens in two deltas."""
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 40}})
    pieces = [delta({"content": "1 2 3"}), delta({"content": " 4"}), delta({}, "stop"), f"data: {usage}\n\n"]
    return exchange.stream(*pieces, "data: [DONE]\n\n")


def test_two_warm_streams_are_measured(run_check: Run) -> None:
    check, context = run_check(latency, lambda exchange: False, SECTION)
    assert check.status == "pass"
    assert 0 < check.value < check.threshold == 0.6
    assert context.metrics["ttft_s"] == check.value
    assert context.metrics["tokens_per_s"] > 0
    assert context.metrics["decode_tokens_per_s"] > 0
    assert context.metrics["tokens_per_delta"] == pytest.approx(51 / 50, abs=0.01)
    assert len(context.answers) == 2


@pytest.mark.parametrize(("numbers", "status"), [((1, 2), "fail"), ((1,), "inconclusive"), ((2,), "inconclusive")])
def test_slow_first_tokens(run_check: Run, numbers: tuple[int, ...], status: str) -> None:
    check, context = run_check(latency, slow(*numbers), SECTION)
    assert check.status == status
    assert check.value >= 0.8
    assert context.metrics["ttft_s"] == check.value
    assert f"{len(numbers)} of 2 times" in check.evidence[0]


def test_tokens_are_counted_by_usage_not_by_deltas(run_check: Run) -> None:
    _check, context = run_check(latency, in_bursts, SECTION)
    assert context.metrics["tokens_per_delta"] == 20
    assert len(context.answers) == 2


@pytest.mark.parametrize(("least", "status"), [(1.0, "pass"), (1e9, "fail")])
def test_rate_is_judged_where_a_limit_is_given(run_check: Run, least: float, status: str) -> None:
    check, _context = run_check(latency, lambda exchange: False, SECTION | {"min_tokens_per_s": least})
    assert check.status == status
    assert ("slow: " in check.evidence[0]) == (status == "fail")


@pytest.mark.parametrize(("least", "status"), [(0, "pass"), (1, "inconclusive")])
def test_without_usage_the_rate_is_unknown(run_check: Run, least: float, status: str) -> None:
    check, context = run_check(
        latency, lambda exchange: exchange.answer("1 2 3", usage=None), SECTION | {"min_tokens_per_s": least}
    )
    assert check.status == status
    assert "no usage counts" in check.evidence[-1]
    assert "tokens_per_s" not in context.metrics


def test_a_stream_without_tokens_fails(run_check: Run) -> None:
    check, _context = run_check(latency, lambda exchange: exchange.answer(""), SECTION)
    assert (check.status, check.value) == ("fail", None)


def test_reasoning_that_takes_all_tokens_is_not_asked_again(run_check: Run) -> None:
    check, context = run_check(latency, lambda exchange: exchange.answer(None, "hm hm", "length"), SECTION)
    assert check.status == "pass"
    assert len(context.answers) == 2


@pytest.mark.parametrize(
    "section",
    [{"max_ttft_s": 0}, {"min_tokens_per_s": -1}, {"max_tokens": 0}, {"prompt": " "}, {"max_ttft_s": "1"}, {"ttft": 1}],
)
def test_sections_that_are_not_usable(section: Any) -> None:
    with pytest.raises(ServingError, match=r"questions\.latency is not usable"):
        latency.read(section, "questions.latency")
