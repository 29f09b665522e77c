# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.serving.plugins.filter.pick import pick


def test_nested_values_are_taken_and_the_rest_is_left() -> None:
    cards = [{"index": 0, "memory": {"total_bytes": 7, "used_bytes": 1}, "power_w": 14.0}]
    assert pick(cards, index="index", total="memory.total_bytes") == [{"index": 0, "total": 7}]


def test_a_missing_place_gives_no_key() -> None:
    assert pick([{"a": 1}, {"a": {"b": 2}}], value="a.b") == [{}, {"value": 2}]


@pytest.mark.parametrize("bad", ["text", {"a": 1}, [1], None])
def test_other_inputs_are_refused(bad: object) -> None:
    with pytest.raises(AnsibleFilterError, match="pick"):
        pick(bad, a="a")  # type: ignore[arg-type]
