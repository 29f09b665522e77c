# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Looking up what a name or an attribute of the source stands for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .decisions import Decisions
from .expressions import Expressions, Frame
from .scope import Scope
from .tree import SourceTree
from .values import (
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
    Super,
    Unknown,
    Unresolved,
    Value,
)

MISSING = object()
# Methods of Python's own values that have no effect outside the value.
_METHODS = {
    str: "startswith endswith lower upper strip lstrip rstrip split rsplit partition rpartition join replace "
    "removeprefix removesuffix isdigit isidentifier find",
    list: "append extend insert remove pop index count copy reverse sort",
    tuple: "index count",
    dict: "get items keys values setdefault pop update copy",
    set: "add discard union intersection difference issubset issuperset copy update",
    frozenset: "union intersection difference issubset issuperset copy",
}
METHODS: dict[type, frozenset[str]] = {kind: frozenset(names.split()) for kind, names in _METHODS.items()}
# Bases that add no attribute which these sources ask for.
BARE_BASES = ("ABC", "Generic", "Protocol", "object", "NamedTuple", "Enum", "IntEnum", "StrEnum", "Flag", "EnumMeta")
ENUMS = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")


class Names(Expressions):
    """Scopes, classes and attributes; what statements do is the business of Interpreter."""

    def __init__(self, tree: SourceTree, decisions: Decisions) -> None:
        super().__init__()
        self.tree = tree
        self.decisions = decisions
        self.stand_ins: dict[str, Value] = {}  # by the dotted name under which the source knows it
        self.builtins: dict[str, Value] = {}
        self._bases: dict[Class, list[Class | Unknown]] = {}

    def execute(self, statement: ast.stmt, frame: Frame, wanted: str | None = None) -> None:
        raise NotImplementedError

    def name(self, node: ast.Name, frame: Frame) -> Value:
        name = node.id
        for names in (frame.locals, frame.closure or {}):
            if name in names:
                return names[name]
        if name == "__file__":
            return str(self.tree.root / frame.scope.file)
        if name == "__name__":
            return frame.scope.module
        scope: Scope | None = frame.scope
        while scope is not None:
            value = self.lookup(scope, name)
            if value is not MISSING:
                return value
            scope = scope.parent
        if name in self.builtins:
            return self.builtins[name]
        return Unknown(f"the name {name}", frame.scope.place(node))

    def lookup(self, scope: Scope, name: str) -> Value:
        """What the name is bound to at the end of the module or class body, or MISSING."""
        if name in scope.values:
            return scope.values[name]
        if scope.parent is None and f"{scope.module}.{name}" in self.stand_ins:
            return self.stand_ins[f"{scope.module}.{name}"]
        binders = scope.binders(name)
        if binders and name in scope.rebound:
            return Unknown(f"{name}, which the running engine sets", scope.place(binders[0]))
        if not binders:
            return Unknown(f"the name {name}", f"{scope.file}:1") if scope.imports_all() else MISSING
        if name in scope.pending:
            return Unknown(f"the name {name}, defined by itself", scope.place(binders[0]))
        consulted = self.decisions.consulted
        frame = Frame(scope, {})
        scope.pending.add(name)
        try:
            for statement in binders:
                self.execute(statement, frame, wanted=name)
            value = frame.locals.get(name, MISSING)
        except Unresolved as error:
            value = error.unknown
        finally:
            scope.pending.discard(name)
        if self.decisions.consulted == consulted:  # else it holds on the present way only
            scope.values[name] = value
        return value

    def module_attribute(self, module: Module, name: str, place: str) -> Value:
        dotted = f"{module.name}.{name}"
        if dotted in self.stand_ins:
            return self.stand_ins[dotted]
        if module.scope is None:
            return External(dotted)
        value = self.lookup(module.scope, name)
        if value is not MISSING:
            return value
        if self.tree.has_module(dotted):
            return Module(dotted, self.tree.module(dotted))
        reader = self.stand_ins.get(f"{module.name}.__getattr__")
        if isinstance(reader, Native):
            return reader.function(self, module.scope, name)
        if module.scope.binders("__getattr__"):
            return Unknown(dotted, place)
        raise Raised("AttributeError", f"module '{module.name}' has no attribute '{name}'")

    def attribute(self, value: Value, name: str, place: str) -> Value:
        if isinstance(value, Unknown):
            return Unknown(f"{value.what}.{name}", value.place)
        if isinstance(value, Module):
            return self.module_attribute(value, name, place)
        if isinstance(value, External):
            return self.stand_ins.get(f"{value.name}.{name}", External(f"{value.name}.{name}"))
        if isinstance(value, Class):
            return self._required(self.class_attribute(value, name, value, place), value.name, name)
        if isinstance(value, Instance):
            if name in value.fields:
                return value.fields[name]
            return self._required(self.class_attribute(value.of, name, value, place), value.of.name, name)
        if isinstance(value, Super):
            return self._super_attribute(value, name, place)
        if isinstance(value, Member):
            if name in ("name", "value"):
                return value.name if name == "name" else value.value
            return self._required(self.class_attribute(value.of, name, value, place), value.of.name, name)
        if isinstance(value, Record):
            if name in value.fields:
                return value.fields[name]
            if value.whole:
                raise Raised("AttributeError", f"'{value.name}' object has no attribute '{name}'")
            return Unknown(f"{value.name}.{name}", place)
        return self._plain_attribute(value, name, place)

    def _plain_attribute(self, value: Value, name: str, place: str) -> Value:
        if isinstance(value, Capability):
            if name in ("major", "minor"):
                return getattr(value, name)
            if name in ("as_version_str", "to_int"):
                return Native(name, getattr(value, name))
        if name in METHODS.get(type(value), ()):
            if isinstance(value, dict) and name in ("items", "keys", "values"):
                return Native(name, lambda: list(getattr(value, name)()))
            return Native(name, getattr(value, name), lenient=name in ("append", "extend", "insert", "get"))
        return Unknown(f"the attribute {name} of {type(value).__name__}", place)

    def _required(self, value: Value, owner: str, name: str) -> Value:
        if value is MISSING:
            raise Raised("AttributeError", f"'{owner}' has no attribute '{name}'")
        return value

    def class_attribute(self, cls: Class, name: str, receiver: Value, place: str) -> Value:
        """The attribute as found along the bases, bound to the receiver (the class itself or an object), or MISSING."""
        if name in ("__name__", "__qualname__"):
            return cls.name
        if name == "__module__":
            return cls.scope.module
        if name == "__class__" and isinstance(receiver, Instance):
            return receiver.of
        return self._find(self.bases(cls), name, receiver)

    def _find(self, classes: list[Class | Unknown], name: str, receiver: Value) -> Value:
        for base in classes:
            if isinstance(base, Unknown):
                return Unknown(f"the attribute {name} of {base.what}", base.place)
            value = self.stand_ins.get(f"{base.scope.module}.{base.name}.{name}", MISSING)
            if value is MISSING:
                value = self.lookup(base.body, name)
            if value is MISSING:
                continue
            if isinstance(value, Function):
                return self._bind(value, receiver)
            if not name.startswith("_") and self.is_enum(base):
                return self.member_of(base, name, base.scope.place(base.node))
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
            return self.call(bound, [], {}, function.scope.place(function.node))
        return bound

    def _super_attribute(self, value: Super, name: str, place: str) -> Value:
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
            elif not (
                isinstance(base, (External, Native)) and base.name.rpartition(".")[2] in (*BARE_BASES, "str", "int")
            ):
                yield Unknown(f"the base {ast.unparse(node)} of {cls.name}", cls.scope.place(node))

    def _evaluated_bases(self, cls: Class) -> Iterator[tuple[ast.expr, Value]]:
        for node in cls.node.bases:
            plain = node.value if isinstance(node, ast.Subscript) else node
            yield plain, self.evaluate(plain, Frame(cls.scope, {}, closure=cls.closure))

    def is_enum(self, cls: Class) -> bool:
        return any(
            isinstance(base, External) and base.name.rpartition(".")[2] in ENUMS
            for each in self.bases(cls)
            if isinstance(each, Class)
            for _node, base in self._evaluated_bases(each)
        )

    def member_of(self, enum: Class, name: str, place: str) -> Value:
        value = self.lookup(enum.body, name)
        if value is MISSING:
            raise Raised("KeyError", name)
        plain = any(
            isinstance(base, (Native, External))
            and base.name.rpartition(".")[2] in ("str", "int", "IntEnum", "StrEnum")
            for _node, base in self._evaluated_bases(enum)
        )
        return Member(enum, name, value, plain)


def decorator_names(function: Function) -> list[str]:
    names = []
    for node in getattr(function.node, "decorator_list", []):
        plain = node.func if isinstance(node, ast.Call) else node
        names.append(ast.unparse(plain).rpartition(".")[2])
    return names
