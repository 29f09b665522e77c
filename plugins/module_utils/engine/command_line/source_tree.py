# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The source files of an installed engine, parsed when asked for, and what their top-level names are bound to."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import ServingError
from .values import Binding, Source

PACKAGE = "vllm"


class SourceTree:
    """The package `vllm` below one folder (site-packages, or an editable installation's checkout).

    A file that Python could not read either is a ServingError that names file and line.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._sources: dict[str, Source | None] = {}

    def source(self, name: str) -> Source | None:
        """The module of that dotted name; None when there is no such file."""
        if name not in self._sources:
            self._sources[name] = self._read(name)
        return self._sources[name]

    def _read(self, name: str) -> Source | None:
        base = self.root.joinpath(*name.split("."))
        for path, is_package in ((base.with_name(base.name + ".py"), False), (base / "__init__.py", True)):
            if path.is_file():
                source = Source(name, path, is_package, parse(path))
                _bind(source, source.tree.body, source.bound)
                return source
        return None


def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        reader = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        raise ServingError(
            f"the installed engine has a source file that {reader} cannot read",
            where=f"{path}:{getattr(error, 'lineno', None) or 1}",
            why=getattr(error, "msg", None) or str(error),
            remedy="Install the engine again, or let the task run with the engine's own Python if that one is newer",
        ) from error


def _bind(source: Source, body: Sequence[ast.stmt], names: dict[str, Binding], *, when: str = "always") -> None:
    """Note what each top-level name is bound to; the last binding that runs wins, as it does in Python.

    when: "always"; "maybe" below a condition; "fallback" in an except clause
    """
    for statement in body:
        for name, binding in _bindings(source, statement):
            if name == "*" and binding.imported is not None:
                source.stars.append(binding.imported[0])
            elif when == "always":
                names[name] = binding
            elif when == "maybe":
                names[name] = replace(names.get(name, binding), conditional=True)
            else:
                names.setdefault(name, binding)
        if isinstance(statement, ast.If):
            if is_type_checking(statement.test):
                _bind(source, statement.body, source.checked)
                _bind(source, statement.orelse, names, when=when)
            else:
                _bind(source, [*statement.body, *statement.orelse], names, when="maybe")
        elif isinstance(statement, ast.Try):
            _bind(source, [*statement.body, *statement.orelse], names, when=when)
            _bind(source, [line for handler in statement.handlers for line in handler.body], names, when="fallback")
        elif isinstance(statement, ast.With):
            _bind(source, statement.body, names, when=when)


def _bindings(source: Source, statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name, Binding(statement)
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from imports(statement, source)
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        if statement.value is not None:
            yield statement.target.id, Binding(statement.value)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, Binding(statement.value)


def imports(statement: ast.Import | ast.ImportFrom, source: Source) -> Iterator[tuple[str, Binding]]:
    """The names that an import binds: (local name, Binding with the module and the attribute)."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            whole = alias.name if alias.asname else alias.name.split(".")[0]
            yield alias.asname or whole, Binding(statement, (whole, None))
        return
    module = statement.module or ""
    if statement.level:
        parents = source.name.split(".")
        parents = parents[: len(parents) - statement.level + (1 if source.is_package else 0)]
        module = ".".join([*parents, module] if module else parents)
    for alias in statement.names:
        yield alias.asname or alias.name, Binding(statement, (module, alias.name))


def is_type_checking(test: ast.expr) -> bool:
    """`TYPE_CHECKING` or `typing.TYPE_CHECKING`."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
