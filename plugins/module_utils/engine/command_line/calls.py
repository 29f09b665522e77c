# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Functions of an engine's source, followed statement by statement as far as they work on the parser."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import operations
from .expressions import Scope
from .source_tree import imports
from .values import SPOILED, Recorder, Source, SourceFunction, Unknown, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter

DEEPEST_CALL = 25
_FUNCTION = "__function__"


class _Returned(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


class _Raised(Exception):
    """The source raises an error there, for certain."""


class Calls:
    """Runs the few statements that parsers are filled with.

    uncertain: above zero while statements are followed that may not be reached
    """

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.uncertain = 0
        self._depth = 0
        self._raising = False

    def expression(self, node: ast.Call, source: Source, scope: Scope) -> Value:
        """The value of a call expression."""
        interpreter, where = self.interpreter, source.where(node)
        function = self._super(node.func, scope) or interpreter.evaluate(node.func, source, scope)
        arguments: list[Value] = []
        for argument in node.args:
            value = interpreter.evaluate(
                argument.value if isinstance(argument, ast.Starred) else argument, source, scope
            )
            if isinstance(argument, ast.Starred):
                arguments += value if isinstance(value, (list, tuple)) else [Unknown("starred arguments", where)]
            else:
                arguments.append(value)
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = interpreter.evaluate(keyword.value, source, scope)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
                keywords.update(value)
            else:
                keywords[SPOILED] = value if isinstance(value, Unknown) else Unknown("keyword arguments", where)
        return interpreter.call(function, arguments, keywords, where)

    def _super(self, function: ast.expr, scope: Scope) -> Value:
        """`super().method`, None for anything else."""
        current = scope.get(_FUNCTION)
        if not isinstance(function, ast.Attribute) or not isinstance(current, SourceFunction) or current.owner is None:
            return None
        owner = function.value
        if not isinstance(owner, ast.Call) or not isinstance(owner.func, ast.Name) or owner.func.id != "super":
            return None
        where = current.source.where(function)
        return self.interpreter.names.of_class(current.owner, function.attr, where, after=current.defined_in)

    def call(self, function: SourceFunction, arguments: list[Value], keywords: dict[str, Value], where: str) -> Value:
        """A function of the engine: followed when it is given the parser or a container, or is one expression."""
        node = function.node
        if isinstance(node, ast.Lambda):
            scope = self._scope(function, arguments, keywords, where)
            return self.interpreter.evaluate(node.body, function.source, scope)
        given = (*arguments, *keywords.values())
        followed = any(isinstance(value, (Recorder, dict, list)) for value in given)
        single = _only_return(node)
        if not followed and single is None:
            return Unknown(f"what {function.name}() returns cannot be told", where)
        if self._depth >= DEEPEST_CALL:
            return Unknown(f"{function.name}() is called too deeply", where)
        self._depth += 1
        try:
            self.run(node.body, function.source, self._scope(function, arguments, keywords, where))
        except _Returned as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None

    def complaint(self, validator: SourceFunction, value: Value) -> str | None:
        """The error that a validator of the engine certainly raises about a value; None when it may take it."""
        self._raising = True
        try:
            where = validator.source.where(validator.node)
            self.run(validator.node.body, validator.source, self._scope(validator, [value], {}, where))  # type: ignore[arg-type]
        except _Raised as raised:
            return str(raised)
        except _Returned:
            pass
        finally:
            self._raising = False
        return None

    def _raise(self, statement: ast.Raise, source: Source, scope: Scope) -> None:
        if not self._raising or self.uncertain:
            return
        error = statement.exc
        message = (
            self.interpreter.evaluate(error.args[0], source, scope)
            if isinstance(error, ast.Call) and error.args
            else None
        )
        raise _Raised(message if isinstance(message, str) else f"it is refused at {source.where(statement)}")

    def _scope(
        self, function: SourceFunction, arguments: Sequence[Value], keywords: dict[str, Value], where: str
    ) -> Scope:
        """The local names at the start of a function."""
        scope: Scope = dict(function.scope or {})
        scope[_FUNCTION] = function
        specification = function.node.args
        parameters = [*specification.posonlyargs, *specification.args]
        given = list(arguments)
        if function.owner is not None and _is_classmethod(function.node):
            given.insert(0, function.owner)
        for parameter, default in zip(reversed(parameters), reversed(specification.defaults), strict=False):
            scope[parameter.arg] = self.interpreter.evaluate(default, function.source, {})
        for parameter, default_node in zip(specification.kwonlyargs, specification.kw_defaults, strict=True):
            if default_node is not None:
                scope[parameter.arg] = self.interpreter.evaluate(default_node, function.source, {})
        scope.update({parameter.arg: value for parameter, value in zip(parameters, given, strict=False)})
        scope.update({name: value for name, value in keywords.items() if name != SPOILED})
        for parameter in (*parameters, *specification.kwonlyargs):
            scope.setdefault(parameter.arg, Unknown(f"the argument {parameter.arg} is not given", where))
        return scope

    def run(self, body: Sequence[ast.stmt], source: Source, scope: Scope) -> None:
        """Follow statements in order; a `return` leaves by _Returned."""
        for statement in body:
            self._statement(statement, source, scope)

    def _statement(self, statement: ast.stmt, source: Source, scope: Scope) -> None:
        interpreter = self.interpreter
        if isinstance(statement, ast.Expr):
            interpreter.evaluate(statement.value, source, scope)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            if statement.value is not None:
                value = interpreter.evaluate(statement.value, source, scope)
                for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                    self._assign(target, value, source, scope)
        elif isinstance(statement, ast.AugAssign):
            self._augment(statement, source, scope)
        elif isinstance(statement, ast.Delete):
            for target in statement.targets:
                self._delete(target, source, scope)
        elif isinstance(statement, ast.If):
            self._if(statement, source, scope)
        elif isinstance(statement, ast.For):
            self._for(statement, source, scope)
        elif isinstance(statement, ast.Return):
            if not self.uncertain:
                value = None if statement.value is None else interpreter.evaluate(statement.value, source, scope)
                raise _Returned(value)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name, binding in imports(statement, source):
                scope[name] = interpreter.names.of_binding(source, name, binding)
        elif isinstance(statement, ast.FunctionDef):
            scope[statement.name] = SourceFunction(source, statement, scope=scope)
        elif isinstance(statement, ast.With):
            self.run(statement.body, source, scope)
        elif isinstance(statement, ast.Try):
            self.run([*statement.body, *statement.orelse, *statement.finalbody], source, scope)
        elif isinstance(statement, ast.Raise):
            self._raise(statement, source, scope)
        elif not isinstance(statement, (ast.Pass, ast.Assert, ast.Global)):
            self._lose(statement, source, scope)

    def _lose(self, statement: ast.stmt, source: Source, scope: Scope) -> None:
        """A statement that is not followed: what it mentions cannot be told any more."""
        reason = f"a statement is not understood ({source.where(statement)})"
        for node in ast.walk(statement):
            value = scope.get(node.id) if isinstance(node, ast.Name) else None
            if isinstance(value, Recorder):
                value.lost(reason)
            else:
                operations.spoil(value, Unknown(reason))

    def _assign(self, target: ast.expr, value: Value, source: Source, scope: Scope) -> None:
        if isinstance(target, ast.Subscript):
            holder = self.interpreter.evaluate(target.value, source, scope)
            key = self.interpreter.evaluate(target.slice, source, scope)
            where = source.where(target)
            if isinstance(holder, (dict, list)):
                try:
                    holder[key] = Unknown("it is set under a condition", where) if self.uncertain else value
                except operations.FAILURES:
                    operations.spoil(holder, Unknown("it is set in a way that cannot be told", where))
        else:
            changed = self.uncertain and isinstance(target, ast.Name) and target.id in scope
            certain = isinstance(value, Recorder) or not changed
            reason = Unknown("it is set under a condition", source.where(target))
            self.interpreter.bind(target, value if certain else reason, scope)

    def _augment(self, statement: ast.AugAssign, source: Source, scope: Scope) -> None:
        held = self.interpreter.evaluate(statement.target, source, scope)
        value = self.interpreter.evaluate(statement.value, source, scope)
        if isinstance(held, list) and isinstance(statement.op, ast.Add):
            operations.method(held, "extend", [value], {}, source.where(statement))
        else:
            result = operations.binary(statement.op, held, value, source.where(statement))
            self._assign(statement.target, result, source, scope)

    def _delete(self, target: ast.expr, source: Source, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            holder = self.interpreter.evaluate(target.value, source, scope)
            key = self.interpreter.evaluate(target.slice, source, scope)
            try:
                del holder[key]
            except operations.FAILURES:
                operations.spoil(holder, Unknown("a deletion fails", source.where(target)))

    def _if(self, statement: ast.If, source: Source, scope: Scope) -> None:
        value = self.interpreter.evaluate(statement.test, source, scope)
        truth = self.interpreter.truth(value, source.where(statement.test))
        if not isinstance(truth, Unknown):
            self.run(statement.body if truth else statement.orelse, source, scope)
            return
        self.uncertain += 1
        try:
            self.run([*statement.body, *statement.orelse], source, scope)
        finally:
            self.uncertain -= 1

    def _for(self, statement: ast.For, source: Source, scope: Scope) -> None:
        items = self.interpreter.evaluate(statement.iter, source, scope)
        if not isinstance(items, (list, tuple, set, dict, str)) or any(isinstance(item, Unknown) for item in items):
            self._lose(statement, source, scope)
            return
        for item in list(items):
            self.interpreter.bind(statement.target, item, scope)
            self.run(statement.body, source, scope)


def _is_classmethod(node: ast.FunctionDef | ast.Lambda) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(each, ast.Name) and each.id == "classmethod" for each in decorators)


def _only_return(node: ast.FunctionDef) -> ast.expr | None:
    """The expression of a function that does nothing but return one."""
    body = [line for line in node.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
