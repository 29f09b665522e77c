# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import counting
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import count
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given, settings
from hypothesis import strategies as st

Run = Callable[..., tuple[Check, Context]]


def row(last: int) -> list[str]:
    return [str(number) for number in range(1, last + 1)]


def test_right_row_passes_with_its_speed(run_check: Run) -> None:
    check, context = run_check(count, lambda exchange: False)
    assert (check.status, check.value, check.threshold) == ("pass", True, True)
    assert context.metrics["count_tokens_per_s"] > 0


def test_prompt_and_end_come_from_the_section(run_check: Run) -> None:
    asked: list[tuple[str, int]] = []

    def answer(exchange: Any) -> bool:
        asked.append((exchange.prompt, exchange.body["max_tokens"]))
        return bool(exchange.answer(" ".join(row(30))))

    check, _context = run_check(count, answer, {"prompt": "Count to 30.", "last": 30, "max_tokens": 99})
    assert check.status == "pass"
    assert asked == [("Count to 30.", 99)]


@pytest.mark.parametrize(
    ("text", "finish", "status", "said"),
    [
        (" ".join([*row(37), "39", "40"]), "stop", "fail", "after 37 comes 39"),
        (" ".join([*row(44), "44", *row(50)[44:]]), "stop", "fail", "after 44 comes 44"),
        (" ".join(row(20)), "stop", "fail", "it ends at 20"),
        (" ".join([*row(50), "50"]), "stop", "fail", "after 50 comes 50"),
        (" ".join(["1", *row(50)]), "stop", "fail", "content: '1 1 2"),
        (" ".join(row(20)), "length", "inconclusive", "max_tokens 512 ended it"),
        ("Sis J4", "stop", "fail", "content: 'Sis J4'"),
        ("", "stop", "fail", "nothing at all"),
    ],
)
def test_wrong_rows(run_check: Run, text: str, finish: str, status: str, said: str) -> None:
    check, context = run_check(count, lambda exchange: exchange.answer(text, finish=finish))
    assert (check.status, check.value) == (status, False)
    assert said in check.evidence[0]
    assert "count_tokens_per_s" not in context.metrics


@pytest.mark.parametrize("text", ["**Numbers 1 to 50**\n\n{}", "{}\n\n(1 to 50)", "From 1:\n{} That was 50."])
def test_remarks_may_name_the_ends(text: str) -> None:
    assert counting.is_right(text.format(" ".join(row(50))))


@given(st.integers(3, 300), st.data())
@settings(deadline=None)
def test_the_first_slip_is_named(last: int, data: st.DataObject) -> None:
    assert counting.is_right(", ".join(row(last)), last=last)
    assert counting.first_slip(", ".join(row(last)), last=last) is None
    missing = data.draw(st.integers(3, last))
    slipped = [number for number in row(last) if number != str(missing)]
    assert not counting.is_right(" ".join(slipped), last=last)
    said = counting.first_slip(" ".join(slipped), last=last)
    assert said == (f"after {missing - 1} comes {missing + 1}" if missing < last else f"it ends at {last - 1}")


@pytest.mark.parametrize(
    "section", [{"last": 1}, {"last": 1000}, {"last": True}, {"prompt": " "}, {"max_tokens": 0}, {"words": 1}, []]
)
def test_sections_that_are_not_usable(section: Any) -> None:
    with pytest.raises(ServingError, match=r"questions\.count is not usable"):
        count.read(section, "questions.count")
