# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Attributes of values, and the classes of a source: their bases, methods and members."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .names import MISSING
from .operations import holds_spoiled
from .scope import Frame
from .values import (
    SPOILED,
    Bound,
    Capability,
    Class,
    External,
    Function,
    Instance,
    Member,
    Module,
    Native,
    Raised,
    Record,
    Recorder,
    Super,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from .reader import Reader

# Methods of Python's own values that have no effect outside the value.
_METHODS = {
    str: "startswith endswith lower upper title capitalize strip lstrip rstrip split rsplit partition rpartition join "
    "replace removeprefix removesuffix isdigit isidentifier find count",
    list: "append extend insert remove pop index count copy reverse sort",
    tuple: "index count",
    dict: "get items keys values setdefault pop update copy",
    set: "add discard remove union intersection difference issubset issuperset copy update",
    frozenset: "union intersection difference issubset issuperset copy",
}
METHODS: dict[type, frozenset[str]] = {kind: frozenset(names.split()) for kind, names in _METHODS.items()}
# Those that may be given values that cannot be told, which they keep as they are.
_KEEPING = ("append", "extend", "insert", "get", "setdefault", "update")
# Bases that add no attribute which these sources ask for.
BARE_BASES = ("ABC", "Generic", "Protocol", "object", "NamedTuple", "Enum", "IntEnum", "StrEnum", "Flag", "EnumMeta")
ENUMS = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")


class Attributes:
    """Finds object.name as Python does."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._bases: dict[Class, list[Class | Unknown]] = {}
        self._foreign: dict[Class, set[str]] = {}

    def attribute(self, value: Value, name: str, place: str) -> Value:
        if isinstance(value, Unknown):
            return Unknown(f"{value.what}.{name}", value.place)
        if isinstance(value, Module):
            return self.reader.in_module(value, name, place)
        if isinstance(value, External):
            return self.reader.stand_ins.get(f"{value.name}.{name}", External(f"{value.name}.{name}"))
        if isinstance(value, Class):
            return _required(self.of_class(value, name, value), value.name, name)
        if isinstance(value, (Instance, Record)) and name in value.fields:
            return value.fields[name]
        if isinstance(value, Member) and name in ("name", "value"):
            return value.name if name == "name" else value.value
        if isinstance(value, (Instance, Member)):
            return _required(self.of_class(value.of, name, value), value.of.name, name)
        if isinstance(value, Super):
            return self._of_super(value, name, place)
        if isinstance(value, Record):
            if value.whole:
                raise Raised("AttributeError", f"'{value.name}' object has no attribute '{name}'")
            return Unknown(f"{value.name}.{name}", place)
        if isinstance(value, Recorder):
            return value.attribute(name, place)
        return _of_plain(value, name, place)

    def of_class(self, cls: Class, name: str, receiver: Value) -> Value:
        """The attribute as found along the bases, bound to the receiver (the class itself or an object), or MISSING."""
        if name in ("__name__", "__qualname__"):
            return cls.name
        if name == "__module__":
            return cls.scope.module
        if name == "__doc__":
            return ast.get_docstring(cls.node)
        if name == "__class__" and isinstance(receiver, Instance):
            return receiver.of
        return self._find(self.bases(cls), name, receiver)

    def _find(self, classes: list[Class | Unknown], name: str, receiver: Value) -> Value:
        for base in classes:
            if isinstance(base, Unknown):
                return Unknown(f"the attribute {name} of {base.what}", base.place)
            value = self.reader.stand_ins.get(f"{base.scope.module}.{base.name}.{name}", MISSING)
            if value is MISSING:
                value = self.reader.lookup(base.body, name)
            if value is MISSING:
                continue
            if isinstance(value, Function):
                return self._bind(value, receiver)
            if not name.startswith("_") and self.is_enum(base):
                return self.member_of(base, name)
            return value
        return MISSING

    def _bind(self, function: Function, receiver: Value) -> Value:
        decorators = decorator_names(function)
        if "staticmethod" in decorators:
            return function
        if "classmethod" in decorators:
            return Bound(function, receiver.of if isinstance(receiver, (Instance, Member)) else receiver)
        if isinstance(receiver, Class):
            return function
        bound = Bound(function, receiver)
        if "property" in decorators or "cached_property" in decorators:
            return self.reader.call(bound, [], {}, function.scope.place(function.node))
        return bound

    def _of_super(self, value: Super, name: str, place: str) -> Value:
        of = value.receiver.of if isinstance(value.receiver, (Instance, Member)) else value.receiver
        if not isinstance(of, Class):
            return Unknown(f"super().{name}", place)
        classes = self.bases(of)
        after = classes.index(value.owner) + 1 if value.owner in classes else len(classes)
        found = self._find(classes[after:], name, value.receiver)
        if found is MISSING and name == "__init__":
            return Native("object.__init__", lambda *_, **__: None, lenient=True)
        return Unknown(f"super().{name}", place) if found is MISSING else found

    def bases(self, cls: Class) -> list[Class | Unknown]:
        """The class and its bases in the order of look-up; a base that cannot be told is in it as Unknown."""
        if cls not in self._bases:
            self._bases[cls] = [cls]  # for a class that would be its own base
            order: list[Class | Unknown] = []
            for base in self._direct_bases(cls):
                order.extend(self.bases(base) if isinstance(base, Class) else [base])
            last_of_each = [base for at, base in enumerate(order) if base not in order[at + 1 :]]
            self._bases[cls] = [cls, *last_of_each]
        return self._bases[cls]

    def _direct_bases(self, cls: Class) -> Iterator[Class | Unknown]:
        for node, base in self._evaluated_bases(cls):
            if isinstance(base, (Class, Unknown)):
                yield base
            elif not (isinstance(base, (External, Native)) and _last(base) in (*BARE_BASES, "str", "int")):
                yield Unknown(f"the base {ast.unparse(node)} of {cls.name}", cls.scope.place(node))

    def _evaluated_bases(self, cls: Class) -> Iterator[tuple[ast.expr, Value]]:
        for node in cls.node.bases:
            plain = node.value if isinstance(node, ast.Subscript) else node
            yield plain, self.reader.evaluate(plain, Frame(cls.scope, {}, closure=cls.closure))

    def foreign_bases(self, cls: Class) -> set[str]:
        """Names, without their packages, of what the class and its bases derive from outside the engine."""
        if cls not in self._foreign:
            classes = [each for each in self.bases(cls) if isinstance(each, Class)]
            self._foreign[cls] = {name for each in classes for name in self._own_foreign(each)}
        return self._foreign[cls]

    def _own_foreign(self, cls: Class) -> set[str]:
        bases = (base for _node, base in self._evaluated_bases(cls))
        return {_last(base) for base in bases if isinstance(base, (External, Native))}

    def is_enum(self, cls: Class) -> bool:
        return not self.foreign_bases(cls).isdisjoint(ENUMS)

    def member_of(self, enum: Class, name: str) -> Value:
        value = self.reader.lookup(enum.body, name)
        if value is MISSING:
            raise Raised("KeyError", name)
        plain = not self._own_foreign(enum).isdisjoint(("str", "int", "IntEnum", "StrEnum"))
        return Member(enum, name, value, plain)


def _last(value: External | Native) -> str:
    return value.name.rpartition(".")[2]


def _required(value: Value, owner: str, name: str) -> Value:
    if value is MISSING:
        raise Raised("AttributeError", f"'{owner}' has no attribute '{name}'")
    return value


def _of_plain(value: Value, name: str, place: str) -> Value:
    if holds_spoiled(value):
        return value[SPOILED]
    if isinstance(value, Capability):
        if name in ("major", "minor"):
            return getattr(value, name)
        if name in ("as_version_str", "to_int"):
            return Native(name, getattr(value, name))
    if name in METHODS.get(type(value), ()):
        if isinstance(value, dict) and name in ("items", "keys", "values"):
            return Native(name, lambda: list(getattr(value, name)()))
        return Native(name, getattr(value, name), lenient=name in _KEEPING)
    return Unknown(f"the attribute {name} of {type(value).__name__}", place)


def decorator_names(function: Function) -> list[str]:
    names = []
    for node in getattr(function.node, "decorator_list", []):
        plain = node.func if isinstance(node, ast.Call) else node
        names.append(ast.unparse(plain).rpartition(".")[2])
    return names
