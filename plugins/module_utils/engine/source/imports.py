# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The import statements of a source: modules of the tree, other packages, and what is not installed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .scope import Frame, Scope
from .values import External, Module, Raised, Unknown, Value

if TYPE_CHECKING:
    from .reader import Reader


class Imports:
    """Binds names as import statements do, and fails where they would."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._needs_met: set[str] = set()  # modules whose imports were looked at

    def import_names(self, node: ast.Import | ast.ImportFrom, frame: Frame, wanted: str | None) -> None:
        place = frame.scope.place(node)
        for alias in node.names:
            if isinstance(node, ast.Import):
                bound = alias.asname or alias.name.split(".")[0]
                if wanted in (None, bound):
                    module = self.imported(alias.name, place)
                    frame.locals[bound] = module if alias.asname else self.imported(bound, place)
                continue
            bound = alias.asname or alias.name
            if wanted in (None, bound):
                frame.locals[bound] = self._imported_name(frame.scope.absolute(node), alias.name, place)

    def imported(self, name: str, place: str) -> Module:
        tree = self.reader.tree
        if tree.is_engine(name):
            if not tree.has_module(name):
                raise Raised("ModuleNotFoundError", f"No module named '{name}'", stated=True, place=place)
            scope = tree.module(name)
            if scope is not None and scope.module not in self._needs_met:
                self._check_needs(scope)
                self._needs_met.add(scope.module)
            return Module(name, scope)
        package = name.split(".")[0]
        installed = tree.installed(package)
        if installed is None:
            installed = self.reader.truth(Unknown(f"whether the package {package} is installed", place), place)
        if not installed:
            raise Raised("ModuleNotFoundError", f"No module named '{package}'", stated=True, place=place)
        return Module(name)

    def _check_needs(self, scope: Scope) -> None:
        """Fail as importing the module would where a package that it imports at its top is known to be missing."""
        for statement in scope.body:
            names: list[str] = []
            if isinstance(statement, ast.Import):
                names = [alias.name.split(".")[0] for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and not statement.level:
                names = [(statement.module or "").split(".")[0]]
            for package in names:
                if not self.reader.tree.is_engine(package) and self.reader.tree.installed(package) is False:
                    place = f"{scope.file}:{getattr(statement, 'lineno', 0)}"
                    raise Raised("ModuleNotFoundError", f"No module named '{package}'", stated=True, place=place)

    def _imported_name(self, module: str, name: str, place: str) -> Value:
        if f"{module}.{name}" in self.reader.stand_ins:
            return self.reader.stand_ins[f"{module}.{name}"]
        found = self.imported(module, place)
        if not self.reader.tree.is_engine(module):
            return External(f"{module}.{name}")
        if found.scope is None:
            if self.reader.tree.has_module(f"{module}.{name}"):
                return self.imported(f"{module}.{name}", place)
            return Unknown(f"{module}.{name} of a compiled extension", place)
        try:
            return self.reader.in_module(found, name, place)
        except Raised as raised:
            if raised.kind != "AttributeError":
                raise
            message = f"cannot import name '{name}' from '{module}'"
            raise Raised("ImportError", message, stated=True, place=place) from raised
