# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What the checks ask, as data: a section for each check, of which a user replaces any.

A check's file has `DEFAULT`, its section for instruction-tuned models, and `read(section, where)`, which turns a
section into what the check works with. A section that is null says that the check does not apply to this model.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..errors import ServingError


def load(source: Any) -> dict[str, Any]:
    """Sections by the check's name, from a dictionary, a list (the section exact_set), or a JSON file with either."""
    where = "questions"
    value = source
    if isinstance(source, str):
        where = source
        try:
            value = json.loads(Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ServingError("the questions cannot be read", where=where, why=str(error)) from error
    if isinstance(value, list):
        return {"exact_set": value}
    if not isinstance(value, dict):
        raise ServingError(
            "questions must be a dictionary with a section for each check, or a list for exact_set", where=where
        )
    return value


def members(section: Any, where: str, known: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """The section as a dictionary whose members are known and of their types; an error names the one that is not."""
    if not isinstance(section, dict):
        raise _unusable(where, "it is not a dictionary", known)
    for name, value in section.items():
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            raise _unusable(where, f"unknown key {name!r}" + (f", did you mean {near[0]}?" if near else ""), known)
        kind = known[name]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise _unusable(where, f"{name} has the type {type(value).__name__}", known)
    return dict(section)


def _unusable(where: str, why: str, known: Collection[str]) -> ServingError:
    return ServingError(f"{where} is not usable", why=why, remedy=f"Its keys are {', '.join(known)}")
