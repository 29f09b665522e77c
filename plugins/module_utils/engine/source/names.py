# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a name stands for: a local one, or what a module's statements bind it to."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .scope import Frame, Scope, bound_names
from .tolerance import Tolerance
from .values import External, Module, Native, Raised, Unknown, Unresolved, Value

if TYPE_CHECKING:
    from .reader import Reader

MISSING = object()


class Names:
    """Looks names up in frames, scopes and modules."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def name(self, node: ast.Name, frame: Frame) -> Value:
        name = node.id
        for names in (frame.locals, frame.closure or {}):
            if name in names:
                return names[name]
        if name == "__file__":
            return str(self.reader.tree.root / frame.scope.file)
        if name == "__name__":
            return frame.scope.module
        scope: Scope | None = frame.scope
        while scope is not None:
            value = self.lookup(scope, name)
            if value is not MISSING:
                return value
            scope = scope.parent
        if name in self.reader.builtins:
            return self.reader.builtins[name]
        return Unknown(f"the name {name}", frame.scope.place(node))

    def lookup(self, scope: Scope, name: str) -> Value:
        """What the name is bound to at the end of the module or class body, or MISSING."""
        if name in scope.values:
            return scope.values[name]
        stand_in = self.reader.stand_ins.get(f"{scope.module}.{name}", MISSING) if scope.parent is None else MISSING
        if stand_in is not MISSING:
            return stand_in
        binders = scope.binders(name)
        if binders and name in scope.rebound:
            return Unknown(f"{name}, which the running engine sets", scope.place(binders[0]))
        if not binders and not scope.stars():
            return MISSING
        if name in scope.pending:
            return Unknown(f"the name {name}, defined by itself", scope.place(binders[0]) if binders else scope.file)
        consulted = self.reader.decisions.consulted
        scope.pending.add(name)
        try:
            value = self._bound(scope, name, binders) if binders else self._of_star(scope, name)
        finally:
            scope.pending.discard(name)
        if self.reader.decisions.consulted == consulted:  # else it holds on the present way only
            scope.values[name] = value
        return value

    def _bound(self, scope: Scope, name: str, binders: list[ast.stmt]) -> Value:
        frame = Frame(scope, {})
        uncertain, self.reader.uncertain = self.reader.uncertain, 0
        try:
            for statement in binders:
                self.reader.execute(statement, frame, wanted=name)
            if name not in frame.locals and self.reader.tolerance is Tolerance.ALL:
                self._for_type_checkers(binders, name, frame)
            return frame.locals.get(name, MISSING)
        except (Unresolved, Raised) as error:
            if isinstance(error, Unresolved):
                return error.unknown
            unknown = self.reader.passed_over(error, scope.place(binders[0]))
            if unknown is None:
                raise
            return unknown
        finally:
            self.reader.uncertain = uncertain

    def _for_type_checkers(self, binders: list[ast.stmt], name: str, frame: Frame) -> None:
        """A name that is imported for annotations alone, unless the module finds it in a way of its own."""
        for statement in binders if not frame.scope.binders("__getattr__") else ():
            if isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING"):
                for inner in statement.body:
                    if isinstance(inner, (ast.Import, ast.ImportFrom)) and name in bound_names(inner):
                        self.reader.execute(inner, frame, wanted=name)

    def _of_star(self, scope: Scope, name: str) -> Value:
        """A name that a star import may bring; Unknown where it imports from what is not read."""
        told = True
        for star in reversed(scope.stars()) if not name.startswith("_") else ():
            module = self.reader.tree.module(scope.absolute(star))
            value = MISSING if module is None else self.lookup(module, name)
            if value is not MISSING and not isinstance(value, Unknown):
                return value
            told = told and module is not None and value is MISSING
        return MISSING if told or name in self.reader.builtins else Unknown(f"the name {name}", f"{scope.file}:1")

    def in_module(self, module: Module, name: str, place: str) -> Value:
        """module.name; AttributeError is raised where there is no such name for certain."""
        dotted = f"{module.name}.{name}"
        if dotted in self.reader.stand_ins:
            return self.reader.stand_ins[dotted]
        if module.scope is None:
            return External(dotted)
        value = self.lookup(module.scope, name)
        if value is not MISSING:
            return value
        if self.reader.tree.has_module(dotted):
            return Module(dotted, self.reader.tree.module(dotted))
        getter = self.reader.stand_ins.get(f"{module.name}.__getattr__")
        if isinstance(getter, Native):
            return getter.function(self.reader, module.scope, name)
        if module.scope.binders("__getattr__"):
            return Unknown(dotted, place)
        raise Raised("AttributeError", f"module '{module.name}' has no attribute '{name}'")
