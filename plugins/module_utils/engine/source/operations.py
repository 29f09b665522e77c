# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What operators of a source yield: Python's own answer for Python's own values, None or Unknown for all else."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .values import (
    SPOILED,
    Class,
    External,
    Function,
    Instance,
    Member,
    Module,
    Native,
    Record,
    Unknown,
    Value,
)

PLAIN = (str, bytes, int, float, bool, type(None), tuple, list, set, frozenset, dict)
UNION = "typing.Union"
LITERAL = "typing.Literal"
LARGEST_POWER = 64
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
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def operate(operation: ast.AST, left: Value, right: Value) -> Value:
    """The result of a binary operator or an ordering; None when it cannot be told. `|` of types is their union."""
    if isinstance(operation, ast.BitOr) and _is_union(left, right):
        return External(UNION, (left, right))
    function = _OPERATORS.get(type(operation))
    if function is None or not isinstance(left, PLAIN) or not isinstance(right, PLAIN):
        return None
    if holds_spoiled(left) or holds_spoiled(right):
        return None
    if isinstance(operation, (ast.Pow, ast.LShift)) and not (isinstance(left, int) and _is_small(right)):
        return None
    if isinstance(operation, ast.Mult) and not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        return None
    if isinstance(operation, ast.Mod) and isinstance(left, (str, bytes)):
        return None
    try:
        result = function(left, right)
    except (TypeError, ValueError, ArithmeticError):
        return None
    return None if is_too_large(result) else result


def compare(operation: ast.cmpop, left: Value, right: Value) -> bool | None:
    """The result of a comparison; None when it cannot be told."""
    if isinstance(operation, (ast.Eq, ast.NotEq)):
        result = equal(left, right)
    elif isinstance(operation, (ast.Is, ast.IsNot)):
        result = same(left, right)
    elif isinstance(operation, (ast.In, ast.NotIn)):
        result = contains(right, left)
    else:
        result = operate(operation, left, right)
    if result is None:
        return None
    return not result if isinstance(operation, (ast.NotEq, ast.IsNot, ast.NotIn)) else result


def _is_union(left: Value, right: Value) -> bool:
    """Whether one is a type, and the other one, None or the name of one."""
    types = (External, Class, Native)
    return any(isinstance(each, types) for each in (left, right)) and all(
        isinstance(each, (*types, str, type(None), Unknown)) for each in (left, right)
    )


def _is_small(value: Value) -> bool:
    return isinstance(value, int) and 0 <= value <= LARGEST_POWER


def holds_unknown(values: Iterable[Value]) -> bool:
    for value in values:
        if isinstance(value, Unknown):
            return True
        if isinstance(value, (list, tuple, set, frozenset)) and holds_unknown(value):
            return True
        if isinstance(value, Mapping) and holds_unknown(value.values()):
            return True
    return False


def holds_spoiled(value: Value) -> bool:
    """Whether it is a dict whose keys cannot be told any more."""
    return isinstance(value, dict) and SPOILED in value


def is_told(value: Value) -> bool:
    """Whether a value is known, and what it directly holds where that decides what it means."""
    if isinstance(value, Unknown) or holds_spoiled(value):
        return False
    return not (isinstance(value, (list, tuple, set)) and any(isinstance(item, Unknown) for item in value))


def spoil(container: Value, unknown: Unknown) -> None:
    """Mark a container whose content cannot be told any more, for everything that refers to it."""
    if isinstance(container, list):
        container[:] = [unknown]
    elif isinstance(container, dict):
        container.clear()
        container[SPOILED] = unknown
    elif isinstance(container, set):
        container.clear()
        container.add(unknown)


def is_too_large(value: Value) -> bool:
    """Whether working on with it could take more memory than a question is worth."""
    if isinstance(value, int):
        return abs(value) > LARGEST
    return isinstance(value, (str, bytes, list, tuple, set, frozenset, dict)) and len(value) > LONGEST


def is_hashable(value: Value) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return not isinstance(value, Unknown)


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
    if not isinstance(container, (list, tuple, set, frozenset, dict)) or holds_spoiled(container):
        return None
    results = [equal(element, other) for other in container]
    return True if True in results else (None if None in results else False)


def literal_values(literal: External) -> tuple[Value, ...]:
    """The values of a Literal, those of nested ones included, each once."""
    found: list[Value] = []
    for argument in literal.arguments:
        nested = isinstance(argument, External) and argument.name == literal.name
        for value in literal_values(argument) if nested else (argument,):
            if value not in found:
                found.append(value)
    return tuple(found)
