# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Calls between the functions and classes of a source, with Python's own rules for arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .attributes import decorator_names
from .names import MISSING
from .operations import holds_unknown, is_too_large, spoil
from .scope import Frame
from .values import (
    Bound,
    Class,
    External,
    Function,
    Instance,
    Native,
    Raised,
    Recorder,
    Returned,
    Unknown,
    Unresolved,
    Value,
)

if TYPE_CHECKING:
    from .reader import Reader

DEEPEST_CALL = 40
# Decorators that leave what a function returns as it is.
_TRANSPARENT = "classmethod staticmethod property cached_property cache lru_cache abstractmethod override overload"
TRANSPARENT = frozenset((*_TRANSPARENT.split(), "final", "field_validator"))
# Methods that change what they belong to.
_CHANGING = "add append discard extend insert pop remove reverse setdefault sort update"
CHANGING = frozenset(_CHANGING.split())


class Calls:
    """What a call yields."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.depth = 0

    def call(self, function: Value, arguments: list[Value], keywords: dict[str, Value], place: str) -> Value:
        known = self.reader.by_name.get(_called(function)) if self.reader.by_name else None
        if known is not None:
            return self._native(known, arguments, keywords, place)
        if isinstance(function, Bound):
            return self._function(function.function, [function.receiver, *arguments], keywords, place)
        if isinstance(function, Function):
            return self._function(function, arguments, keywords, place)
        if isinstance(function, Class):
            return self._instantiate(function, arguments, keywords, place)
        if isinstance(function, Native):
            return self._native(function, arguments, keywords, place)
        name = function.what if isinstance(function, Unknown) else getattr(function, "name", type(function).__name__)
        if isinstance(function, External) and name.split(".")[0] in ("logger", "warnings"):
            return None
        place = function.place if isinstance(function, Unknown) else place
        return _not_followed(Unknown(f"{name}()", place), arguments, keywords)

    def _native(self, native: Native, arguments: list[Value], keywords: dict[str, Value], place: str) -> Value:
        held = getattr(native.function, "__self__", None)  # what a method such as extend changes
        changes = held if native.name in CHANGING else None
        if self.reader.uncertain and isinstance(changes, (list, dict, set)):
            unknown = Unknown(f"{native.name}() under a condition", place)
            spoil(changes, unknown)
            return unknown
        checked = [*arguments, *keywords.values()]
        if native.lenient:
            checked = arguments[:1] if native.name in ("get", "setdefault") else []
        if holds_unknown(checked):
            unknown = Unknown(f"{native.name}() of something unknown", place)
            spoil(changes, unknown)
            return _not_followed(unknown, arguments, keywords)
        try:
            result = native.function(*arguments, **keywords)
            if is_too_large(result) or is_too_large(held):
                raise Unresolved(Unknown(f"{native.name}() with a result of this size", place))
            return result
        except (ValueError, LookupError, AttributeError) as error:
            raise Raised(type(error).__name__, str(error)) from error
        except (TypeError, ArithmeticError):
            unknown = Unknown(f"{native.name}()", place)
            spoil(changes, unknown)
            return _not_followed(unknown, arguments, keywords)

    def _instantiate(self, cls: Class, arguments: list[Value], keywords: dict[str, Value], place: str) -> Value:
        """An object of a class with fields or with a constructor that can be followed."""
        if self.reader.is_enum(cls):
            for name in cls.body.names():
                if arguments and self.reader.lookup(cls.body, name) == arguments[0]:
                    return self.reader.member_of(cls, name)
            return Unknown(f"{cls.name}()", place)
        if self.reader.lookup(cls.body, "__init__") is not MISSING:
            made = Instance(cls)
            constructor = self.reader.class_attribute(cls, "__init__", made)
            return (
                made if self.call(constructor, arguments, keywords, place) is None else Unknown(f"{cls.name}()", place)
            )
        lines = cls.node.body
        names = [
            line.target.id for line in lines if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        ]
        if len(arguments) > len(names):
            return Unknown(f"{cls.name}()", place)
        return Instance(cls, {**dict(zip(names, arguments, strict=False)), **keywords})

    def _function(self, function: Function, arguments: list[Value], keywords: dict[str, Value], place: str) -> Value:
        node = function.node
        name = getattr(node, "name", "lambda")
        opaque = [decorator for decorator in decorator_names(function) if decorator not in TRANSPARENT]
        if opaque:
            unknown = Unknown(f"{name}() behind @{opaque[0]}", function.scope.place(node))
            return _not_followed(unknown, arguments, keywords)
        if self.depth >= DEEPEST_CALL:
            raise Unresolved(Unknown(f"{name}(): calls nest too deeply", place))
        receiver = arguments[0] if arguments else None
        frame = Frame(function.scope, {}, function.owner, receiver, function.closure)
        uncertain = self.reader.uncertain
        self.depth += 1
        try:
            frame.locals.update(self._bound_arguments(function, arguments, keywords, place))
            if isinstance(node, ast.Lambda):
                return self.reader.evaluate(node.body, frame)
            self.reader.run(node.body, frame)
            result = None
        except Returned as returned:
            result = returned.value
        except Unresolved as error:
            if error.exhausted or any(isinstance(value, (list, dict, set, Instance)) for value in arguments):
                raise  # it may have changed one of them
            return _not_followed(error.unknown, arguments, keywords)
        finally:
            self.depth -= 1
            left_early = self.reader.uncertain > uncertain
            self.reader.uncertain = uncertain
        return Unknown(f"{name}()", place) if left_early and not isinstance(result, Recorder) else result

    def _bound_arguments(
        self, function: Function, arguments: list[Value], keywords: dict[str, Value], place: str
    ) -> dict[str, Value]:
        spec = function.node.args
        positional = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
        bound = dict(zip(positional, arguments, strict=False))
        rest = dict(keywords)
        if len(arguments) > len(positional) and spec.vararg is None:
            raise Unresolved(Unknown("a call with more arguments than the function takes", place))
        if spec.vararg is not None:
            bound[spec.vararg.arg] = tuple(arguments[len(positional) :])
        for name in (*positional, *(argument.arg for argument in spec.kwonlyargs)):
            if name in rest:
                bound[name] = rest.pop(name)
        if spec.kwarg is not None:
            bound[spec.kwarg.arg] = rest
        elif rest:
            raise Unresolved(
                Unknown(f"a call with the argument {next(iter(rest))}, which the function does not take", place)
            )
        defaults = dict(zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True))
        defaults |= {
            argument.arg: node for argument, node in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if node
        }
        outer = Frame(function.scope, {}, function.owner, closure=function.closure)
        for name in (*positional, *(argument.arg for argument in spec.kwonlyargs)):
            if name not in bound:
                bound[name] = (
                    self.reader.evaluate(defaults[name], outer)
                    if name in defaults
                    else Unknown(f"the argument {name}", place)
                )
        return bound


def _not_followed(unknown: Unknown, arguments: list[Value], keywords: dict[str, Value]) -> Unknown:
    for value in (*arguments, *keywords.values()):
        if isinstance(value, Recorder):
            value.lost(f"it is given to {unknown}")
    return unknown


def _called(function: Value) -> str:
    """The last part of the name under which something is called."""
    if isinstance(function, Bound):
        function = function.function
    if isinstance(function, Function):
        return getattr(function.node, "name", "")
    return function.what.rpartition(".")[2] if isinstance(function, Unknown) else ""
