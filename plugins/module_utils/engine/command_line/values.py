# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What an expression of an engine's source can stand for while the source is read and not run.

Strings, numbers, None, lists, dicts, sets and tuples are Python's own; everything else is one of the kinds below.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Value = Any
# A dict that was changed in a way that cannot be told holds this key, a list holds an Unknown.
SPOILED = "**"


@dataclass(frozen=True)
class Unknown:
    """A value that reading cannot tell: why, and the file and line."""

    reason: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.where})" if self.where else self.reason


@dataclass(frozen=True)
class External:
    """A name outside the engine's own package: argparse.BooleanOptionalAction, builtins.int, torch.dtype."""

    name: str


@dataclass(eq=False)
class Source:
    """One parsed file.

    name:    dotted module name
    bound:   top-level name -> the statement (or alias) that binds it last at run time
    checked: the same for names that only a type checker sees
    stars:   modules that `from ... import *` takes names of
    """

    name: str
    path: Path
    is_package: bool
    tree: ast.Module
    bound: dict[str, Binding] = field(default_factory=dict)
    checked: dict[str, Binding] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    def where(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True)
class Binding:
    """What binds a name: a definition, an assigned expression, or an import (module, attribute or None)."""

    node: ast.AST
    imported: tuple[str, str | None] | None = None
    conditional: bool = False


@dataclass(frozen=True)
class ModuleValue:
    """A module of the engine's own package."""

    name: str


@dataclass(frozen=True, eq=False)
class SourceClass:
    """A class of the engine's own package."""

    source: Source
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name

    def same(self, other: object) -> bool:
        return isinstance(other, SourceClass) and other.node is self.node


@dataclass(frozen=True, eq=False)
class SourceFunction:
    """A function of the engine's own package.

    owner:      the class it was looked up on
    defined_in: the class whose body it stands in
    scope:      the names of the function around it
    """

    source: Source
    node: ast.FunctionDef | ast.Lambda
    owner: SourceClass | None = None
    defined_in: SourceClass | None = None
    scope: dict[str, Value] | None = None

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "<lambda>")


@dataclass(frozen=True)
class EnumMember:
    """A member of an enumeration of the engine."""

    class_name: str
    name: str
    value: Value


@dataclass(frozen=True)
class Instance:
    """An object that the engine would construct: its class and the call as text."""

    class_name: str
    text: str


@dataclass(frozen=True)
class Subscript:
    """A type with arguments: list[int], Literal["a", "b"]; unions are Subscript("typing.Union")."""

    origin: Value
    arguments: tuple[Value, ...]


@dataclass(frozen=True)
class FieldCall:
    """dataclasses.field(...) or pydantic's Field(...): its default, or the factory of its default."""

    default: Value
    factory: Value = None
    has_default: bool = True


@dataclass(frozen=True, eq=False)
class Native:
    """A function of the reader's own that stands for one of the source: call(arguments, keywords, where)."""

    name: str
    call: Callable[[list[Value], dict[str, Value], str], Value]


class Recorder:
    """An object of the reader's own that the source works on: the parser that it fills."""

    def attribute(self, name: str, where: str) -> Value:
        """What `object.name` is; usually a Native."""
        raise NotImplementedError

    def lost(self, reason: str) -> None:
        """Something was done with the object that cannot be told."""
        raise NotImplementedError


def literal_values(literal: Subscript) -> tuple[Value, ...]:
    """The values of a Literal, those of nested ones included, each once."""
    found: list[Value] = []
    for argument in literal.arguments:
        nested = isinstance(argument, Subscript) and argument.origin == literal.origin
        for value in literal_values(argument) if nested else (argument,):
            if value not in found:
                found.append(value)
    return tuple(found)


def is_spoiled(value: Value) -> bool:
    """Whether a value, or something in it that decides what it means, could not be told."""
    if isinstance(value, Unknown):
        return True
    if isinstance(value, dict):
        return SPOILED in value
    return isinstance(value, (list, tuple, set)) and any(isinstance(item, Unknown) for item in value)
