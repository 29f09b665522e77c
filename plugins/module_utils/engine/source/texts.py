# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Texts that a source puts together, as far as their parts can be told."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .operations import PLAIN, holds_unknown
from .scope import Frame
from .values import External, Member, Record, Unknown, Value

if TYPE_CHECKING:
    from .reader import Reader


def text(reader: Reader, node: ast.expr, frame: Frame) -> tuple[str, bool]:
    """An expression as it is shown to people, with ? for what cannot be told; and whether that is all of it."""
    if isinstance(node, ast.FormattedValue):
        value = reader.evaluate(node.value, frame)
        if holds_unknown([value]):
            return "?", False
        shown = shown_as(value, representation=node.conversion == ord("r"))
        return shown, isinstance(value, (*PLAIN, Member)) and node.format_spec is None
    if isinstance(node, ast.JoinedStr):
        parts = [text(reader, part, frame) for part in node.values]
        return "".join(shown for shown, _whole in parts), all(whole for _shown, whole in parts)
    value = reader.evaluate(node, frame)
    return ("?", False) if isinstance(value, Unknown) else (str(value), True)


def shown_as(value: Value, *, representation: bool = False) -> str:
    """The value as an f-string of the source would print it, as far as that matters in a reason."""
    if isinstance(value, External):
        return value.name
    if isinstance(value, Record) and "message" in value.fields:  # an exception
        message = value.fields["message"]
        return f"{value.name}({message!r})" if representation else str(message)
    return repr(value) if representation else str(value)
