# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How a new observation enters a section: what stays, what is replaced, what counts as a change."""

from __future__ import annotations

from typing import Any

from .schema_types import Schema

_ABSENT = object()


def merge(old: Any, new: Any, schema: Schema) -> Any:
    """The section after `new` was written over `old` (None: there was none), by the schema's x-merge.

    When the two differ in volatile fields only, the section stays as it was.
    """
    if old is None:
        return new
    rule = schema["x-merge"]
    merged: Any = new
    if rule == "name":
        merged = list({entry["name"]: entry for entry in [*old, *new]}.values())
    elif rule != "replace":
        merged = {**old, **new}
    if rule == "union":
        merged.update({key: _union(old[key], new[key]) for key in new if isinstance(old.get(key), list)})
    return old if settled(merged, schema) == settled(old, schema) else merged


def _union(old: list[Any], new: list[Any]) -> list[Any]:
    return old + [item for index, item in enumerate(new) if item not in old and item not in new[:index]]


def settled(value: Any, schema: Schema) -> Any:
    """The value without what differs from one measurement to the next."""
    if isinstance(value, list):
        return [settled(item, schema.get("items", {})) for item in value]
    if isinstance(value, dict):
        properties: dict[str, Schema] = schema.get("properties", {})
        return {
            name: settled(item, properties.get(name, {}))
            for name, item in value.items()
            if not properties.get(name, {}).get("x-volatile")
        }
    return value


def differing(old: Any, new: Any) -> list[str]:
    """The keys of an object, or the names in a list of named entries, that are not the same in both."""
    before, after = _named(old), _named(new)
    return [name for name in {**before, **after} if before.get(name, _ABSENT) != after.get(name, _ABSENT)]


def _named(section: Any) -> dict[str, Any]:
    return {entry["name"]: entry for entry in section} if isinstance(section, list) else section or {}
