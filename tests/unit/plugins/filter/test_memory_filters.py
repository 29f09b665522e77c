# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters that draw a budget and compare it: what they take and refuse."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.serving.plugins.filter.budget_difference import budget_difference
from ansible_collections.blackwell.serving.plugins.filter.memory_bar import memory_bar
from ansible_collections.blackwell.serving.plugins.filter.memory_svg import memory_svg

GIB = 1 << 30
PREDICTED: dict[str, Any] = {
    "token_capacity": 1000,
    "available_kv_cache_bytes": 2 * GIB,
    "bytes_needed": GIB,
    "memory": {"total": 10 * GIB, "usable": 9 * GIB, "weights": 6 * GIB, "overhead": GIB, "cuda_graphs": 0},
}


def test_one_bar_for_a_terminal_and_two_in_the_picture() -> None:
    measured = {"available_bytes": GIB, "weights_bytes": 6 * GIB}
    assert " + KV cache, free for others" in "\n".join(memory_bar(PREDICTED))
    assert " + KV cache, free for others" not in "\n".join(memory_bar(PREDICTED, measured))
    assert memory_svg(PREDICTED).count(": 10.00 GiB</text>") == 1
    assert memory_svg(PREDICTED, measured, title="A card").count(": 10.00 GiB</text>") == 2
    assert (memory_bar({}, {}), memory_svg({}, {})) == ([], "")


def test_the_difference() -> None:
    found = budget_difference(PREDICTED, {"tokens": 990})
    assert found is not None
    assert found["tokens"] == -10
    assert budget_difference(PREDICTED, {}) is None


@pytest.mark.parametrize("name", [budget_difference, memory_bar, memory_svg])
def test_what_is_no_mapping(name: Any) -> None:
    pairs: list[tuple[Any, Any]] = [("text", {}), (PREDICTED, ["list"])]
    for arguments in pairs:
        with pytest.raises(AnsibleFilterError, match="no mapping"):
            name(*arguments)
