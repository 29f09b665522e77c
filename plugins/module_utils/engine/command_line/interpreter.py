# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The values of an engine's expressions, told by reading them; nothing of the engine is run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping

from . import operations
from .calls import Calls
from .expressions import Expressions, Scope
from .names import Names
from .source_tree import SourceTree
from .values import (
    SPOILED,
    EnumMember,
    External,
    FieldCall,
    Instance,
    Native,
    Recorder,
    Source,
    SourceClass,
    SourceFunction,
    Subscript,
    Unknown,
    Value,
    literal_values,
)


class Interpreter(Expressions):
    """Evaluates expressions of the engine's source.

    environment: the process environment that os.getenv() of the source would see
    natives:     functions of the engine with a meaning of their own here, by name
    """

    def __init__(self, tree: SourceTree, environment: Mapping[str, str]) -> None:
        self.tree = tree
        self.environment = environment
        self.names = Names(tree, self)
        self.natives: dict[str, Native] = {}
        self.calls = Calls(self)

    def name(self, name: str, source: Source, scope: Scope, node: ast.AST) -> Value:
        """What a bare name stands for: local, of the module, or Python's own."""
        if name in scope:
            return scope[name]
        if name in source.bound or name in source.checked:
            return self.names.in_module(source.name, name)
        if hasattr(builtins, name):
            return External(f"builtins.{name}")
        found = self.names.in_module(source.name, name) if source.stars else None
        return found if found is not None else Unknown(f"{name} is not defined", source.where(node))

    def from_environment(self, module: str, name: str) -> Value:
        """A setting that a module computes on demand from the process environment (vllm.envs)."""
        source = self.tree.source(module)
        table = source.bound.get("environment_variables") if source else None
        if source is not None and table is not None and isinstance(table.node, ast.Dict):
            for key, value in zip(table.node.keys, table.node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    found = self.evaluate(value, source, {})
                    return self.call(found, [], {}, source.where(value))
        return Unknown(f"{module}.{name} is not set", str(source.path) if source else "")

    def call(self, function: Value, arguments: list[Value], keywords: dict[str, Value], where: str) -> Value:
        """The result of a call."""
        if isinstance(function, Native):
            return function.call(arguments, keywords, where)
        if isinstance(function, SourceFunction):
            if function.name in self.natives:
                return self.natives[function.name].call(arguments, keywords, where)
            return self.calls.call(function, arguments, keywords, where)
        if isinstance(function, External):
            return self._external(function.name, arguments, keywords, where)
        if isinstance(function, SourceClass):
            return Instance(
                function.name, f"{function.name}()" if not (arguments or keywords) else f"{function.name}(...)"
            )
        for value in (*arguments, *keywords.values()):
            if isinstance(value, Recorder):
                value.lost(f"it is given to something that cannot be told ({where})")
        return function if isinstance(function, Unknown) else Unknown("a call of something that is no function", where)

    def _external(self, name: str, arguments: list[Value], keywords: dict[str, Value], where: str) -> Value:
        last = name.rpartition(".")[2]
        if last in ("getenv", "get") and name in ("os.getenv", "os.environ.get") and arguments:
            return self.environment.get(arguments[0], arguments[1] if len(arguments) > 1 else keywords.get("default"))
        if last in ("field", "Field") and name.split(".")[0] in ("dataclasses", "pydantic"):
            default = arguments[0] if arguments else keywords.get("default")
            has_default = bool(arguments) or "default" in keywords
            return FieldCall(default, keywords.get("default_factory"), has_default)
        if name == "typing.get_args" and arguments:
            return _arguments_of(arguments[0], where)
        for value in (*arguments, *keywords.values()):
            if isinstance(value, Recorder):
                value.lost(f"it is given to {name}() ({where})")
        return operations.function(name, arguments, keywords, where)

    def bind(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Give names their values, as an assignment or a loop does."""
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            for at, part in enumerate(target.elts):
                self.bind(part, value[at] if known else Unknown("the parts of a value cannot be told"), scope)

    def truth(self, value: Value, where: str) -> bool | Unknown:
        """Whether a value counts as true."""
        if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict, set)):
            return (
                Unknown("a condition cannot be told", where)
                if isinstance(value, dict) and SPOILED in value
                else bool(value)
            )
        if isinstance(value, (SourceClass, SourceFunction, EnumMember)):
            return True
        return value if isinstance(value, Unknown) else Unknown("a condition cannot be told", where)


def _arguments_of(value: Value, where: str) -> Value:
    """typing.get_args()."""
    if not isinstance(value, Subscript):
        return Unknown("the arguments of a type cannot be told", where)
    return literal_values(value) if value.origin == External("typing.Literal") else value.arguments
