# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a source's assignments and deletions change."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .operations import holds_spoiled, holds_unknown, is_hashable, operate
from .scope import Frame
from .values import Class, External, Instance, Module, Raised, Record, Recorder, Unknown, Unresolved, Value

if TYPE_CHECKING:
    from .reader import Reader


class Assignments:
    """Gives names, attributes and elements their values. What may not be reached makes them unknown."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        place = frame.scope.place(target)
        maybe = value
        if self.reader.uncertain and not isinstance(value, Recorder):
            maybe = Unknown(f"{ast.unparse(target)}, set under a condition", place)
        if isinstance(target, ast.Name):
            frame.locals[target.id] = maybe if target.id in frame.locals else value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element, part in zip(target.elts, self._parts(target, value, place), strict=True):
                self.assign(element, part, frame)
        elif isinstance(target, ast.Attribute):
            holder = self.reader.evaluate(target.value, frame)
            if isinstance(holder, Class):
                holder.body.values[target.attr] = maybe
            elif isinstance(holder, (Instance, Record)):
                holder.fields[target.attr] = maybe
            elif not isinstance(holder, (External, Module)):
                raise Unresolved(Unknown(f"an assignment to {ast.unparse(target)}", place))
        elif isinstance(target, ast.Subscript):
            holder, key = self.reader.evaluate(target.value, frame), self.reader.evaluate(target.slice, frame)
            if not isinstance(holder, (dict, list)) or holds_unknown([key]):
                raise Unresolved(Unknown(f"an assignment to {ast.unparse(target)}", place))
            try:
                holder[key] = maybe
            except LookupError as error:
                raise Raised(type(error).__name__, str(error)) from error
            except TypeError as error:
                raise Unresolved(Unknown(f"an assignment to {ast.unparse(target)}", place)) from error
        else:
            raise Unresolved(Unknown(f"an assignment to {ast.unparse(target)}", place))

    def _parts(self, target: ast.Tuple | ast.List, value: Value, place: str) -> list[Value]:
        """What each of several targets is given."""
        if isinstance(value, Unknown):
            return [Unknown(f"part {at} of {value.what}", value.place) for at in range(len(target.elts))]
        values = self.reader.iterate(value, place)
        if len(values) != len(target.elts):
            raise Unresolved(Unknown(f"{len(values)} values for {ast.unparse(target)}", place))
        return values

    def augment(self, node: ast.AugAssign, frame: Frame) -> None:
        target: Any = node.target
        place = frame.scope.place(node)
        current = ast.BinOp(ast.copy_location(_loaded(target), target), node.op, node.value)
        held, value = self.reader.evaluate(current.left, frame), self.reader.evaluate(node.value, frame)
        if isinstance(held, list) and isinstance(node.op, ast.Add):  # changed in place, for all that refer to it
            result = self.reader.call(self.reader.attribute(held, "extend", place), [value], {}, place) or held
        else:
            result = operate(node.op, held, value)
        self.assign(target, Unknown(ast.unparse(current), place) if result is None else result, frame)

    def delete(self, node: ast.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and not self.reader.uncertain:
                frame.locals.pop(target.id, None)
                continue
            holder = self.reader.evaluate(target.value, frame) if isinstance(target, ast.Subscript) else None
            key = self.reader.evaluate(target.slice, frame) if isinstance(target, ast.Subscript) else None
            if not isinstance(holder, dict) or holds_unknown([key]) or holds_spoiled(holder) or self.reader.uncertain:
                raise Unresolved(Unknown(ast.unparse(node), frame.scope.place(node)))
            if not is_hashable(key) or key not in holder:
                raise Raised("KeyError", str(key))
            del holder[key]


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return target
