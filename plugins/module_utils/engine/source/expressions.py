# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Expressions of a source, evaluated on their syntax tree: what is not known to be harmless is Unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .operations import (
    compare,
    holds_spoiled,
    holds_unknown,
    is_hashable,
    operate,
)
from .scope import Frame
from .texts import text
from .values import (
    SPOILED,
    Class,
    External,
    Function,
    Native,
    Raised,
    Recorder,
    Super,
    Unknown,
    Unresolved,
    Value,
)

if TYPE_CHECKING:
    from .reader import Reader


class Expressions:
    """One method for each kind of expression that is followed; their names are those of ast."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._methods: dict[type[ast.expr], Callable[[Any, Frame], Value]] = {}

    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """The value of the expression, or Unknown."""
        self.reader.count(node, frame)
        method = self._methods.get(type(node))
        if method is None:
            method = self._methods[type(node)] = getattr(self, f"_{type(node).__name__.lower()}", self.unknown)
        try:
            return method(node, frame)
        except (Unresolved, Raised) as error:
            unknown = self.reader.passed_over(error, frame.scope.place(node))
            if unknown is None:
                raise
            self._tell_recorders(node, frame, unknown)
            return unknown

    def _tell_recorders(self, node: ast.expr, frame: Frame, unknown: Unknown) -> None:
        """The expression was left half evaluated."""
        for part in ast.walk(node):
            value = frame.locals.get(part.id) if isinstance(part, ast.Name) else None
            if isinstance(value, Recorder):
                value.lost(f"it is used in a way that cannot be told: {unknown}")

    def holds(self, test: ast.expr, frame: Frame) -> bool:
        """Whether the condition is true; one that cannot be told is for the reader's tolerance to decide."""
        return self.reader.truth(self.evaluate(test, frame), frame.scope.place(test))

    def unknown(self, node: ast.expr, frame: Frame) -> Unknown:
        return Unknown(ast.unparse(node), frame.scope.place(node))

    def _told(self, result: Value, node: ast.expr, frame: Frame) -> Value:
        return self.unknown(node, frame) if result is None else result

    def _constant(self, node: ast.Constant, frame: Frame) -> Value:
        return node.value

    def _name(self, node: ast.Name, frame: Frame) -> Value:
        return self.reader.name(node, frame)

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        return self.reader.attribute(self.evaluate(node.value, frame), node.attr, frame.scope.place(node))

    def _tuple(self, node: ast.Tuple, frame: Frame) -> Value:
        return tuple(self._elements(node.elts, frame))

    def _list(self, node: ast.List, frame: Frame) -> Value:
        return self._elements(node.elts, frame)

    def _set(self, node: ast.Set, frame: Frame) -> Value:
        return self._as_set(self._elements(node.elts, frame), node, frame)

    def _as_set(self, elements: list[Value], node: ast.expr, frame: Frame) -> Value:
        told = not holds_unknown(elements) and all(is_hashable(element) for element in elements)
        return set(elements) if told else self.unknown(node, frame)

    def _dict(self, node: ast.Dict, frame: Frame) -> Value:
        result: dict[Value, Value] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                inner = self.evaluate(value, frame)
                if not isinstance(inner, dict):
                    return self.unknown(node, frame)
                result.update(inner)
                continue
            name = self.evaluate(key, frame)
            if not is_hashable(name):
                return self.unknown(node, frame)
            result[name] = self.evaluate(value, frame)
        return result

    def _elements(self, nodes: Iterable[ast.expr], frame: Frame) -> list[Value]:
        result: list[Value] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                result.extend(self.iterate(self.evaluate(node.value, frame), frame.scope.place(node)))
            else:
                result.append(self.evaluate(node, frame))
        return result

    def iterate(self, value: Value, place: str) -> list[Value]:
        if isinstance(value, Unknown):
            raise Unresolved(value)
        if isinstance(value, (list, tuple, str, set, frozenset, dict, range)) and not holds_spoiled(value):
            return list(value)
        raise Unresolved(Unknown(f"an iteration over {type(value).__name__}", place))

    def _boolop(self, node: ast.BoolOp, frame: Frame) -> Value:
        stops_at = isinstance(node.op, ast.Or)
        value: Value = None
        for position, operand in enumerate(node.values):
            value = self.evaluate(operand, frame)
            if position == len(node.values) - 1:
                break
            if self.reader.truth(value, frame.scope.place(operand)) is stops_at:
                return stops_at if isinstance(value, Unknown) else value
        return value

    def _unaryop(self, node: ast.UnaryOp, frame: Frame) -> Value:
        if isinstance(node.op, ast.Not):
            return not self.holds(node.operand, frame)
        value = self.evaluate(node.operand, frame)
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        return self.unknown(node, frame)

    def _binop(self, node: ast.BinOp, frame: Frame) -> Value:
        return self._told(
            operate(node.op, self.evaluate(node.left, frame), self.evaluate(node.right, frame)), node, frame
        )

    def _compare(self, node: ast.Compare, frame: Frame) -> Value:
        left = self.evaluate(node.left, frame)
        result: Value = True
        for position, (operation, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.evaluate(comparator, frame)
            result = self._told(compare(operation, left, right), node, frame)
            last = position == len(node.ops) - 1
            if not last and not self.reader.truth(result, frame.scope.place(node)):
                return False
            left = right
        return result

    def _ifexp(self, node: ast.IfExp, frame: Frame) -> Value:
        return self.evaluate(node.body if self.holds(node.test, frame) else node.orelse, frame)

    def _namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Value:
        frame.locals[node.target.id] = value = self.evaluate(node.value, frame)
        return value

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return Function(node, frame.scope, frame.owner, {**(frame.closure or {}), **frame.locals})

    def _joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Value:
        shown, whole = text(self.reader, node, frame)
        return shown if whole or not self.reader.tolerance else self.unknown(node, frame)

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        if isinstance(value, External) and isinstance(node.slice, ast.Slice):
            return value
        key = self._slice(node.slice, frame)
        if isinstance(value, (External, Native)):  # a type with its parameters
            name = value.name if isinstance(value, External) else f"builtins.{value.name}"
            arguments = key if isinstance(key, tuple) else (key,)
            return External(name, tuple(tuple(each) if isinstance(each, list) else each for each in arguments))
        if isinstance(value, Class):
            return self.reader.member_of(value, key) if isinstance(key, str) else value
        if holds_spoiled(value):
            return value[SPOILED]
        if isinstance(value, (list, tuple, str, dict)) and not holds_unknown([key]):
            try:
                return value[key]
            except LookupError as error:
                raise Raised(type(error).__name__, str(error)) from error
            except TypeError:
                return self.unknown(node, frame)
        return self.unknown(node, frame)

    def _slice(self, node: ast.expr, frame: Frame) -> Value:
        if not isinstance(node, ast.Slice):
            return self.evaluate(node, frame)
        bounds = [None if part is None else self.evaluate(part, frame) for part in (node.lower, node.upper, node.step)]
        return self.unknown(node, frame) if holds_unknown(bounds) else slice(*bounds)

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and frame.owner is not None:
            return Super(frame.owner, frame.receiver)
        function = self.evaluate(node.func, frame)
        arguments = self._elements(node.args, frame)
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, frame)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords.update(value)
            else:
                keywords[SPOILED] = self.unknown(keyword.value, frame)
        if SPOILED in keywords and not isinstance(function, Native):
            self._tell_recorders(node, frame, keywords[SPOILED])
            return self.unknown(node, frame)
        result = self.reader.call(function, arguments, keywords, frame.scope.place(node))
        if isinstance(result, Unknown) and isinstance(function, (Unknown, External)):
            return self.unknown(node, frame)
        return result

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp, frame: Frame) -> Value:
        return [self.evaluate(node.elt, inner) for inner in self._generate(node.generators, frame)]

    _generatorexp = _listcomp

    def _setcomp(self, node: ast.SetComp, frame: Frame) -> Value:
        elements = [self.evaluate(node.elt, inner) for inner in self._generate(node.generators, frame)]
        return self._as_set(elements, node, frame)

    def _dictcomp(self, node: ast.DictComp, frame: Frame) -> Value:
        result: dict[Value, Value] = {}
        for inner in self._generate(node.generators, frame):
            key = self.evaluate(node.key, inner)
            if not is_hashable(key):
                return self.unknown(node, frame)
            result[key] = self.evaluate(node.value, inner)
        return result

    def _generate(self, generators: list[ast.comprehension], frame: Frame) -> Iterable[Frame]:
        first, *rest = generators
        if first.is_async:
            raise Unresolved(Unknown("an asynchronous comprehension", frame.scope.place(first.iter)))
        for element in self.iterate(self.evaluate(first.iter, frame), frame.scope.place(first.iter)):
            inner = replace(frame, locals=dict(frame.locals))
            self.reader.assign(first.target, element, inner)
            if all(self.holds(test, inner) for test in first.ifs):
                yield from self._generate(rest, inner) if rest else [inner]
