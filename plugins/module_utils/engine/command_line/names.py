# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What names, attributes and classes of an engine's source stand for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .source_tree import PACKAGE, SourceTree
from .values import (
    Binding,
    EnumMember,
    External,
    ModuleValue,
    Source,
    SourceClass,
    SourceFunction,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from .interpreter import Interpreter

DEEPEST_CHAIN = 12
_ENUMERATIONS = frozenset(("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"))


class Names:
    """Looks names up through the engine's imports; `interpreter` evaluates what they are bound to."""

    def __init__(self, tree: SourceTree, interpreter: Interpreter) -> None:
        self.tree = tree
        self._interpreter = interpreter
        self._values: dict[tuple[str, str], Value] = {}

    def in_module(self, module: str, name: str, depth: int = 0) -> Value:
        """The value of `module.name`; External when the module is not the engine's own."""
        if module.split(".")[0] != PACKAGE:
            return External(f"{module}.{name}")
        key = (module, name)
        if key not in self._values:
            self._values[key] = Unknown(f"{module}.{name} is defined by itself")
            self._values[key] = self._find(module, name, depth)
        return self._values[key]

    def _find(self, module: str, name: str, depth: int) -> Value:
        source = self.tree.source(module)
        if source is None or depth > DEEPEST_CHAIN:
            return Unknown(f"the module {module} is not installed", str(self.tree.root))
        # A module with __getattr__ has more at run time than a type checker is told, and other values.
        told = {} if "__getattr__" in source.bound else source.checked
        binding = source.bound.get(name) or told.get(name)
        if binding is not None:
            return self.of_binding(source, name, binding, depth)
        for starred in reversed(source.stars) if not name.startswith("_") else ():
            found = self.in_module(starred, name, depth + 1)
            if not isinstance(found, Unknown):
                return found
        if self.tree.source(f"{module}.{name}") is not None:
            return ModuleValue(f"{module}.{name}")
        return Unknown(f"{module} does not define {name}", str(source.path))

    def of_binding(self, source: Source, name: str, binding: Binding, depth: int = 0) -> Value:
        """The value that an import, a definition or an assignment gives to a name."""
        if binding.imported is not None:
            module, attribute = binding.imported
            if attribute is not None:
                return self.in_module(module, attribute, depth + 1)
            return ModuleValue(module) if module.split(".")[0] == PACKAGE else External(module)
        if isinstance(binding.node, ast.ClassDef):
            return SourceClass(source, binding.node)
        if isinstance(binding.node, ast.FunctionDef):
            return SourceFunction(source, binding.node)
        if binding.conditional:
            return Unknown(f"{name} depends on a condition", source.where(binding.node))
        if isinstance(binding.node, ast.expr):
            return self._interpreter.evaluate(binding.node, source, {})
        return Unknown(f"{name} is neither a value, a class nor a function", source.where(binding.node))

    def attribute(self, value: Value, name: str, where: str) -> Value:
        """`value.name` for modules, classes and names of other packages."""
        if isinstance(value, ModuleValue):
            found = self.in_module(value.name, name)
            return self._interpreter.from_environment(value.name, name) if isinstance(found, Unknown) else found
        if isinstance(value, External):
            return External(f"{value.name}.{name}")
        if isinstance(value, SourceClass):
            return self.of_class(value, name, where)
        if isinstance(value, EnumMember) and name in ("value", "name"):
            return value.value if name == "value" else value.name
        return value if isinstance(value, Unknown) else Unknown(f"the attribute {name} cannot be told", where)

    def of_class(self, value: SourceClass, name: str, where: str, *, after: SourceClass | None = None) -> Value:
        """A class attribute or method; `after` looks only behind that class of the lineage, as super() does."""
        if name == "__name__":
            return value.name
        if name == "__doc__":
            return ast.get_docstring(value.node) or ""
        owners = [owner for owner in self.lineage(value) if isinstance(owner, SourceClass)]
        if after is not None:
            owners = owners[next((at for at, owner in enumerate(owners, 1) if owner.same(after)), len(owners)) :]
        for owner in owners:
            for statement in owner.node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == name:
                    return SourceFunction(owner.source, statement, value, owner)
                assigned = _assigned(statement, name)
                if assigned is not None:
                    evaluated = self._interpreter.evaluate(assigned, owner.source, {})
                    return EnumMember(value.name, name, evaluated) if self.is_enumeration(value) else evaluated
        return Unknown(f"{value.name} does not define {name}", where)

    def lineage(self, value: SourceClass) -> list[Value]:
        """The class and its bases, nearest first, each once; a base outside the engine stays External or Unknown."""
        found: list[Value] = [value]
        for base in self.bases(value):
            for ancestor in self.lineage(base) if isinstance(base, SourceClass) else [base]:
                if not any(ancestor is known or _same(ancestor, known) for known in found):
                    found.append(ancestor)
        return found

    def bases(self, value: SourceClass) -> Iterator[Value]:
        for base in value.node.bases:
            yield self._interpreter.evaluate(base, value.source, {})

    def is_enumeration(self, value: SourceClass) -> bool:
        return any(isinstance(base, External) and base.name in _ENUMERATIONS for base in self.lineage(value))


def _same(one: Value, other: Value) -> bool:
    return one.same(other) if isinstance(one, SourceClass) else bool(one == other)


def _assigned(statement: ast.stmt, name: str) -> ast.expr | None:
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.value if statement.target.id == name else None
    if isinstance(statement, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in statement.targets):
        return statement.value
    return None
