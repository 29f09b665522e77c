# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.plugin_utils.download_progress import (
    describe,
    summary,
)
from hypothesis import given
from hypothesis import strategies as st

MOVING: dict[str, Any] = {
    "state": "downloading",
    "bytes": {"done": 221_400_000_000, "total": 540_000_000_000},
    "shards": {"done": 48, "total": 119},
    "rate_bytes_per_s": 1_200_000_000,
    "eta_s": 265,
    "file": "model-00049-of-00119.safetensors",
    "writer": None,
    "pid": 42,
    "at": 1790000000.0,
}
WAITING = {"state": "waiting", "writer": "pid 42 on gpu1 since 2026-10-01T08:00:00+00:00", "pid": 77}


def text(progress: dict[str, Any], *others: dict[str, Any]) -> str:
    line = describe(progress, others)
    assert line is not None
    return line.text


def test_a_download_says_bytes_rate_eta_and_shards() -> None:
    assert text(MOVING) == "downloading 41 % 221/540 GB at 1.2 GB/s, eta 4 min, shards 48/119"


@pytest.mark.parametrize("state", ["hashing", "verifying"])
def test_looking_at_files_reads_the_same_way(state: str) -> None:
    assert text({**MOVING, "state": state}).startswith(f"{state} 41 % 221/540 GB at 1.2 GB/s, eta 4 min")


def test_what_is_not_known_is_left_out() -> None:
    progress = {**MOVING, "rate_bytes_per_s": 0, "eta_s": None, "shards": {"done": 0, "total": 0}}
    assert text(progress) == "downloading 41 % 221/540 GB"


def test_nothing_is_left_when_all_is_done() -> None:
    progress = {**MOVING, "bytes": {"done": 5, "total": 5}, "eta_s": 0}
    assert text(progress) == "downloading 100 % 5/5 B at 1.2 GB/s, shards 48/119"


def test_resolving() -> None:
    assert text({**MOVING, "state": "resolving", "bytes": {"done": 0, "total": 0}}) == "resolving the revision"


def test_waiting_names_the_writer_and_says_how_far_it_is() -> None:
    whom = "waiting for pid 42 on gpu1 since 2026-10-01T08:00:00+00:00"
    assert text(WAITING) == whom
    assert text(WAITING, {**MOVING, "pid": 43}) == whom
    assert text(WAITING, {**MOVING, "pid": 43}, MOVING) == f"{whom}: {text(MOVING)}"


def test_two_that_wait_do_not_describe_each_other() -> None:
    assert text(WAITING, {"state": "waiting", "writer": "pid 77 on gpu1", "pid": 42}).endswith("+00:00")


@pytest.mark.parametrize(
    "progress",
    [
        {},
        {"state": "downloading"},
        {**MOVING, "bytes": None},
        {**MOVING, "bytes": {"done": "many", "total": 1}},
        {**MOVING, "rate_bytes_per_s": [1]},
        {**MOVING, "bytes": {"done": float("nan"), "total": 1}},
    ],
)
def test_a_file_of_another_shape_gives_no_line(progress: dict[str, Any]) -> None:
    assert describe(progress, ()) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.fixed_dictionaries({}, optional={key: ANYTHING | st.just(value) for key, value in MOVING.items()}))
def test_no_file_breaks_the_display(progress: dict[str, Any]) -> None:
    line = describe(progress, [progress])
    assert line is None or (line.text.isprintable() and len(line.text) < 1000)


def test_the_summary_of_a_transfer() -> None:
    result = {
        "bytes": {"downloaded": 540_000_000_000},
        "elapsed_s": 451.2,
        "throughput_bytes_per_s": 1_200_000_000,
        "shards": {"present": 119, "expected": 119},
    }
    assert summary(result) == "downloaded 540 GB in 8 min at 1.2 GB/s, shards 119/119"
    assert summary({**result, "bytes": {"downloaded": 0}}) is None
    assert summary({"msg": "no such result"}) is None
