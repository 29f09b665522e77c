# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The schema of deployment.json: JSON Schema 2020-12 as a Python value, because only .py files reach the host.

docs/schema/deployment.schema.json is the same text for readers; a test holds the two together. Sizes are bytes unless a
name says otherwise. Three annotations of our own say how a section is written:

x-merge: "replace"  what is written is the whole section (one observation)
         "keys"     the keys that are written replace those of the section, the others stay
         "name"     a list whose entries replace the entry of the same `name`
         "union"    like "keys", and lists grow by what they do not hold yet
x-volatile: true    differs from one measurement to the next; alone it never makes a record a new one
"""

from __future__ import annotations

from .compared import BASELINE
from .planned import CHECKPOINT, DECISIONS, IDENTITY, PLAN, PREDICTED
from .proven import BENCHMARK, HEALTH, HISTORY, MEASURED, NOTES, RETIRED
from .schema_types import Schema, closed

SECTIONS: dict[str, Schema] = {
    "identity": IDENTITY,
    "plan": PLAN,
    "decisions": DECISIONS,
    "checkpoint": CHECKPOINT,
    "predicted": PREDICTED,
    "measured": MEASURED,
    "health": HEALTH,
    "benchmark": BENCHMARK,
    "baseline": BASELINE,
    "retired": RETIRED,
    "notes": NOTES,
}
VERSION = 1

SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "deployment.json",
    "description": "The record that blackwell.serving keeps of one deployed service. Sizes are bytes.",
    **closed(
        {"schema_version": {"const": VERSION}, **SECTIONS, "history": HISTORY},
        required=["schema_version", "identity", "history"],
    ),
}
