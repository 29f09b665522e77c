# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The words that the schema of deployment.json is written in."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
TEXT: Schema = {"type": ["string", "null"]}
BOOLEAN: Schema = {"type": ["boolean", "null"]}
INTEGER: Schema = {"type": ["integer", "null"]}
COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}
NUMBER: Schema = {"type": ["number", "null"]}
ANY: Schema = {}
STRINGS: Schema = {"type": "array", "items": STRING}


def closed(properties: dict[str, Schema], *, required: list[str] | None = None, nullable: bool = False) -> Schema:
    """An object that takes these keys and no others."""
    schema: Schema = {"type": ["object", "null"] if nullable else "object", "properties": properties}
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def array(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def described(text: str, schema: Schema) -> Schema:
    return {"description": text, **schema}


def volatile(schema: Schema) -> Schema:
    """A field that differs from one measurement to the next."""
    return {**schema, "x-volatile": True}


def section(merge: str, text: str, schema: Schema) -> Schema:
    return {"description": text, "x-merge": merge, **schema}
