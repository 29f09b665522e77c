# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One method for each kind of expression that an engine's source is read through; their names are those of ast."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import operations
from .values import (
    SPOILED,
    External,
    Native,
    Recorder,
    Source,
    SourceClass,
    SourceFunction,
    Subscript,
    Unknown,
    Value,
    is_spoiled,
)

if TYPE_CHECKING:
    from .calls import Calls
    from .names import Names

Scope = dict[str, Value]
# Of f"{value}", f"{value!s}" and f"{value!r}".
_CONVERSIONS: dict[int, Callable[[Value], str]] = {-1: str, ord("s"): str, ord("r"): repr}


class Expressions:
    """The part of the interpreter that goes through expressions.

    names:   looks up what is defined elsewhere
    calls:   evaluates calls
    natives: functions of the engine with a meaning of their own here, by name
    """

    names: Names
    calls: Calls
    natives: dict[str, Native]

    def evaluate(self, node: ast.expr, source: Source, scope: Scope) -> Value:
        """The value of an expression; Unknown when reading cannot tell it."""
        known: Callable[..., Value] | None = getattr(self, f"_{type(node).__name__}", None)
        if known is None:
            return Unknown(f"an expression of kind {type(node).__name__} cannot be told", source.where(node))
        return known(node, source, scope)

    def name(self, name: str, source: Source, scope: Scope, node: ast.AST) -> Value:
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Value, scope: Scope) -> None:
        raise NotImplementedError

    def truth(self, value: Value, where: str) -> bool | Unknown:
        raise NotImplementedError

    def _Constant(self, node: ast.Constant, _source: Source, _scope: Scope) -> Value:
        return node.value

    def _Name(self, node: ast.Name, source: Source, scope: Scope) -> Value:
        value = self.name(node.id, source, scope, node)
        return operations.CONSTANTS.get(value.name, value) if isinstance(value, External) else value

    def _Attribute(self, node: ast.Attribute, source: Source, scope: Scope) -> Value:
        owner = self.evaluate(node.value, source, scope)
        where = source.where(node)
        if isinstance(owner, Recorder):
            return owner.attribute(node.attr, where)
        if operations.has_method(owner, node.attr):
            uncertain = self.calls.uncertain > 0
            return Native(
                node.attr,
                lambda given, keywords, place: operations.method(
                    owner, node.attr, given, keywords, place, uncertain=uncertain
                ),
            )
        if isinstance(owner, Unknown) and node.attr in self.natives:
            return self.natives[node.attr]
        value = self.names.attribute(owner, node.attr, where)
        return operations.CONSTANTS.get(value.name, value) if isinstance(value, External) else value

    def _Subscript(self, node: ast.Subscript, source: Source, scope: Scope) -> Value:
        owner = self.evaluate(node.value, source, scope)
        index: Value
        if isinstance(node.slice, ast.Slice):
            parts = [node.slice.lower, node.slice.upper, node.slice.step]
            index = slice(*(None if part is None else self.evaluate(part, source, scope) for part in parts))
        else:
            index = self.evaluate(node.slice, source, scope)
        if isinstance(owner, (External, SourceClass, Subscript)):
            return Subscript(owner, index if isinstance(index, tuple) else (index,))
        if isinstance(owner, Unknown) or isinstance(index, Unknown):
            return owner if isinstance(owner, Unknown) else index
        if isinstance(owner, dict) and SPOILED in owner:
            return owner[SPOILED]
        try:
            return owner[index]
        except operations.FAILURES as error:
            return Unknown(f"{ast.unparse(node)} fails: {type(error).__name__} {error}", source.where(node))

    def _elements(self, nodes: list[ast.expr], source: Source, scope: Scope) -> list[Value]:
        found: list[Value] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                value = self.evaluate(node.value, source, scope)
                known = isinstance(value, (list, tuple, set, dict, str))
                found += value if known else [Unknown("a starred list cannot be told", source.where(node))]
            else:
                found.append(self.evaluate(node, source, scope))
        return found

    def _List(self, node: ast.List, source: Source, scope: Scope) -> Value:
        return self._elements(node.elts, source, scope)

    def _Tuple(self, node: ast.Tuple, source: Source, scope: Scope) -> Value:
        return tuple(self._elements(node.elts, source, scope))

    def _Set(self, node: ast.Set, source: Source, scope: Scope) -> Value:
        elements = self._elements(node.elts, source, scope)
        try:
            return set(elements)
        except TypeError:
            return Unknown("the set cannot be told", source.where(node))

    def _Dict(self, node: ast.Dict, source: Source, scope: Scope) -> Value:
        found: dict[Value, Value] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.evaluate(value_node, source, scope)
            if key_node is None:
                found.update(value if isinstance(value, dict) else {SPOILED: Unknown("not a dict", source.where(node))})
                continue
            key = self.evaluate(key_node, source, scope)
            try:
                found[SPOILED if isinstance(key, Unknown) else key] = key if isinstance(key, Unknown) else value
            except TypeError:
                found[SPOILED] = Unknown("a key cannot be told", source.where(key_node))
        return found

    def _JoinedStr(self, node: ast.JoinedStr, source: Source, scope: Scope) -> Value:
        text = ""
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                text += str(self.evaluate(part, source, scope))
                continue
            value = self.evaluate(part.value, source, scope)
            known = isinstance(value, (str, int, float, list, tuple)) and not is_spoiled(value)
            if not known or part.format_spec is not None or part.conversion not in _CONVERSIONS:
                return value if isinstance(value, Unknown) else Unknown("the text cannot be told", source.where(node))
            text += _CONVERSIONS[part.conversion](value)
        return text

    def _BinOp(self, node: ast.BinOp, source: Source, scope: Scope) -> Value:
        left, right = self.evaluate(node.left, source, scope), self.evaluate(node.right, source, scope)
        return operations.binary(node.op, left, right, source.where(node))

    def _UnaryOp(self, node: ast.UnaryOp, source: Source, scope: Scope) -> Value:
        value = self.evaluate(node.operand, source, scope)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value, source.where(node))
            return truth if isinstance(truth, Unknown) else not truth
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        return value if isinstance(value, Unknown) else Unknown("an operation cannot be told", source.where(node))

    def _BoolOp(self, node: ast.BoolOp, source: Source, scope: Scope) -> Value:
        value: Value = None
        for part in node.values:
            value = self.evaluate(part, source, scope)
            truth = self.truth(value, source.where(part))
            if isinstance(truth, Unknown) or truth is isinstance(node.op, ast.Or):
                return truth if isinstance(truth, Unknown) else value
        return value

    def _Compare(self, node: ast.Compare, source: Source, scope: Scope) -> Value:
        left = self.evaluate(node.left, source, scope)
        result: Value = True
        for kind, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(right_node, source, scope)
            result = operations.compare(kind, left, right, source.where(node))
            if isinstance(result, Unknown) or not result:
                return result
            left = right
        return result

    def _IfExp(self, node: ast.IfExp, source: Source, scope: Scope) -> Value:
        truth = self.truth(self.evaluate(node.test, source, scope), source.where(node.test))
        if isinstance(truth, Unknown):
            return truth
        return self.evaluate(node.body if truth else node.orelse, source, scope)

    def _Lambda(self, node: ast.Lambda, source: Source, scope: Scope) -> Value:
        return SourceFunction(source, node, scope=scope)

    def _ListComp(self, node: ast.ListComp | ast.GeneratorExp, source: Source, scope: Scope) -> Value:
        found: list[Value] = []
        for inner in self._rounds(node.generators, source, scope):
            if isinstance(inner, Unknown):
                return inner
            found.append(self.evaluate(node.elt, source, inner))
        return found

    _GeneratorExp = _ListComp

    def _rounds(self, generators: list[ast.comprehension], source: Source, scope: Scope) -> Iterator[Any]:
        if not generators:
            yield scope
            return
        first, *others = generators
        items = self.evaluate(first.iter, source, scope)
        if not isinstance(items, (list, tuple, set, dict, str)):
            yield Unknown("what is gone through cannot be told", source.where(first.iter))
            return
        for item in items:
            inner = dict(scope)
            self.bind(first.target, item, inner)
            kept = [self.truth(self.evaluate(test, source, inner), source.where(test)) for test in first.ifs]
            unknown = next((truth for truth in kept if isinstance(truth, Unknown)), None)
            if unknown is not None:
                yield unknown
            elif all(kept):
                yield from self._rounds(others, source, inner)

    def _Call(self, node: ast.Call, source: Source, scope: Scope) -> Value:
        return self.calls.expression(node, source, scope)
