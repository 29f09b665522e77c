# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One card as a stacked bar: nothing is lost or drawn twice, in text and as SVG."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.picture import parts_of, svg, text_lines
from hypothesis import given
from hypothesis import strategies as st

GIB = 1 << 30
PREDICTED: dict[str, Any] = {
    "memory": {
        "total": 95 * GIB,
        "usable": 87 * GIB,
        "weights": 71 * GIB,
        "overhead": 3 * GIB,
        "cuda_graphs": 2 * GIB,
    },
    "available_kv_cache_bytes": 11 * GIB,
    "bytes_needed": 9 * GIB,
    "max_model_len": 131_072,
}


def test_the_parts_are_the_card() -> None:
    parts = parts_of(PREDICTED)
    assert [(part.kind, part.count // GIB) for part in parts] == [
        ("weights", 71),
        ("overhead", 3),
        ("cuda_graphs", 2),
        ("request", 9),
        ("free", 2),
        ("outside", 8),
    ]


def test_what_was_measured_moves_the_overhead() -> None:
    parts = parts_of(PREDICTED, {"available_bytes": 10 * GIB, "weights_bytes": 72 * GIB})
    assert [part.count // GIB for part in parts] == [72, 3, 2, 9, 1, 8]


def test_a_budget_without_a_card_shows_the_cache() -> None:
    parts = parts_of({"memory": {"total": None}, "available_kv_cache_bytes": GIB, "bytes_needed": GIB // 4})
    assert [(part.kind, part.count) for part in parts] == [("request", GIB // 4), ("free", 3 * GIB // 4)]
    assert parts_of({}) == []
    assert text_lines([]) == []
    assert svg([("predicted", [])], "nothing") == ""


def test_a_request_that_does_not_fit_says_what_it_needs() -> None:
    part = parts_of({**PREDICTED, "bytes_needed": 17 * GIB})[3]
    assert (part.kind, part.count) == ("request", 11 * GIB)
    assert part.name == "KV cache of one request of 131,072 tokens, which needs 17.00 GiB"


def test_the_bar_of_a_terminal() -> None:
    lines = text_lines(parts_of(PREDICTED))
    drawn = re.fullmatch(r"\[(W+O+G+K+\++\.+)\] 95\.00 GiB", lines[0])
    assert drawn
    assert len(drawn[1]) == 72
    assert lines[4] == " K KV cache of one request of 131,072 tokens   9.00 GiB   9.5 %"
    assert all(len(line) <= 100 for line in lines)


@given(
    st.lists(st.integers(1, 200 * GIB), min_size=3, max_size=3), st.integers(0, 300 * GIB), st.integers(0, 300 * GIB)
)
def test_every_part_has_a_character_and_all_together_the_width(terms: list[int], room: int, needed: int) -> None:
    memory = dict(zip(("weights", "overhead", "cuda_graphs"), terms, strict=True))
    total = sum(terms) + room + GIB
    predicted = {"memory": {**memory, "total": total, "usable": total}, "available_kv_cache_bytes": room}
    parts = parts_of({**predicted, "bytes_needed": needed})
    assert sum(part.count for part in parts) == total
    drawn = text_lines(parts)[0].partition("]")[0][1:]
    assert len(drawn) == 72
    assert len(set(drawn)) == len(parts)


def test_the_svg_is_whole_and_the_same_every_time() -> None:
    bars = [("predicted", parts_of(PREDICTED)), ("measured", parts_of(PREDICTED, {"available_bytes": 10 * GIB}))]
    picture = svg(bars, 'Memory of one card of "vllm-kimi" <1>')
    assert picture == svg(bars, 'Memory of one card of "vllm-kimi" <1>')
    root = ElementTree.fromstring(picture)  # noqa: S314  our own text
    space = "{http://www.w3.org/2000/svg}"
    boxes = [box for box in root.iter(f"{space}rect") if box.find(f"{space}title") is not None]
    assert len(boxes) == 12
    for row in (boxes[:6], boxes[6:]):
        assert sum(float(box.attrib["width"]) for box in row) == pytest.approx(832, abs=0.1)
    assert root.findtext(f"{space}title") == 'Memory of one card of "vllm-kimi" <1>'
    texts = ["".join(text.itertext()) for text in root.iter(f"{space}text")]
    assert "KV cache of one request of 131,072 tokens" in texts
    assert "71.00 GiB" in texts
