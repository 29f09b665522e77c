# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Calls between the functions and classes of a source, with Python's own rules for arguments."""

from __future__ import annotations

import ast
from abc import abstractmethod

from .decisions import Decisions
from .expressions import PLAIN, Frame, holds_unknown, is_too_large
from .names import MISSING, Names, decorator_names
from .tree import SourceTree
from .values import Bound, Class, External, Function, Instance, Member, Native, Raised, Unknown, Unresolved, Value

DEEPEST_CALL = 40
# Decorators that leave what a function returns as it is.
TRANSPARENT = frozenset(
    [
        "classmethod",
        "staticmethod",
        "property",
        "cached_property",
        "cache",
        "lru_cache",
        "abstractmethod",
        "override",
        "overload",
        "final",
    ]
)


class Returned(Exception):
    """A return statement, on its way to the call."""

    def __init__(self, value: Value) -> None:
        self.value = value
        super().__init__()


class Calls(Names):
    """What a call yields; following the statements of a function is the business of Interpreter."""

    def __init__(self, tree: SourceTree, decisions: Decisions) -> None:
        super().__init__(tree, decisions)
        self.depth = 0
        self.tolerant = False
        self._externals: dict[str, Unknown] = {}
        self._needs_met: set[str] = set()  # modules whose imports were looked at

    @abstractmethod
    def run(self, statements: list[ast.stmt], frame: Frame) -> None: ...

    def restart(self) -> None:
        """Begin a new question: the limits count from here."""
        self.steps = 0
        self.depth = 0

    def truth(self, value: Value, place: str) -> bool:
        if isinstance(value, PLAIN):
            return bool(value)
        if isinstance(value, External):
            # One and the same, wherever it is asked for.
            value = self._externals.setdefault(value.name, Unknown(value.name, place))
        if isinstance(value, Unknown):
            if self.tolerant:
                raise Unresolved(value)
            return self.decisions.decide(value)
        if isinstance(value, Member) and value.is_plain:
            return bool(value.value)
        return True

    def run_tolerantly(self, function: Function, receiver: Instance, keywords: dict[str, Value]) -> None:
        """Follow a constructor, passing over what cannot be told, so that only a certain exception is raised."""
        before, self.tolerant = self.tolerant, True
        try:
            self.call(Bound(function, receiver), [], keywords, function.scope.place(function.node))
        finally:
            self.tolerant = before

    def call(self, function: Value, arguments: list[Value], keywords: dict[str, Value], place: str) -> Value:
        if isinstance(function, External):
            if function.name.split(".")[0] in ("logger", "warnings"):
                return None
            return Unknown(f"{function.name}()", place)
        if isinstance(function, Bound):
            return self._call_function(
                function.function, [function.receiver, *arguments], keywords, place, function.receiver
            )
        if isinstance(function, Function):
            return self._call_function(function, arguments, keywords, place, arguments[0] if arguments else None)
        if isinstance(function, Class):
            return self._instantiate(function, arguments, keywords, place)
        if isinstance(function, Native):
            return self._call_native(function, arguments, keywords, place)
        name = function.what if isinstance(function, Unknown) else getattr(function, "name", type(function).__name__)
        return Unknown(f"{name}()", function.place if isinstance(function, Unknown) else place)

    def _call_native(self, native: Native, arguments: list[Value], keywords: dict[str, Value], place: str) -> Value:
        if not native.lenient and holds_unknown([*arguments, *keywords.values()]):
            return Unknown(f"{native.name}() of something unknown", place)
        try:
            result = native.function(*arguments, **keywords)
            held = getattr(native.function, "__self__", None)  # what a method such as extend has changed
            if is_too_large(result) or is_too_large(held):
                raise Unresolved(Unknown(f"{native.name}() with a result of this size", place))
            return result
        except (ValueError, LookupError, AttributeError) as error:
            raise Raised(type(error).__name__, str(error)) from error
        except (TypeError, ArithmeticError):
            return Unknown(f"{native.name}()", place)

    def _instantiate(self, cls: Class, arguments: list[Value], keywords: dict[str, Value], place: str) -> Value:
        """An object of a class with fields or with a constructor that can be followed."""
        if self.is_enum(cls):
            for name in cls.body.names():
                if arguments and self.lookup(cls.body, name) == arguments[0]:
                    return self.member_of(cls, name, place)
            return Unknown(f"{cls.name}()", place)
        if self.lookup(cls.body, "__init__") is not MISSING:
            made = Instance(cls)
            constructor = self.class_attribute(cls, "__init__", made, place)
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

    def _call_function(
        self, function: Function, arguments: list[Value], keywords: dict[str, Value], place: str, receiver: Value
    ) -> Value:
        node = function.node
        name = getattr(node, "name", "lambda")
        opaque = [decorator for decorator in decorator_names(function) if decorator not in TRANSPARENT]
        if opaque:
            return Unknown(f"{name}() behind @{opaque[0]}", function.scope.place(node))
        if self.depth >= DEEPEST_CALL:
            raise Unresolved(Unknown(f"{name}(): calls nest too deeply", place))
        frame = Frame(function.scope, {}, function.owner, receiver, function.closure)
        self.depth += 1
        try:
            frame.locals.update(self._bound_arguments(function, arguments, keywords, place))
            if isinstance(node, ast.Lambda):
                return self.evaluate(node.body, frame)
            self.run(node.body, frame)
            return None
        except Returned as returned:
            return returned.value
        except Unresolved as error:
            if any(isinstance(value, (list, dict, set, Instance)) for value in arguments):
                raise  # it may have changed one of them
            return error.unknown
        finally:
            self.depth -= 1

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
                    self.evaluate(defaults[name], outer) if name in defaults else Unknown(f"the argument {name}", place)
                )
        return bound
