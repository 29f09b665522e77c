# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The dataclasses that an engine keeps its configuration in, read as dataclasses.fields() would list them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..source.operations import LITERAL, UNION, literal_values
from ..source.reader import Reader
from ..source.scope import Frame
from ..source.values import Bound, Class, External, Function, Instance, Native, Unknown, Value

_NOT_FIELDS = ("typing.ClassVar", "dataclasses.InitVar", "dataclasses.KW_ONLY")
# pydantic's markers, which leave the type inside them as it is.
_TRANSPARENT = ("typing.Annotated", "pydantic.SkipValidation", "pydantic.SerializeAsAny", "pydantic.ImportString")
_UNIONS = (UNION, "typing.Optional")


@dataclass(frozen=True)
class FieldCall:
    """dataclasses.field(...) or pydantic's Field(...): its default, or the factory of its default."""

    default: Value
    factory: Value
    has_default: bool


def _field_call(*given: Value, **keywords: Value) -> FieldCall:
    default = given[0] if given else keywords.get("default")
    return FieldCall(default, keywords.get("default_factory"), bool(given) or "default" in keywords)


FIELD_CALLS = dict.fromkeys(
    ("dataclasses.field", "pydantic.Field", "pydantic.fields.Field"), Native("field", _field_call, lenient=True)
)


@dataclass(frozen=True)
class ConfigField:
    """A field: its types (a union taken apart), its default, the text below it; of text, the methods that check it."""

    name: str
    hints: list[Value]
    default: Value
    description: str
    validators: list[Bound | Function]


class Dataclasses:
    """Reads dataclasses of the engine's source."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def is_dataclass(self, value: Value) -> bool:
        """Whether the class, or one that it derives from, is made a dataclass by a decorator."""
        return isinstance(value, Class) and any(
            isinstance(owner, Class) and self._is_decorated(owner) for owner in self.reader.bases(value)
        )

    def _is_decorated(self, owner: Class) -> bool:
        for decorator in owner.node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in ("dataclass", "config"):
                return True
        return False

    def fields(self, value: Class) -> list[ConfigField]:
        """All fields, those of the bases first; a field that is declared again keeps its place."""
        found: dict[str, ConfigField] = {}
        for owner in reversed(self.reader.bases(value)):
            if isinstance(owner, Class):
                for at, statement in enumerate(owner.node.body):
                    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                        description = _text(owner.node.body[at + 1 : at + 2])
                        declared = self._field(owner, statement.target.id, statement, description)
                        if declared is not None:
                            found[declared.name] = declared
        return list(found.values())

    def _field(self, owner: Class, name: str, statement: ast.AnnAssign, description: str) -> ConfigField | None:
        frame = Frame(owner.scope, {}, closure=owner.closure)
        annotation = self.reader.evaluate(statement.annotation, frame)
        if isinstance(annotation, External) and annotation.name in _NOT_FIELDS:
            return None
        default = self._default(owner, statement)
        hints = self.hints(annotation, frame)
        checked = "builtins.str" in map(name_of, hints)
        return ConfigField(name, hints, default, description, list(self._validators(owner, name)) if checked else [])

    def _validators(self, owner: Class, name: str) -> Iterator[Bound | Function]:
        """The class's methods that pydantic calls with the value of the field alone."""
        for statement in owner.node.body:
            if isinstance(statement, ast.FunctionDef) and any(_checks(each, name) for each in statement.decorator_list):
                found = self.reader.class_attribute(owner, statement.name, owner)
                if isinstance(found, (Bound, Function)):
                    yield found

    def _default(self, owner: Class, statement: ast.AnnAssign) -> Value:
        where = owner.scope.place(statement)
        if statement.value is None:
            return Unknown("the field has no default", where)
        value = self.reader.evaluate(statement.value, Frame(owner.body, {}))
        if not isinstance(value, FieldCall):
            return value
        if value.factory is None:
            return value.default if value.has_default else Unknown("the field has no default", where)
        return self._made(value.factory, where)

    def _made(self, factory: Value, where: str) -> Value:
        """What a default_factory makes."""
        if self.is_mapping(factory):
            return {}
        made = self.reader.call(factory, [], {}, where)
        return made if not isinstance(made, Instance) or self.is_dataclass(factory) else Unknown(call_of(made), where)

    def is_mapping(self, value: Value) -> bool:
        """Whether the class derives from dict."""
        return isinstance(value, Class) and "dict" in self.reader.foreign_bases(value)

    def hints(self, annotation: Value, frame: Frame) -> list[Value]:
        """The types of a hint: unions and markers taken apart, forward references followed."""
        if isinstance(annotation, str):
            try:
                expression = ast.parse(annotation, mode="eval").body
            except SyntaxError:
                return [Unknown(f"the type {annotation!r}", frame.scope.file)]
            return self.hints(self.reader.evaluate(expression, frame), frame)
        if isinstance(annotation, External) and annotation.arguments:
            origin = annotation.name.replace("typing_extensions.", "typing.")
            if origin in _TRANSPARENT:
                return self.hints(annotation.arguments[0], frame)
            if origin in _UNIONS:
                members = annotation.arguments if origin == UNION else (*annotation.arguments, None)
                return [hint for member in members for hint in self.hints(member, frame)]
            if origin == LITERAL:
                return [External(origin, literal_values(annotation))]
        return [annotation]


def name_of(hint: Value) -> str:
    """builtins.list for list[int], "None" for None, a dotted name for classes."""
    if isinstance(hint, Native):
        return f"builtins.{hint.name}"
    if isinstance(hint, Class):
        return f"{hint.scope.module}.{hint.name}"
    return hint.name if isinstance(hint, External) else str(hint)


def call_of(made: Instance) -> str:
    """An object as the call that makes it."""
    return f"{made.of.name}({'...' if made.fields else ''})"


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
