# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strict reading, and edits that touch nothing but one value."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.json_document import (
    join_pointer,
    parse_object,
    replace_value,
    value_at,
)
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given
from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(["a/b", "m~n", "", 'q"', "é"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))


class Writer:
    """Writes a JSON value with random whitespace and notes where each value stands: an oracle for the editor."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.text = ""
        self.spans: dict[str, tuple[int, int]] = {}

    def gap(self) -> None:
        self.text += "".join(self.random.choices(" \t\r\n", k=self.random.randint(0, 2)))

    def write(self, value: Any, tokens: tuple[str | int, ...] = ()) -> None:
        self.gap()
        start = len(self.text)
        if isinstance(value, dict):
            self._items("{}", list(value.items()), tokens)
        elif isinstance(value, list):
            self._items("[]", list(enumerate(value)), tokens)
        else:
            self.text += json.dumps(value, ensure_ascii=self.random.random() < 0.5)
        self.spans[join_pointer(tokens)] = (start, len(self.text))
        self.gap()

    def _items(self, brackets: str, items: list[tuple[Any, Any]], tokens: tuple[str | int, ...]) -> None:
        self.text += brackets[0]
        for number, (key, item) in enumerate(items):
            self.text += "," if number else ""
            if brackets == "{}":
                self.gap()
                self.text += json.dumps(key, ensure_ascii=self.random.random() < 0.5)
                self.gap()
                self.text += ":"
            self.write(item, (*tokens, key))
        self.gap()
        self.text += brackets[1]


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5), st.integers(0, 10_000), SCALARS, st.data())
def test_an_edit_changes_one_value_and_no_other_byte(
    document: dict[str, Any], seed: int, value: object, data: st.DataObject
) -> None:
    writer = Writer(seed)
    writer.write(document)
    pointer = data.draw(st.sampled_from(sorted(writer.spans)))
    start, end = writer.spans[pointer]

    edited = replace_value(writer.text, pointer, value)

    assert edited == writer.text[:start] + json.dumps(value) + writer.text[end:]
    assert value_at(json.loads(edited), pointer) == value
    assert replace_value(edited, pointer, json.loads(writer.text[start:end])) == (
        writer.text[:start] + json.dumps(json.loads(writer.text[start:end])) + writer.text[end:]
    )


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": 1}\n', '\r\n{\r\n\t"a" :\t1 }\r\n'])
def test_line_ends_and_a_missing_last_newline_stay(text: str) -> None:
    document = parse_object(text.encode(), "config.json")
    assert document.replaced("/a", None).data.decode() == text.replace("1", "null")


@pytest.mark.parametrize("pointer", ["/b", "/a/0", "/l/2", "/l/x", "/o/x/y"])
def test_a_pointer_to_nothing_is_a_key_error(pointer: str) -> None:
    text = '{"a": 1, "l": [1, 2], "o": {}}'
    with pytest.raises(KeyError):
        replace_value(text, pointer, None)
    with pytest.raises(KeyError):
        value_at(json.loads(text), pointer)


def test_numbers_and_unknown_keys_are_written_back_as_they_stood() -> None:
    text = '{"q": {"kv": "FP8", "x_unknown": [1.0, 1e-05, "\\u00e9", "é", -0, 1E400]}}'
    assert parse_object(text.encode(), "f").replaced("/q/kv", None).data.decode() == text.replace('"FP8"', "null")


def test_infinity_is_read_as_the_engine_reads_it() -> None:
    assert parse_object(b'{"time_step_limit": [0.0, Infinity]}', "config.json").value["time_step_limit"][1] > 1e308


@pytest.mark.parametrize(
    ("data", "where", "words"),
    [
        (b'\xef\xbb\xbf{"a": 1}', "config.json", "byte order mark"),
        (b'{"a": "\xff"}', "config.json", "not UTF-8"),
        (b'{"a": {"b": 1,}}', "config.json, line 1, column", "not JSON"),
        (b'{\n "a": {"quant', "config.json, line 2, column 8", "not JSON"),
        (b"", "config.json, line 1, column 1", "not JSON"),
        (b'{"q": [0, {"k": 1, "k": 2}]}', "config.json#/q/1", 'the key "k" occurs twice'),
        (b'{"q": {"k": 1, "k": 2}, "q": 3}', "config.json#", "occurs twice"),
        (b"[1]", "config.json#", "a list where an object is expected"),
        (b"null", "config.json#", "null where an object is expected"),
        (b'"text"', "config.json#", "a string where an object is expected"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "config.json", "cannot|not JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "config.json", "not JSON"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(data: bytes, where: str, words: str) -> None:
    with pytest.raises(ServingError, match=words) as caught:
        parse_object(data, "config.json")
    assert caught.value.where is not None
    assert caught.value.where.startswith(where)
