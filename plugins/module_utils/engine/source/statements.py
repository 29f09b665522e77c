# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Following the statements of a source: assignments, branches, loops and exceptions.

Nothing of the source is ever executed by Python: each statement is followed here, and only those kinds that are listed
here. Whatever else turns up makes the value that depends on it Unknown, with its file and line.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from .operations import spoil
from .scope import Frame, Scope
from .texts import text
from .values import (
    Class,
    External,
    Function,
    Instance,
    Raised,
    Record,
    Recorder,
    Returned,
    Unknown,
    Unresolved,
)

if TYPE_CHECKING:
    from .reader import Reader

MOST_ROUNDS = 1_000


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Statements:
    """One method for each kind of statement that is followed; their names are those of ast."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def run(self, statements: list[ast.stmt], frame: Frame) -> None:
        for statement in statements:
            try:
                self.execute(statement, frame)
            except (Unresolved, Raised) as error:
                unknown = self.reader.passed_over(error, frame.scope.place(statement))
                if unknown is None:
                    raise
                self._pass_over(statement, frame, unknown)

    def _pass_over(self, statement: ast.stmt, frame: Frame, unknown: Unknown) -> None:
        """Go on behind a statement that cannot be followed: what it may have bound or changed is unknown from here."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                value = frame.locals.get(node.id)
                spoil(value, unknown)
                if isinstance(value, Recorder):
                    value.lost(f"a statement is not understood: {unknown}")
                elif isinstance(node.ctx, ast.Store):
                    frame.locals[node.id] = unknown
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                holder = frame.receiver
                if isinstance(holder, Instance):
                    holder.fields[node.attr] = unknown
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            self.reader.uncertain += 1  # until the function ends

    def execute(self, statement: ast.stmt, frame: Frame, wanted: str | None = None) -> None:
        """Follow one statement; with `wanted` an import only has to bind that name."""
        self.reader.count(statement, frame)
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            self.reader.import_names(statement, frame, wanted)
            return
        method = getattr(self, f"_{type(statement).__name__.lower()}", None)
        if method is None:
            kind = type(statement).__name__.lower()
            raise Unresolved(Unknown(f"a statement of kind {kind}", frame.scope.place(statement)))
        method(statement, frame)

    def _pass(self, node: ast.Pass, frame: Frame) -> None:
        pass

    def _expr(self, node: ast.Expr, frame: Frame) -> None:
        value = self.reader.evaluate(node.value, frame)
        if isinstance(value, Unknown) and isinstance(node.value, ast.Call) and not self.reader.tolerance:
            raise Unresolved(value)

    def _assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.reader.evaluate(node.value, frame)
        for target in node.targets:
            self.reader.assign(target, value, frame)

    def _annassign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self.reader.assign(node.target, self.reader.evaluate(node.value, frame), frame)

    def _augassign(self, node: ast.AugAssign, frame: Frame) -> None:
        self.reader.augment(node, frame)

    def _delete(self, node: ast.Delete, frame: Frame) -> None:
        self.reader.delete(node, frame)

    def _global(self, node: ast.Global, frame: Frame) -> None:
        """The names it declares are unknown wherever they are read."""

    def _if(self, node: ast.If, frame: Frame) -> None:
        try:
            holds = self.reader.holds(node.test, frame)
        except Unresolved:
            if not self.reader.tolerance:
                raise
            self._maybe(node.body, frame)
            self._maybe(node.orelse, frame)
            return
        self.run(node.body if holds else node.orelse, frame)

    def _maybe(self, body: list[ast.stmt], frame: Frame) -> None:
        """Statements that may not be reached. After one that may leave the function, nothing else is certain to be."""
        before = self.reader.uncertain
        self.reader.uncertain += 1
        try:
            self.run(body, frame)
            self.reader.uncertain = before
        except Raised:
            self.reader.uncertain = before  # when the engine gets there, it ends
        except (Returned, _Break, _Continue):
            pass

    def _for(self, node: ast.For, frame: Frame) -> None:
        for element in self.reader.iterate(self.reader.evaluate(node.iter, frame), frame.scope.place(node)):
            self.reader.assign(node.target, element, frame)
            try:
                self.run(node.body, frame)
            except _Break:
                return
            except _Continue:
                continue
        self.run(node.orelse, frame)

    def _while(self, node: ast.While, frame: Frame) -> None:
        for _round in range(MOST_ROUNDS):
            if not self.reader.holds(node.test, frame):
                self.run(node.orelse, frame)
                return
            try:
                self.run(node.body, frame)
            except _Break:
                return
            except _Continue:
                continue
        raise Unresolved(Unknown(f"the end of while {ast.unparse(node.test)}", frame.scope.place(node)))

    def _break(self, node: ast.Break, frame: Frame) -> None:
        raise _Break

    def _continue(self, node: ast.Continue, frame: Frame) -> None:
        raise _Continue

    def _return(self, node: ast.Return, frame: Frame) -> None:
        raise Returned(None if node.value is None else self.reader.evaluate(node.value, frame))

    def _functiondef(self, node: ast.FunctionDef, frame: Frame) -> None:
        scope = frame.scope
        if scope.owner is not None:  # a method: it sees what its class sees, not its class's names
            frame.locals[node.name] = Function(node, scope.outermost, scope.owner, scope.owner.closure)
        else:
            frame.locals[node.name] = Function(node, scope, frame.owner, {**(frame.closure or {}), **frame.locals})

    def _classdef(self, node: ast.ClassDef, frame: Frame) -> None:
        scope = frame.scope
        body = Scope(node.body, scope.module, scope.file, parent=scope)
        cls = Class(node.name, node, scope, body, {**(frame.closure or {}), **frame.locals})
        body.owner = cls
        frame.locals[node.name] = cls

    def _assert(self, node: ast.Assert, frame: Frame) -> None:
        if not self.reader.holds(node.test, frame):
            message = "" if node.msg is None else text(self.reader, node.msg, frame)[0]
            raise Raised("AssertionError", message, stated=True)

    def _raise(self, node: ast.Raise, frame: Frame) -> None:
        place = frame.scope.place(node)
        made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if made is None:
            raise Unresolved(Unknown("an exception that is raised again", place))
        kind = self.reader.evaluate(made, frame)
        if isinstance(kind, Record):
            raise Raised(str(kind.fields.get("kind")), str(kind.fields.get("message")), stated=True)
        if not isinstance(kind, (External, Class)):
            raise Unresolved(Unknown(f"the exception {ast.unparse(made)}", place))
        parts = node.exc.args[:1] if isinstance(node.exc, ast.Call) else []
        message = "".join(text(self.reader, part, frame)[0] for part in parts)
        raise Raised(kind.name.rpartition(".")[2], message, stated=True, place=place)

    def _with(self, node: ast.With, frame: Frame) -> None:
        for item in node.items:
            context = item.context_expr
            if not (isinstance(context, ast.Call) and ast.unparse(context.func).rpartition(".")[2] == "suppress"):
                raise Unresolved(Unknown(f"with {ast.unparse(context)}", frame.scope.place(node)))
            try:
                self.run(node.body, frame)
            except Raised as raised:
                if not any(_catches(kind, raised) for kind in context.args):
                    raise

    def _try(self, node: ast.Try, frame: Frame) -> None:
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
            if handler.type is None or _catches(handler.type, raised):
                if handler.name is not None:
                    frame.locals[handler.name] = Record(raised.kind, {"kind": raised.kind, "message": raised.message})
                self.run(handler.body, frame)
                return
        raise raised


def _catches(node: ast.expr, raised: Raised) -> bool:
    kinds = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(_is_a(raised.kind, ast.unparse(kind).rpartition(".")[2]) for kind in kinds)


def _is_a(kind: str, handler: str) -> bool:
    raised, caught = getattr(builtins, kind, None), getattr(builtins, handler, None)
    if isinstance(raised, type) and isinstance(caught, type):
        return issubclass(raised, caught)
    return kind == handler or handler in ("Exception", "BaseException")
