# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Following the statements of a source: assignments, branches, loops, exceptions and calls between its functions.

Nothing of the source is ever executed by Python: each statement is followed here, and only those kinds that are listed
here. Whatever else turns up makes the value that depends on it Unknown, with its file and line.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any

from .calls import Calls, Returned
from .expressions import Frame, holds_unknown
from .scope import Scope
from .values import Class, External, Function, Instance, Module, Raised, Record, Unknown, Unresolved, Value

MOST_ROUNDS = 1_000


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Interpreter(Calls):
    """Follows the functions and classes of one tree."""

    def run(self, statements: list[ast.stmt], frame: Frame) -> None:
        for statement in statements:
            if not self.tolerant:
                self.execute(statement, frame)
                continue
            try:
                self.execute(statement, frame)
            except Unresolved as error:
                self._pass_over(statement, frame, error.unknown)
            except Raised as raised:
                if raised.stated:
                    raise
                self._pass_over(statement, frame, Unknown(str(raised), frame.scope.place(statement)))

    def _pass_over(self, statement: ast.stmt, frame: Frame, unknown: Unknown) -> None:
        """Go on behind a statement that cannot be followed: what it may have bound is unknown from here on."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Return):
                raise Returned(unknown)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                frame.locals[node.id] = unknown
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(frame.receiver, Instance)
            ):
                frame.receiver.fields[node.attr] = unknown

    def execute(self, statement: ast.stmt, frame: Frame, wanted: str | None = None) -> None:
        """Follow one statement; with `wanted` an import only has to bind that name."""
        self.count(statement, frame)
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            self._import(statement, frame, wanted)
            return
        method = getattr(self, f"_exec_{type(statement).__name__.lower()}", None)
        if method is None:
            kind = type(statement).__name__.lower()
            raise Unresolved(Unknown(f"a statement of kind {kind}", frame.scope.place(statement)))
        method(statement, frame)

    def _exec_pass(self, node: ast.Pass, frame: Frame) -> None:
        pass

    def _exec_expr(self, node: ast.Expr, frame: Frame) -> None:
        value = self.evaluate(node.value, frame)
        if isinstance(value, Unknown) and isinstance(node.value, ast.Call):
            raise Unresolved(value)

    def _exec_assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.evaluate(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame)

    def _exec_annassign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, frame), frame)

    def _exec_augassign(self, node: ast.AugAssign, frame: Frame) -> None:
        target: Any = node.target
        current = ast.copy_location(ast.BinOp(ast.copy_location(_loaded(target), target), node.op, node.value), node)
        self.assign(target, self.evaluate(current, frame), frame)

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        place = frame.scope.place(target)
        if isinstance(target, ast.Name):
            frame.locals[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, Unknown):
                values = [Unknown(f"part {at} of {value.what}", value.place) for at in range(len(target.elts))]
            else:
                values = self.iterate(value, place)
            if len(values) != len(target.elts):
                raise Unresolved(Unknown(f"{len(values)} values for {ast.unparse(target)}", place))
            for element, part in zip(target.elts, values, strict=True):
                self.assign(element, part, frame)
        elif isinstance(target, ast.Attribute):
            holder = self.evaluate(target.value, frame)
            if isinstance(holder, Class):
                holder.body.values[target.attr] = value
            elif isinstance(holder, (Instance, Record)):
                holder.fields[target.attr] = value
            elif not isinstance(holder, (External, Module)):
                raise Unresolved(Unknown(f"an assignment to {ast.unparse(target)}", place))
        elif isinstance(target, ast.Subscript):
            holder, key = self.evaluate(target.value, frame), self.evaluate(target.slice, frame)
            if not isinstance(holder, (dict, list)) or holds_unknown([key]):
                raise Unresolved(Unknown(f"an assignment to {ast.unparse(target)}", place))
            holder[key] = value
        else:
            raise Unresolved(Unknown(f"an assignment to {ast.unparse(target)}", place))

    def _exec_if(self, node: ast.If, frame: Frame) -> None:
        self.run(node.body if self.holds(node.test, frame) else node.orelse, frame)

    def _exec_for(self, node: ast.For, frame: Frame) -> None:
        for element in self.iterate(self.evaluate(node.iter, frame), frame.scope.place(node)):
            self.assign(node.target, element, frame)
            try:
                self.run(node.body, frame)
            except _Break:
                return
            except _Continue:
                continue
        self.run(node.orelse, frame)

    def _exec_while(self, node: ast.While, frame: Frame) -> None:
        for _round in range(MOST_ROUNDS):
            if not self.holds(node.test, frame):
                self.run(node.orelse, frame)
                return
            try:
                self.run(node.body, frame)
            except _Break:
                return
            except _Continue:
                continue
        raise Unresolved(Unknown(f"the end of while {ast.unparse(node.test)}", frame.scope.place(node)))

    def _exec_break(self, node: ast.Break, frame: Frame) -> None:
        raise _Break

    def _exec_continue(self, node: ast.Continue, frame: Frame) -> None:
        raise _Continue

    def _exec_return(self, node: ast.Return, frame: Frame) -> None:
        raise Returned(None if node.value is None else self.evaluate(node.value, frame))

    def _exec_functiondef(self, node: ast.FunctionDef, frame: Frame) -> None:
        scope = frame.scope
        if scope.owner is not None:  # a method: it sees what its class sees, not its class's names
            frame.locals[node.name] = Function(node, scope.outermost, scope.owner, scope.owner.closure)
        else:
            frame.locals[node.name] = Function(node, scope, frame.owner, {**(frame.closure or {}), **frame.locals})

    def _exec_classdef(self, node: ast.ClassDef, frame: Frame) -> None:
        scope = frame.scope
        body = Scope(node.body, scope.module, scope.file, parent=scope)
        cls = Class(node.name, node, scope, body, {**(frame.closure or {}), **frame.locals})
        body.owner = cls
        frame.locals[node.name] = cls

    def _exec_assert(self, node: ast.Assert, frame: Frame) -> None:
        if not self.holds(node.test, frame):
            message = "" if node.msg is None else self.evaluate(node.msg, frame)
            raise Raised("AssertionError", "?" if isinstance(message, Unknown) else str(message), stated=True)

    def _exec_raise(self, node: ast.Raise, frame: Frame) -> None:
        place = frame.scope.place(node)
        made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if made is None:
            raise Unresolved(Unknown("an exception that is raised again", place))
        kind = self.evaluate(made, frame)
        if isinstance(kind, Record):
            raise Raised(str(kind.fields.get("kind")), str(kind.fields.get("message")), stated=True)
        if not isinstance(kind, (External, Class)):
            raise Unresolved(Unknown(f"the exception {ast.unparse(made)}", place))
        parts = [self.evaluate(part, frame) for part in node.exc.args[:1]] if isinstance(node.exc, ast.Call) else []
        message = "".join("?" if isinstance(part, Unknown) else str(part) for part in parts)
        raise Raised(kind.name.rpartition(".")[2], message, stated=True, place=place)

    def _exec_with(self, node: ast.With, frame: Frame) -> None:
        for item in node.items:
            context = item.context_expr
            if not (isinstance(context, ast.Call) and ast.unparse(context.func).rpartition(".")[2] == "suppress"):
                raise Unresolved(Unknown(f"with {ast.unparse(context)}", frame.scope.place(node)))
            try:
                self.run(node.body, frame)
            except Raised as raised:
                if not any(self._catches(kind, raised, frame) for kind in context.args):
                    raise

    def _exec_try(self, node: ast.Try, frame: Frame) -> None:
        try:
            try:
                self.run(node.body, frame)
            except Raised as raised:
                self._handle(node, raised, frame)
            else:
                self.run(node.orelse, frame)
        finally:
            if node.finalbody:
                self.run(node.finalbody, frame)

    def _handle(self, node: ast.Try, raised: Raised, frame: Frame) -> None:
        for handler in node.handlers:
            if handler.type is None or self._catches(handler.type, raised, frame):
                if handler.name is not None:
                    frame.locals[handler.name] = Record(raised.kind, {"kind": raised.kind, "message": raised.message})
                self.run(handler.body, frame)
                return
        raise raised

    def _catches(self, node: ast.expr, raised: Raised, frame: Frame) -> bool:
        kinds = node.elts if isinstance(node, ast.Tuple) else [node]
        return any(_is_a(raised.kind, ast.unparse(kind).rpartition(".")[2]) for kind in kinds)

    def _import(self, node: ast.Import | ast.ImportFrom, frame: Frame, wanted: str | None) -> None:
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
                frame.locals[bound] = self._imported_name(_absolute(node, frame.scope), alias.name, place)

    def imported(self, name: str, place: str) -> Module:
        if self.tree.is_engine(name):
            if not self.tree.has_module(name):
                raise Raised("ModuleNotFoundError", f"No module named '{name}'", stated=True, place=place)
            scope = self.tree.module(name)
            if scope is not None and scope.module not in self._needs_met:
                self._check_needs(scope)
                self._needs_met.add(scope.module)
            return Module(name, scope)
        package = name.split(".")[0]
        installed = self.tree.installed(package)
        if installed is None:
            installed = self.truth(Unknown(f"whether the package {package} is installed", place), place)
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
                if not self.tree.is_engine(package) and self.tree.installed(package) is False:
                    place = f"{scope.file}:{getattr(statement, 'lineno', 0)}"
                    raise Raised("ModuleNotFoundError", f"No module named '{package}'", stated=True, place=place)

    def _imported_name(self, module: str, name: str, place: str) -> Value:
        if f"{module}.{name}" in self.stand_ins:
            return self.stand_ins[f"{module}.{name}"]
        found = self.imported(module, place)
        if not self.tree.is_engine(module):
            return External(f"{module}.{name}")
        if found.scope is None:
            if self.tree.has_module(f"{module}.{name}"):
                return self.imported(f"{module}.{name}", place)
            return Unknown(f"{module}.{name} of a compiled extension", place)
        try:
            return self.module_attribute(found, name, place)
        except Raised as raised:
            if raised.kind != "AttributeError":
                raise
            message = f"cannot import name '{name}' from '{module}'"
            raise Raised("ImportError", message, stated=True, place=place) from raised


def _absolute(node: ast.ImportFrom, scope: Scope) -> str:
    if not node.level:
        return node.module or ""
    parts = scope.module.split(".")
    parts = parts[: len(parts) - node.level + (1 if scope.package else 0)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return target


def _is_a(kind: str, handler: str) -> bool:
    raised, caught = getattr(builtins, kind, None), getattr(builtins, handler, None)
    if isinstance(raised, type) and isinstance(caught, type):
        return issubclass(raised, caught)
    return kind == handler or handler in ("Exception", "BaseException")
