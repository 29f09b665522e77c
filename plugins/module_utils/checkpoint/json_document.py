# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""JSON files of a checkpoint: read strictly, edited without touching a byte outside the value that changes.

Places are named as the reports name them, "config.json#/quantization_config/kv_cache_scheme": the file, then an
RFC 6901 JSON pointer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WHITESPACE = " \t\n\r"
DECODER = json.JSONDecoder()
DOWNLOAD_AGAIN = "Download the file again (blackwell.serving.hf_shard_download)"


@dataclass(frozen=True)
class JsonDocument:
    """A JSON object with the text that it was read from."""

    name: str
    data: bytes
    value: dict[str, Any]

    def replaced(self, pointer: str, value: object) -> JsonDocument:
        """The document with the value at the pointer replaced: order, indentation, line ends and encoding stay."""
        return parse_object(replace_value(self.data.decode(), pointer, value).encode(), self.name)


def parse_object(data: bytes, name: str) -> JsonDocument:
    """Read the bytes of a JSON object; `name` says in errors which file they are from.

    Refused: a byte order mark, bytes that are not UTF-8, text that is not JSON, a top level that is no object, and a
    key that occurs twice (readers disagree on which one counts). NaN and Infinity are taken, as the engine takes them.
    """
    if data.startswith(BYTE_ORDER_MARK):
        raise ServingError(
            "the file starts with a byte order mark",
            where=name,
            why="the engine's JSON reader refuses it as well",
            remedy=DOWNLOAD_AGAIN,
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ServingError(
            "the file is not UTF-8 text",
            where=name,
            why=f"{error.reason} at byte {error.start}",
            remedy=DOWNLOAD_AGAIN,
        ) from error
    duplicates: list[tuple[dict[str, Any], str]] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            counts = Counter(key for key, _value in pairs)
            duplicates.append((found, next(key for key, count in counts.items() if count > 1)))
        return found

    try:
        value = json.loads(text, object_pairs_hook=members)
    except json.JSONDecodeError as error:
        raise ServingError(
            "the file is not JSON",
            where=f"{name}, line {error.lineno}, column {error.colno}",
            why=error.msg,
            remedy=DOWNLOAD_AGAIN,
        ) from error
    except (ValueError, RecursionError) as error:
        raise ServingError("the file is not JSON that can be read", where=name, why=str(error)) from error
    if duplicates:
        holder, key = duplicates[0]
        raise ServingError(
            f"the key {json.dumps(key)} occurs twice in one object",
            where=f"{name}#{_pointer_to(value, holder) or ''}",
            why="readers disagree on which of the two counts",
            remedy=DOWNLOAD_AGAIN,
        )
    if not isinstance(value, dict):
        raise ServingError(f"the file holds {kind_of(value)} where an object is expected", where=f"{name}#")
    return JsonDocument(name, data, value)


def kind_of(value: object) -> str:
    """What a JSON value is, in JSON's own words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def join_pointer(tokens: Sequence[str | int]) -> str:
    """The JSON pointer of these member names and list positions (RFC 6901)."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def split_pointer(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def value_at(value: Any, pointer: str) -> Any:
    """The value at the pointer; KeyError when there is none."""
    for token in split_pointer(pointer):
        if isinstance(value, dict):
            value = value[token]
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            raise KeyError(pointer)
    return value


def replace_value(text: str, pointer: str, value: object) -> str:
    """The JSON text with the value at the pointer replaced and every other character kept; KeyError without it."""
    start, end = _span(text, pointer)
    return text[:start] + json.dumps(value) + text[end:]


def _span(text: str, pointer: str) -> tuple[int, int]:
    """Where the value at the pointer starts and ends in valid JSON text."""
    start = _skip_whitespace(text, 0)
    for token in split_pointer(pointer):
        if text[start] == "{":
            start = _member(text, start, token)
        elif text[start] == "[" and token.isdecimal():
            start = _element(text, start, int(token))
        else:
            raise KeyError(pointer)
    return start, DECODER.raw_decode(text, start)[1]


def _member(text: str, start: int, name: str) -> int:
    position = _skip_whitespace(text, start + 1)
    while text[position] != "}":
        key, position = DECODER.raw_decode(text, position)
        position = _skip_whitespace(text, _skip_whitespace(text, position) + 1)  # over the colon
        if key == name:
            return position
        position = _next_item(text, position)
    raise KeyError(name)


def _element(text: str, start: int, index: int) -> int:
    position = _skip_whitespace(text, start + 1)
    while text[position] != "]":
        if index == 0:
            return position
        index -= 1
        position = _next_item(text, position)
    raise KeyError(index)


def _next_item(text: str, position: int) -> int:
    """From the start of a value to the start of the next item, or to the closing bracket."""
    position = _skip_whitespace(text, DECODER.raw_decode(text, position)[1])
    return _skip_whitespace(text, position + 1) if text[position] == "," else position


def _skip_whitespace(text: str, position: int) -> int:
    while position < len(text) and text[position] in WHITESPACE:
        position += 1
    return position


def _pointer_to(value: Any, wanted: object) -> str | None:
    """The pointer of the very object `wanted`; None when it was itself overwritten by a later duplicate."""
    pending: list[tuple[list[str | int], Any]] = [([], value)]
    while pending:
        tokens, current = pending.pop()
        if current is wanted:
            return join_pointer(tokens)
        if isinstance(current, dict):
            pending.extend(([*tokens, key], item) for key, item in current.items())
        elif isinstance(current, list):
            pending.extend(([*tokens, index], item) for index, item in enumerate(current))
    return None
