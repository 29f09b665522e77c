# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A validator for the part of JSON Schema 2020-12 that our schemas use; the host has no library for it."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .schema_types import Schema


class Flaw(NamedTuple):
    """One place that does not fit: a JSON pointer, and what is wrong there in a few words."""

    pointer: str
    problem: str


_IS: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def child(pointer: str, token: str | int) -> str:
    """The JSON pointer of a member (RFC 6901)."""
    return f"{pointer}/" + str(token).replace("~", "~0").replace("/", "~1")


def type_name(value: object) -> str:
    """What JSON calls the value."""
    return next((name for name, fits in _IS.items() if fits(value)), type(value).__name__)


def flaws(value: Any, schema: Schema, pointer: str = "") -> Iterator[Flaw]:
    """Every place where the value does not fit the schema; no value is repeated, as it may be a secret."""
    expected = schema.get("type")
    names = [expected] if isinstance(expected, str) else expected
    if names and not any(_IS[name](value) for name in names):
        yield Flaw(pointer, f"is {type_name(value)}, expected {' or '.join(names)}")
        return
    if "const" in schema and value != schema["const"]:
        yield Flaw(pointer, f"must be {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        yield Flaw(pointer, "must be one of " + ", ".join(map(str, schema["enum"])))
    if isinstance(value, str):
        yield from _string_flaws(value, schema, pointer)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Flaw(pointer, "is no finite number, which JSON cannot carry")
    elif _IS["number"](value) and value < schema.get("minimum", value):
        yield Flaw(pointer, f"is below {schema['minimum']}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from flaws(item, schema.get("items", {}), child(pointer, index))
    elif isinstance(value, dict):
        yield from _object_flaws(value, schema, pointer)


def _string_flaws(value: str, schema: Schema, pointer: str) -> Iterator[Flaw]:
    if len(value) < schema.get("minLength", 0):
        yield Flaw(pointer, "is empty")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield Flaw(pointer, f"does not match {schema['pattern']}")


def _object_flaws(value: dict[Any, Any], schema: Schema, pointer: str) -> Iterator[Flaw]:
    properties: dict[str, Schema] = schema.get("properties", {})
    additional = schema.get("additionalProperties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield Flaw(child(pointer, name), "is missing")
    for name, item in value.items():
        if name in properties:
            yield from flaws(item, properties[name], child(pointer, name))
        elif additional is False:
            near = difflib.get_close_matches(str(name), properties, n=1)
            yield Flaw(child(pointer, name), f"is not known, nearest is {near[0]}" if near else "is not known")
        else:
            yield from flaws(item, additional, child(pointer, name))
