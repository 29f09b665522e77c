# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Where names are looked up, and which statement binds which name at the top of a module or class."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .parsing import Deferred
from .values import Unknown, Unresolved, Value

if TYPE_CHECKING:
    from .values import Class

MUTATORS = frozenset(("append", "extend", "insert", "update", "add", "remove", "setdefault", "pop"))
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


class Scope:
    """The names of one module or class body, bound when they are asked for.

    module:  dotted name of the module
    file:    its path as told to people
    package: whether it is a package's __init__
    parent:  the scope around it, for a class body
    owner:   the class, for a class body
    whole:   parses the whole file, for the case that a part of it cannot be parsed by itself
    """

    def __init__(
        self,
        body: Sequence[ast.stmt | Deferred],
        module: str,
        file: str,
        *,
        package: bool = False,
        parent: Scope | None = None,
        whole: Callable[[], list[ast.stmt]] | None = None,
    ) -> None:
        self.body = body
        self._whole = whole
        self.module = module
        self.file = file
        self.package = package
        self.parent = parent
        self.values: dict[str, Any] = {}
        self.pending: set[str] = set()
        self.rebound: frozenset[str] = frozenset()  # names that functions of the module declare global
        self.owner: Class | None = None
        self._binders: dict[str, list[ast.stmt | Deferred]] | None = None

    @property
    def outermost(self) -> Scope:
        """The module's scope: what a method sees, for it does not see its class's names."""
        return self if self.parent is None else self.parent.outermost

    def place(self, node: ast.AST) -> str:
        return f"{self.file}:{getattr(node, 'lineno', 0)}"

    def absolute(self, node: ast.ImportFrom) -> str:
        """The dotted name of the module that is imported from."""
        if not node.level:
            return node.module or ""
        parts = self.module.split(".")
        parts = parts[: len(parts) - node.level + (1 if self.package else 0)]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def names(self) -> list[str]:
        """Names in the order in which they are first bound."""
        return list(self._index())

    def binders(self, name: str) -> list[ast.stmt]:
        """The statements to run for the name: from its last unconditional binding on; [] when nothing binds it."""
        statements = self._index().get(name, [])
        first = max((at for at, node in enumerate(statements) if _binds_for_sure(node, name)), default=0)
        try:
            return [each.node() if isinstance(each, Deferred) else each for each in statements[first:]]
        except SyntaxError:
            self._parse_whole()
            return self.binders(name)

    def stars(self) -> list[ast.ImportFrom]:
        """The star imports, which may bring further names."""
        return [each for each in self._index().get("*", []) if isinstance(each, ast.ImportFrom)]

    def _parse_whole(self) -> None:
        if self._whole is None or not any(isinstance(each, Deferred) for each in self.body):
            raise Unresolved(Unknown("a definition that can be parsed", self.file))
        try:
            self.body = self._whole()
        except (SyntaxError, ValueError) as error:
            raise Unresolved(not_python(error, self.file)) from error
        self._binders = None

    def _index(self) -> dict[str, list[ast.stmt | Deferred]]:
        if self._binders is None:
            self._binders = {}
            for statement in self.body:
                names = [statement.name] if isinstance(statement, Deferred) else bound_names(statement)
                for name in dict.fromkeys(names):
                    self._binders.setdefault(name, []).append(statement)
        return self._binders


@dataclass
class Frame:
    """Where names are looked up: the locals, then what encloses them, then the module."""

    scope: Scope
    locals: dict[str, Value]
    owner: Class | None = None
    receiver: Value = None
    closure: dict[str, Value] | None = None


def not_python(error: Exception, file: str) -> Unknown:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    message = getattr(error, "msg", None) or str(error)
    return Unknown(
        f"source that Python {version} can parse: {message}", f"{file}:{getattr(error, 'lineno', None) or 0}"
    )


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """Names that the statement may bind or change in place, without those inside functions and classes."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or (alias.name if isinstance(statement, ast.ImportFrom) else alias.name.split(".")[0])
    elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        if isinstance(statement, ast.AnnAssign) and statement.value is None:
            return
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            yield from target_names(target)
    elif isinstance(statement, ast.Expr):
        call = statement.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in MUTATORS:
            yield from target_names(call.func.value)
    else:
        for inner in inner_statements(statement):
            yield from bound_names(inner)
        if isinstance(statement, ast.For):
            yield from target_names(statement.target)


def target_names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from target_names(element)
    elif isinstance(target, (ast.Subscript, ast.Starred, ast.Attribute)):
        yield from target_names(target.value)


def inner_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements directly inside a compound statement, of all its branches."""
    for name in ("body", "orelse", "finalbody"):
        yield from getattr(statement, name, [])
    for handler in getattr(statement, "handlers", []):
        yield from handler.body


def _binds_for_sure(statement: ast.stmt | Deferred, name: str) -> bool:
    if isinstance(statement, Deferred):
        return True
    if isinstance(statement, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
    return isinstance(statement, _SIMPLE)
