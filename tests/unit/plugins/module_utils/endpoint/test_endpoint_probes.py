# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import checks, probes
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given
from hypothesis import strategies as st

ENTRY = {"name": "greeting", "prompt": "Hi", "expect": "x"}
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5)


@pytest.mark.parametrize("held", [[ENTRY], {"exact_set": [ENTRY]}])
def test_a_list_is_the_exact_set_in_data_and_in_a_file(held: Any, tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(held))
    for source in (held, str(path)):
        read = checks.read_sections(probes.load(source))
        assert [question.name for question in read["exact_set"]] == ["greeting"]


def test_every_default_section_is_usable() -> None:
    assert set(checks.read_sections({})) == set(checks.SECTIONS)
    assert {checks.section_of(name) for name in checks.CHECKS} - set(checks.SECTIONS) == {"channels"}


def test_a_section_that_is_null_does_not_apply() -> None:
    assert all(value is None for value in checks.read_sections(dict.fromkeys(checks.SECTIONS)).values())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("/nowhere/questions.json", "cannot be read"),
        (7, "a section for each check"),
        ({"exact_sets": []}, "did you mean exact_set"),
        ({"exact_set": []}, "at least one"),
        ({"exact_set": [{"prompt": "x"}]}, "question 1 is not usable"),
    ],
)
def test_unusable_data_is_named(source: Any, said: str) -> None:
    with pytest.raises(ServingError, match=said):
        checks.read_sections(probes.load(source))


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ([], "not a dictionary"),
        ({"promt": "x"}, "did you mean prompt"),
        ({"prompt": 3}, "prompt has the type int"),
        ({"last": True}, "last has the type bool"),
    ],
)
def test_members_are_known_and_of_their_types(section: Any, said: str) -> None:
    with pytest.raises(ServingError, match=said):
        probes.members(section, "questions.count", {"prompt": str, "last": (int, float)})
    assert probes.members({"last": 2.5}, "questions.count", {"last": (int, float)}) == {"last": 2.5}


@given(st.dictionaries(st.sampled_from(sorted(checks.SECTIONS)), JSON, max_size=4))
def test_any_data_is_read_or_refused(source: dict[str, Any]) -> None:
    try:
        checks.read_sections(probes.load(source))
    except ServingError as error:
        assert error.what


@given(st.sampled_from(sorted(checks.SECTIONS)), st.data())
def test_any_value_of_a_key_is_read_or_refused(name: str, data: st.DataObject) -> None:
    default = checks.SECTIONS[name].DEFAULT
    keys = sorted(default) if isinstance(default, dict) else []
    section = {key: data.draw(JSON) for key in keys if data.draw(st.booleans())} if keys else data.draw(JSON)
    try:
        checks.read_sections({name: section})
    except ServingError as error:
        assert error.what
