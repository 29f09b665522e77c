# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.schema import SCHEMA, SECTIONS
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.schema_types import Schema
from ansible_collections.blackwell.serving.plugins.module_utils.deployment.validation import flaws
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[5]
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab/~é", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~é", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def test_the_published_schema_is_the_one_in_the_code() -> None:
    published = json.loads((ROOT / "docs/schema/deployment.schema.json").read_text())
    assert published == SCHEMA, "write it again: .venv/bin/python docs/schema/export.py"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def keywords(schema: Schema) -> set[str]:
    """Every keyword in the schema, of its parts too."""
    found = set(schema)
    parts = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for part in parts:
        if isinstance(part, dict):
            found |= keywords(part)
    return found


def test_the_validator_knows_every_keyword_that_the_schema_uses() -> None:
    annotations = {"$schema", "title", "description", "x-merge", "x-volatile"}
    enforced = {"type", "const", "enum", "minLength", "pattern", "minimum", "items"}
    assert keywords(SCHEMA) <= annotations | enforced | {"properties", "required", "additionalProperties"}


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Mostly values that fit the schema, now and then any JSON in some place."""
    return st.one_of(*[_fitting(schema)] * 9, JSON)


@functools.cache
def values_of(section: str) -> st.SearchStrategy[Any]:
    """Built once: hypothesis would otherwise examine a new strategy for every example."""
    return values(SCHEMA["properties"][section])


def _fitting(schema: Schema) -> st.SearchStrategy[Any]:
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    kinds = schema.get("type", [])
    options = [_of_type(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return st.one_of(*options) if options else JSON


def _of_type(kind: str, schema: Schema) -> st.SearchStrategy[Any]:
    if kind == "object":
        properties = {name: values(part) for name, part in schema.get("properties", {}).items()}
        required = {name: properties.pop(name) for name in schema.get("required", []) if name in properties}
        known = st.fixed_dictionaries(required, optional=properties)
        return st.builds(lambda one, more: {**more, **one}, known, st.just({}) | st.just({"unknown": 1}))
    if kind == "array":
        return st.lists(values(schema.get("items", {})), max_size=2)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "integer": st.integers(-1, 9),
        "number": st.floats(-1, 9),
        "string": st.sampled_from(["", "x", "a" * 40, "2026-11-29T16:52:00Z"]),
    }
    return simple[kind]


@pytest.mark.parametrize("section", [*SECTIONS, "history"])
@given(data=st.data())
def test_our_validator_and_jsonschema_find_the_same_places(section: str, data: st.DataObject) -> None:
    schema = SCHEMA["properties"][section]
    value = data.draw(values_of(section))
    ours = {flaw.pointer for flaw in flaws(value, schema)}
    theirs = set()
    for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
        pointer = "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in error.absolute_path)
        if error.validator == "required":
            assert isinstance(error.instance, dict)
            theirs |= {f"{pointer}/{name}" for name in error.validator_value if name not in error.instance}
        elif error.validator == "additionalProperties":
            assert isinstance(error.instance, dict)
            unknown = [name for name in error.instance if name not in error.schema["properties"]]
            theirs |= {pointer + "/" + name.replace("~", "~0").replace("/", "~1") for name in unknown}
        else:
            theirs.add(pointer)
    assert ours == theirs


@pytest.mark.parametrize(
    ("value", "schema", "pointer", "problem"),
    [
        ({"tokns": 1}, SECTIONS["measured"], "/tokns", "is not known, nearest is tokens"),
        ({"zzz": 1}, SECTIONS["measured"], "/zzz", "is not known"),
        ({"tokens": "1"}, SECTIONS["measured"], "/tokens", "is string, expected integer or null"),
        ({"tokens": True}, SECTIONS["measured"], "/tokens", "is boolean, expected integer or null"),
        ({"tokens": -1}, SECTIONS["measured"], "/tokens", "is below 0"),
        ({"concurrency": float("nan")}, SECTIONS["measured"], "/concurrency", "is no finite number"),
        ({"full": {"state": "fine"}}, SECTIONS["health"], "/full/state", "must be one of no_response"),
        ({"quick": {}}, SECTIONS["health"], "/quick/state", "is missing"),
        ([{"name": "a", "value": 1, "reason": ""}], SECTIONS["decisions"], "/0/reason", "is empty"),
        ({"commit": "main"}, SECTIONS["identity"], "/commit", "does not match"),
        ({"memory": {"a/b~c": 1}}, SECTIONS["predicted"], "/memory/a~1b~0c", "is not known"),
        ({"schema_version": 2}, SCHEMA["properties"]["schema_version"], "", "must be 1"),
    ],
)
def test_a_flaw_is_named_by_its_pointer(value: Any, schema: Schema, pointer: str, problem: str) -> None:
    found = list(flaws(value, schema))
    assert [(flaw.pointer, flaw.problem[: len(problem)]) for flaw in found] == [(pointer, problem)]
