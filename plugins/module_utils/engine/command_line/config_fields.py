# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The dataclasses that an engine keeps its configuration in, read as dataclasses.fields() would list them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .interpreter import Interpreter
from .operations import UNION
from .values import (
    External,
    FieldCall,
    Instance,
    Source,
    SourceClass,
    SourceFunction,
    Subscript,
    Unknown,
    Value,
    literal_values,
)

_NOT_FIELDS = ("typing.ClassVar", "dataclasses.InitVar", "dataclasses.KW_ONLY")
# pydantic's markers, which leave the type inside them as it is.
_TRANSPARENT = ("typing.Annotated", "pydantic.SkipValidation", "pydantic.SerializeAsAny", "pydantic.ImportString")
_UNIONS = ("typing.Union", "typing.Optional")
_EMPTY: dict[str, Value] = {"builtins.list": list, "builtins.dict": dict, "builtins.set": set, "builtins.tuple": tuple}


@dataclass(frozen=True)
class ConfigField:
    """A field: its types (a union taken apart), its default, the text below it; of text, the methods that check it."""

    name: str
    hints: list[Value]
    default: Value
    description: str
    validators: list[SourceFunction]


class Dataclasses:
    """Reads dataclasses of the engine's source."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def is_dataclass(self, value: Value) -> bool:
        """Whether the class, or one that it derives from, is made a dataclass by a decorator."""
        return isinstance(value, SourceClass) and any(
            isinstance(owner, SourceClass) and self._is_decorated(owner)
            for owner in self.interpreter.names.lineage(value)
        )

    def _is_decorated(self, owner: SourceClass) -> bool:
        for decorator in owner.node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in ("dataclass", "config"):
                return True
        return False

    def fields(self, value: SourceClass) -> list[ConfigField]:
        """All fields, those of the bases first; a field that is declared again keeps its place."""
        found: dict[str, ConfigField] = {}
        for owner in reversed(self.interpreter.names.lineage(value)):
            if isinstance(owner, SourceClass):
                for at, statement in enumerate(owner.node.body):
                    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                        description = _text(owner.node.body[at + 1 : at + 2])
                        declared = self._field(owner, statement.target.id, statement, description)
                        if declared is not None:
                            found[declared.name] = declared
        return list(found.values())

    def _field(self, owner: SourceClass, name: str, statement: ast.AnnAssign, description: str) -> ConfigField | None:
        annotation = self.interpreter.evaluate(statement.annotation, owner.source, {})
        outer = annotation.origin if isinstance(annotation, Subscript) else annotation
        if isinstance(outer, External) and outer.name in _NOT_FIELDS:
            return None
        default = self._default(owner, statement)
        hints = self.hints(annotation, owner.source)
        checked = External("builtins.str") in hints
        return ConfigField(name, hints, default, description, list(self._validators(owner, name)) if checked else [])

    def _validators(self, owner: SourceClass, name: str) -> Iterator[SourceFunction]:
        """The class's methods that pydantic calls with the value of the field alone."""
        for statement in owner.node.body:
            if isinstance(statement, ast.FunctionDef) and any(_checks(each, name) for each in statement.decorator_list):
                found = self.interpreter.names.of_class(owner, statement.name, owner.source.where(statement))
                if isinstance(found, SourceFunction):
                    yield found

    def _default(self, owner: SourceClass, statement: ast.AnnAssign) -> Value:
        where = owner.source.where(statement)
        if statement.value is None:
            return Unknown("the field has no default", where)
        value = self.interpreter.evaluate(statement.value, owner.source, {})
        if not isinstance(value, FieldCall):
            return value
        if value.factory is None:
            return value.default if value.has_default else Unknown("the field has no default", where)
        return self._made(value.factory, where)

    def _made(self, factory: Value, where: str) -> Value:
        """What a default_factory makes."""
        if isinstance(factory, External) and factory.name in _EMPTY:
            return _EMPTY[factory.name]()
        if isinstance(factory, SourceClass) and self.is_mapping(factory):
            return {}
        made = self.interpreter.call(factory, [], {}, where)
        return made if not isinstance(made, Instance) or self.is_dataclass(factory) else Unknown(made.text, where)

    def is_mapping(self, value: Value) -> bool:
        """Whether the class derives from dict."""
        if not isinstance(value, SourceClass):
            return False
        for base in self.interpreter.names.lineage(value)[1:]:
            origin = base.origin if isinstance(base, Subscript) else base
            if origin == External("builtins.dict"):
                return True
        return False

    def hints(self, annotation: Value, source: Source) -> list[Value]:
        """The types of a hint: unions and markers taken apart, forward references followed."""
        if isinstance(annotation, str):
            try:
                expression = ast.parse(annotation, mode="eval").body
            except SyntaxError:
                return [Unknown(f"the type {annotation!r} cannot be read", str(source.path))]
            return self.hints(self.interpreter.evaluate(expression, source, {}), source)
        if isinstance(annotation, Subscript) and isinstance(annotation.origin, External):
            origin = annotation.origin.name.replace("typing_extensions.", "typing.")
            if origin in _TRANSPARENT:
                return self.hints(annotation.arguments[0], source)
            if origin in _UNIONS:
                members = annotation.arguments if origin == UNION.name else (*annotation.arguments, None)
                return [hint for member in members for hint in self.hints(member, source)]
            if origin == "typing.Literal":
                return [Subscript(External(origin), literal_values(annotation))]
        return [annotation]


def _checks(decorator: ast.expr, field: str) -> bool:
    """`@field_validator("field", ...)`, unless it wraps pydantic's own check."""
    if not isinstance(decorator, ast.Call) or getattr(decorator.func, "id", "") != "field_validator":
        return False
    words = {ast.unparse(word.value) for word in decorator.keywords if word.arg == "mode"}
    return "'wrap'" not in words and any(
        isinstance(each, ast.Constant) and each.value == field for each in decorator.args
    )


def _text(following: list[ast.stmt]) -> str:
    """The string that stands below a field and describes it."""
    if following and isinstance(following[0], ast.Expr) and isinstance(following[0].value, ast.Constant):
        value = following[0].value.value
        return value if isinstance(value, str) else ""
    return ""
