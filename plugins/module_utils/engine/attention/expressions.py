# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Evaluating expressions of a source by reading its syntax tree: what is not known to be harmless is unknown."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .scope import Scope
from .values import (
    Class,
    External,
    Function,
    Instance,
    Member,
    Module,
    Raised,
    Record,
    Super,
    Unknown,
    Unresolved,
    Value,
)

PLAIN = (str, bytes, int, float, bool, type(None), tuple, list, set, frozenset, dict)
LARGEST_POWER = 64
MOST_STEPS = 200_000  # expressions and statements of one question
LONGEST = 10_000  # elements, characters
LARGEST = 1 << 256

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass
class Frame:
    """Where names are looked up: the locals, then what encloses them, then the module."""

    scope: Scope
    locals: dict[str, Value]
    owner: Class | None = None
    receiver: Value = None
    closure: dict[str, Value] | None = None


class Expressions(ABC):
    """What Interpreter needs to know of expressions."""

    def __init__(self) -> None:
        self.steps = 0
        self._methods: dict[type[ast.expr], Callable[[Any, Frame], Value]] = {}

    def count(self, node: ast.AST, frame: Frame) -> None:
        """One more step; a source that takes too many of them is not followed further."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Unresolved(Unknown("a computation of this length", frame.scope.place(node)))

    def holds(self, test: ast.expr, frame: Frame) -> bool:
        """Whether the condition is true; one that cannot be told is decided, both ways in turn."""
        value = self.evaluate(test, frame)
        return bool(value) if isinstance(value, PLAIN) else self.truth(value, frame.scope.place(test))

    @abstractmethod
    def name(self, node: ast.Name, frame: Frame) -> Value: ...

    @abstractmethod
    def attribute(self, value: Value, name: str, place: str) -> Value: ...

    @abstractmethod
    def call(self, function: Value, arguments: list[Value], keywords: dict[str, Value], place: str) -> Value: ...

    @abstractmethod
    def truth(self, value: Value, place: str) -> bool: ...

    @abstractmethod
    def member_of(self, enum: Class, name: str, place: str) -> Value: ...

    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """The value of the expression, or Unknown."""
        self.count(node, frame)
        known = self._methods.get(type(node))
        if known is not None:
            return known(node, frame)
        method: Callable[[Any, Frame], Value] = getattr(self, f"_eval_{type(node).__name__.lower()}", self.unknown)
        self._methods[type(node)] = method
        return method(node, frame)

    def unknown(self, node: ast.expr, frame: Frame) -> Unknown:
        return Unknown(ast.unparse(node), frame.scope.place(node))

    def _eval_constant(self, node: ast.Constant, frame: Frame) -> Value:
        return node.value

    def _eval_name(self, node: ast.Name, frame: Frame) -> Value:
        return self.name(node, frame)

    def _eval_attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        return self.attribute(self.evaluate(node.value, frame), node.attr, frame.scope.place(node))

    def _eval_tuple(self, node: ast.Tuple, frame: Frame) -> Value:
        return tuple(self._elements(node.elts, frame))

    def _eval_list(self, node: ast.List, frame: Frame) -> Value:
        return self._elements(node.elts, frame)

    def _eval_set(self, node: ast.Set, frame: Frame) -> Value:
        elements = self._elements(node.elts, frame)
        return self.unknown(node, frame) if holds_unknown(elements) else set(elements)

    def _eval_dict(self, node: ast.Dict, frame: Frame) -> Value:
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
        if isinstance(value, (list, tuple, str, set, frozenset, dict, range)):
            return list(value)
        raise Unresolved(Unknown(f"an iteration over {type(value).__name__}", place))

    def _eval_boolop(self, node: ast.BoolOp, frame: Frame) -> Value:
        stops_at = isinstance(node.op, ast.Or)
        value: Value = None
        for position, operand in enumerate(node.values):
            value = self.evaluate(operand, frame)
            if position == len(node.values) - 1:
                break
            holds = bool(value) if isinstance(value, PLAIN) else self.truth(value, frame.scope.place(operand))
            if holds is stops_at:
                return stops_at if isinstance(value, Unknown) else value
        return value

    def _eval_unaryop(self, node: ast.UnaryOp, frame: Frame) -> Value:
        if isinstance(node.op, ast.Not):
            return not self.holds(node.operand, frame)
        value = self.evaluate(node.operand, frame)
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        return self.unknown(node, frame)

    def _eval_binop(self, node: ast.BinOp, frame: Frame) -> Value:
        left, right = self.evaluate(node.left, frame), self.evaluate(node.right, frame)
        if (
            isinstance(node.op, ast.Pow)
            and isinstance(left, int)
            and isinstance(right, int)
            and 0 <= right <= LARGEST_POWER
        ):
            return left**right
        return self._operate(node.op, left, right, node, frame)

    def _operate(self, operation: ast.AST, left: Value, right: Value, node: ast.expr, frame: Frame) -> Value:
        function = _OPERATORS.get(type(operation))
        if function is None or not isinstance(left, PLAIN) or not isinstance(right, PLAIN):
            return self.unknown(node, frame)
        if isinstance(operation, ast.Mult) and not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
            return self.unknown(node, frame)
        if isinstance(operation, ast.Mod) and isinstance(left, (str, bytes)):
            return self.unknown(node, frame)
        try:
            result = function(left, right)
            return self.unknown(node, frame) if is_too_large(result) else result
        except (TypeError, ValueError, ArithmeticError):
            return self.unknown(node, frame)

    def _eval_compare(self, node: ast.Compare, frame: Frame) -> Value:
        left = self.evaluate(node.left, frame)
        result: Value = True
        for position, (operation, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.evaluate(comparator, frame)
            result = self._compare(operation, left, right, node, frame)
            last = position == len(node.ops) - 1
            if not last and not self.truth(result, frame.scope.place(node)):
                return False
            left = right
        return result

    def _compare(self, operation: ast.cmpop, left: Value, right: Value, node: ast.expr, frame: Frame) -> Value:
        if isinstance(operation, (ast.Eq, ast.NotEq)):
            result = equal(left, right)
        elif isinstance(operation, (ast.Is, ast.IsNot)):
            result = same(left, right)
        elif isinstance(operation, (ast.In, ast.NotIn)):
            result = contains(right, left)
        else:
            return self._operate(operation, left, right, node, frame)
        if result is None:
            return self.unknown(node, frame)
        return not result if isinstance(operation, (ast.NotEq, ast.IsNot, ast.NotIn)) else result

    def _eval_ifexp(self, node: ast.IfExp, frame: Frame) -> Value:
        chosen = node.body if self.holds(node.test, frame) else node.orelse
        return self.evaluate(chosen, frame)

    def _eval_namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Value:
        frame.locals[node.target.id] = value = self.evaluate(node.value, frame)
        return value

    def _eval_lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return Function(node, frame.scope, frame.owner, {**(frame.closure or {}), **frame.locals})

    def _eval_joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Value:
        """A text is never decided upon, so that an unknown part of it stays readable."""
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.evaluate(part.value, frame)
                shown = "?" if holds_unknown([value]) else shown_as(value, representation=part.conversion == ord("r"))
                parts.append(shown)
            elif isinstance(part, ast.Constant):
                parts.append(str(part.value))
        return "".join(parts)

    def _eval_subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        if isinstance(value, External) and value.name.endswith(".Literal"):
            inner = self.evaluate(node.slice, frame)
            return Record("Literal", {"args": inner if isinstance(inner, tuple) else (inner,)})
        if isinstance(value, External):
            return value  # a type with its parameters
        key = self._slice(node.slice, frame)
        if isinstance(value, Class):
            return self.member_of(value, key, frame.scope.place(node)) if isinstance(key, str) else value
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

    def _eval_call(self, node: ast.Call, frame: Frame) -> Value:
        place = frame.scope.place(node)
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
                return self.unknown(node, frame)
        result = self.call(function, arguments, keywords, place)
        if isinstance(result, Unknown) and isinstance(function, (Unknown, External)):
            return self.unknown(node, frame)
        return result

    def _eval_listcomp(self, node: ast.ListComp | ast.GeneratorExp, frame: Frame) -> Value:
        return [self.evaluate(node.elt, inner) for inner in self._generate(node.generators, frame)]

    _eval_generatorexp = _eval_listcomp

    def _eval_setcomp(self, node: ast.SetComp, frame: Frame) -> Value:
        elements = [self.evaluate(node.elt, inner) for inner in self._generate(node.generators, frame)]
        return self.unknown(node, frame) if holds_unknown(elements) else set(elements)

    def _eval_dictcomp(self, node: ast.DictComp, frame: Frame) -> Value:
        frames = self._generate(node.generators, frame)
        return {self.evaluate(node.key, inner): self.evaluate(node.value, inner) for inner in frames}

    def _generate(self, generators: list[ast.comprehension], frame: Frame) -> Iterable[Frame]:
        first, *rest = generators
        if first.is_async:
            raise Unresolved(Unknown("an asynchronous comprehension", frame.scope.place(first.iter)))
        for element in self.iterate(self.evaluate(first.iter, frame), frame.scope.place(first.iter)):
            inner = replace(frame, locals=dict(frame.locals))
            self.assign(first.target, element, inner)
            if all(self.holds(test, inner) for test in first.ifs):
                yield from self._generate(rest, inner) if rest else [inner]

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None: ...


def holds_unknown(values: Iterable[Value]) -> bool:
    for value in values:
        if isinstance(value, Unknown):
            return True
        if isinstance(value, (list, tuple, set, frozenset)) and holds_unknown(value):
            return True
        if isinstance(value, Mapping) and holds_unknown(value.values()):
            return True
    return False


def is_too_large(value: Value) -> bool:
    """Whether working on with it could take more memory than a question is worth."""
    if isinstance(value, int):
        return abs(value) > LARGEST
    return isinstance(value, (str, bytes, list, tuple, set, frozenset, dict)) and len(value) > LONGEST


def is_hashable(value: Value) -> bool:
    return not isinstance(value, (list, dict, set, Unknown))


def shown_as(value: Value, *, representation: bool = False) -> str:
    """The value as an f-string of the source would print it, as far as that matters in a reason."""
    if isinstance(value, External):
        return value.name
    if isinstance(value, Record) and "message" in value.fields:  # an exception
        message = value.fields["message"]
        return f"{value.name}({message!r})" if representation else str(message)
    return repr(value) if representation else str(value)


def same(left: Value, right: Value) -> bool | None:
    """Identity; None when it cannot be told."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return None
    singletons = (type(None), bool)
    if isinstance(left, singletons) or isinstance(right, singletons):
        if isinstance(left, External) or isinstance(right, External):
            return None if not (left is None or right is None) else _external_is_none(left, right)
        return left is right
    if isinstance(left, PLAIN) and isinstance(right, PLAIN):
        return None if equal(left, right) else False  # whether two equal values are one object is Python's affair
    return equal(left, right)


def _external_is_none(left: Value, right: Value) -> bool | None:
    """A class, function or dtype of another package is not None; an attribute such as torch.version.cuda may be."""
    external = left if isinstance(left, External) else right
    return None if ".version." in external.name else False


def equal(left: Value, right: Value) -> bool | None:
    """Equality; None when it cannot be told."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return None
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Member) and not isinstance(other, Member):
            return equal(one.value, other) if one.is_plain else False
    if isinstance(left, External) and isinstance(right, External):
        return True if left == right else (False if is_dtype(left) and is_dtype(right) else None)
    if isinstance(left, External) or isinstance(right, External):
        return False if is_dtype(left) or is_dtype(right) else None
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)) and type(left) is type(right):
        if len(left) != len(right):
            return False
        results = [equal(one, other) for one, other in zip(left, right, strict=True)]
        return False if False in results else (None if None in results else True)
    if isinstance(left, (Instance, Record)) or isinstance(right, (Instance, Record)):
        return True if left is right else None
    if isinstance(left, (Class, Module, Function)) or isinstance(right, (Class, Module, Function)):
        return left is right
    return bool(left == right)


def is_dtype(value: Value) -> bool:
    """torch.bfloat16 and its like: constants that differ when their names differ."""
    prefix, _dot, name = value.name.rpartition(".") if isinstance(value, External) else ("", "", "")
    return prefix == "torch" and name.rstrip("0123456789_emfnuz") in ("float", "bfloat", "int", "uint", "bool")


def contains(container: Value, element: Value) -> bool | None:
    if isinstance(container, str):
        return element in container if isinstance(element, str) else None
    if not isinstance(container, (list, tuple, set, frozenset, dict)):
        return None
    results = [equal(element, other) for other in container]
    return True if True in results else (None if None in results else False)
