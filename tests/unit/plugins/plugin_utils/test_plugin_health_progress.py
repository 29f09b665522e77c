# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.plugin_utils.health_progress import describe, summary
from hypothesis import given
from hypothesis import strategies as st

WAITING: dict[str, Any] = {
    "state": "waiting",
    "stage": "loading_weights",
    "progress": "Loading safetensors checkpoint shards: 40% Completed | 48/119",
    "check": None,
    "done": 0,
    "total": 0,
    "checks": [],
    "elapsed_s": 240.2,
    "pid": 42,
    "at": 1790000000.0,
}
CHECKING: dict[str, Any] = {
    **WAITING,
    "state": "checking",
    "stage": None,
    "progress": None,
    "check": "length_sweep",
    "done": 5,
    "total": 15,
    "checks": [{"name": name, "status": "pass"} for name in ("ready", "logprobs", "exact_set", "count", "latency")],
    "elapsed_s": 20.0,
}


def text(progress: dict[str, Any], running_s: float = 0.0) -> str:
    line = describe(progress, running_s)
    assert line is not None
    return line.text


def test_while_the_engine_starts_its_stage_and_its_own_words_are_shown() -> None:
    words = "waiting for the engine: loading_weights, Loading safetensors checkpoint shards: 40% Completed | 48/119"
    assert text(WAITING) == f"{words}, 4 min"
    assert text({**WAITING, "progress": None, "elapsed_s": 5}, 30.0) == "waiting for the engine: loading_weights, 35 s"


def test_another_stage_is_another_state() -> None:
    first, second = describe(WAITING, 0), describe({**WAITING, "stage": "compiling"}, 0)
    assert first is not None
    assert second is not None
    assert first.state != second.state


def test_a_check_says_its_place_and_what_passed() -> None:
    assert text(CHECKING) == "length_sweep 6/15; 5 passed"
    assert text(CHECKING, 42.0) == "length_sweep 6/15, 42 s; 5 passed"
    line = describe(CHECKING, 0)
    assert line is not None
    assert line.percent == 33


def test_what_did_not_pass_is_named_by_status_and_is_a_new_state() -> None:
    more = [{"name": "channels", "status": "fail"}, {"name": "vision", "status": "not_run"}]
    again = {"name": "needle", "status": "fail"}
    worse = {**CHECKING, "checks": [*CHECKING["checks"], *more, again]}
    assert text(worse) == "length_sweep 6/15; 5 passed; fail: channels, needle; not_run: vision"
    before, after = describe(CHECKING, 0), describe(worse, 0)
    assert before is not None
    assert after is not None
    assert before.state != after.state


@pytest.mark.parametrize(
    "progress",
    [
        {},
        {"state": "waiting"},
        {**WAITING, "stage": None},
        {**CHECKING, "check": None},
        {**CHECKING, "total": "many"},
        {**CHECKING, "checks": [1]},
        {**CHECKING, "state": "dancing"},
        {**WAITING, "elapsed_s": None},
    ],
)
def test_a_file_without_a_step_shows_nothing(progress: dict[str, Any]) -> None:
    assert describe(progress, 0) is None


def test_what_steers_a_terminal_is_left_out() -> None:
    assert "\x1b" not in text({**WAITING, "stage": "\x1b[2Jx", "progress": "\x1b[1A" + 500 * "y"})
    assert len(text({**WAITING, "progress": 500 * "y"})) < 200


@given(
    st.dictionaries(
        st.sampled_from(list(WAITING)),
        st.none() | st.integers() | st.floats() | st.text() | st.lists(st.dictionaries(st.text(), st.text())),
    ),
    st.sampled_from([WAITING, CHECKING]),
)
def test_no_content_of_the_file_ends_the_task(change: dict[str, Any], base: dict[str, Any]) -> None:
    line = describe({**base, **change}, 1.0)
    assert line is None or line.text.isprintable()


def test_the_summary_counts_and_names() -> None:
    checks = [
        {"name": "ready", "status": "pass", "seconds": 0.4},
        {"name": "count", "status": "pass", "seconds": 30.2},
        {"name": "vision", "status": "not_run", "seconds": 0.0},
    ]
    assert summary({"checks": checks}) == "2 of 3 checks passed in 31 s; not_run: vision"
    assert summary({"checks": checks[:2]}) == "2 of 2 checks passed in 31 s"


@pytest.mark.parametrize("result", [{}, {"checks": []}, {"checks": [{"name": "ready"}]}, {"checks": None}])
def test_no_summary_of_nothing(result: dict[str, Any]) -> None:
    assert summary(result) is None
