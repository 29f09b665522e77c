# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What an engine's source does with Python's own values: operators, methods and functions without side effects."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from .values import SPOILED, External, SourceClass, Subscript, Unknown, Value, is_spoiled


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


UNION = External("typing.Union")
LARGEST_SHIFT = 64

# Names of the standard library with a fixed value.
CONSTANTS: dict[str, Value] = {
    "argparse.SUPPRESS": "==SUPPRESS==",
    "ssl.CERT_NONE": 0,
    "ssl.CERT_OPTIONAL": 1,
    "ssl.CERT_REQUIRED": 2,
    "sys.argv": ["vllm", "serve"],
    "sys.platform": "linux",
    "typing.TYPE_CHECKING": False,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        f"builtins.{function.__name__}": function
        for function in (
            *(abs, all, any, bool, dict, enumerate, float, frozenset, int, len),
            *(list, max, min, reversed, round, set, sorted, str, sum, tuple, zip),
        )
    },
    "itertools.chain": itertools.chain,
    "itertools.combinations": itertools.combinations,
    "itertools.permutations": itertools.permutations,
    "itertools.product": itertools.product,
    "copy.deepcopy": lambda value: value,
    "typing.cast": lambda _type, value: value,
}
_METHODS: dict[type, frozenset[str]] = {
    str: _words(
        "capitalize count endswith format isdigit join lower lstrip partition removeprefix removesuffix replace rstrip",
        "split startswith strip title upper",
    ),
    list: _words("append copy count extend index insert pop remove reverse sort"),
    dict: _words("copy get items keys pop setdefault update values"),
    set: _words("add copy difference discard intersection remove union update"),
    tuple: frozenset(("count", "index")),
}
_CHANGING = _words("add append discard extend insert pop remove reverse setdefault sort update")
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: lambda one, other: one is other or one == other,
    ast.IsNot: lambda one, other: not (one is other or one == other),
    ast.In: lambda item, holder: item in holder,
    ast.NotIn: lambda item, holder: item not in holder,
}
# What an operation on mismatched values raises; the engine would fail at the same place.
FAILURES = (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, OverflowError)


def function(name: str, arguments: list[Value], keywords: Mapping[str, Value], where: str) -> Value:
    """A call of a function outside the engine."""
    known = _FUNCTIONS.get(name)
    if known is None or SPOILED in keywords or any(is_spoiled(value) for value in (*arguments, *keywords.values())):
        return Unknown(f"the result of {name.removeprefix('builtins.')}() cannot be told", where)
    try:
        result = known(*arguments, **keywords)
        # An iterator would be used up by the first reader.
        return list(result) if hasattr(result, "__next__") else result
    except FAILURES as error:
        return Unknown(f"{name.removeprefix('builtins.')}() fails: {error}", where)


def has_method(value: Value, name: str) -> bool:
    return name in _METHODS.get(type(value), ())


def method(
    value: Value,
    name: str,
    arguments: list[Value],
    keywords: Mapping[str, Value],
    where: str,
    *,
    uncertain: bool = False,
) -> Value:
    """A call of a method of a string or container; a change that cannot be told spoils the container.

    uncertain: whether the call may not be reached
    """
    whole = (*arguments, *keywords.values())
    # A dict may take a value that cannot be told: it belongs to one key.
    stored = isinstance(value, dict) and name == "setdefault"
    if uncertain and name in _CHANGING:
        reason = f"{name}() is called under a condition"
    elif SPOILED not in keywords and (stored or not any(is_spoiled(each) for each in whole)):
        try:
            result = getattr(value, name)(*arguments, **keywords)
            return list(result) if name in ("items", "keys", "values") else result
        except FAILURES as error:
            reason = f"{name}() fails: {error}"
    else:
        reason = f"what {name}() is given cannot be told"
    if name in _CHANGING:
        spoil(value, Unknown(reason, where))
    return Unknown(reason, where)


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


def binary(kind: ast.operator, left: Value, right: Value, where: str) -> Value:
    """`left <operator> right`; `|` of types is a union."""
    if isinstance(kind, ast.BitOr):
        if _is_type(left) or _is_type(right):
            return Subscript(UNION, (left, right))
        operation: Callable[[Any, Any], Any] | None = operator.or_
    elif isinstance(kind, ast.LShift) and isinstance(right, int) and right <= LARGEST_SHIFT:
        operation = operator.lshift
    elif isinstance(kind, ast.Pow) and _small(left) and _small(right):
        operation = operator.pow
    elif isinstance(kind, ast.Mult) and isinstance(left, (int, float)) and isinstance(right, (int, float)):
        operation = operator.mul
    else:
        operation = _BINARY.get(type(kind))
    if operation is None or is_spoiled(left) or is_spoiled(right):
        return Unknown("the result of an operation cannot be told", where)
    try:
        return operation(left, right)
    except FAILURES as error:
        return Unknown(f"an operation fails: {error}", where)


def compare(kind: ast.cmpop, left: Value, right: Value, where: str) -> Value:
    """`left <comparison> right`."""
    # An object of another package may be equal to anything.
    if is_spoiled(left) or is_spoiled(right) or isinstance(left, External) != isinstance(right, External):
        return Unknown("a comparison cannot be told", where)
    try:
        return _COMPARE[type(kind)](left, right)
    except FAILURES as error:
        return Unknown(f"a comparison fails: {error}", where)


def _is_type(value: Value) -> bool:
    return isinstance(value, (External, SourceClass, Subscript))


def _small(value: Value) -> bool:
    return isinstance(value, int) and 0 <= value <= LARGEST_SHIFT
