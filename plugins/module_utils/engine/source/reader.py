# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Reading Python source for what it would yield, without importing or running any of it."""

from __future__ import annotations

import ast

from .assignments import Assignments
from .attributes import Attributes
from .calls import Calls
from .decisions import Decisions
from .expressions import Expressions
from .imports import Imports
from .names import Names
from .operations import PLAIN, holds_spoiled
from .scope import Frame
from .statements import Statements
from .tolerance import Tolerance
from .tree import SourceTree
from .values import Bound, External, Function, Member, Native, Raised, Unknown, Unresolved, Value

MOST_STEPS = 200_000  # expressions and statements of one question


class Reader:
    """Follows the functions and classes of one tree.

    decisions: what a condition counts as that cannot be told
    stand_ins: values by the dotted name under which the source knows them
    builtins:  Python's own names
    by_name:   functions that have a meaning of their own wherever the source keeps them
    tolerance: what may stop the reading
    uncertain: above zero while statements are followed that may not be reached
    """

    def __init__(self, tree: SourceTree, decisions: Decisions, tolerance: Tolerance = Tolerance.NONE) -> None:
        self.tree = tree
        self.decisions = decisions
        self.tolerance = tolerance
        self.stand_ins: dict[str, Value] = {}
        self.builtins: dict[str, Value] = {}
        self.by_name: dict[str, Native] = {}
        self.uncertain = 0
        self.steps = 0
        self._externals: dict[str, Unknown] = {}
        expressions, statements, assignments = Expressions(self), Statements(self), Assignments(self)
        names, attributes, imports, calls = Names(self), Attributes(self), Imports(self), Calls(self)
        self._calls = calls
        self.evaluate, self.iterate = expressions.evaluate, expressions.iterate
        self.holds = expressions.holds
        self.execute, self.run = statements.execute, statements.run
        self.assign, self.augment, self.delete = assignments.assign, assignments.augment, assignments.delete
        self.name, self.lookup, self.in_module = names.name, names.lookup, names.in_module
        self.attribute, self.class_attribute = attributes.attribute, attributes.of_class
        self.bases, self.foreign_bases = attributes.bases, attributes.foreign_bases
        self.is_enum, self.member_of = attributes.is_enum, attributes.member_of
        self.import_names, self.imported = imports.import_names, imports.imported
        self.call = calls.call

    def restart(self) -> None:
        """Begin a new question: the limits count from here."""
        self.steps = self.uncertain = self._calls.depth = 0

    def count(self, node: ast.AST, frame: Frame) -> None:
        """One more step; a source that takes too many of them is not followed further."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            error = Unresolved(Unknown("a computation of this length", frame.scope.place(node)))
            error.exhausted = True
            raise error

    def passed_over(self, error: Unresolved | Raised, place: str) -> Unknown | None:
        """What stands in the place of what cannot be followed; None where that ends the reading."""
        if self.tolerance is Tolerance.NONE:
            return None
        if isinstance(error, Unresolved):
            return None if error.exhausted else error.unknown
        if error.stated and self.tolerance is not Tolerance.ALL:
            return None
        return Unknown(str(error), error.place or place)

    def truth(self, value: Value, place: str) -> bool:
        if isinstance(value, PLAIN) and not holds_spoiled(value):
            return bool(value)
        if isinstance(value, External):
            # One and the same, wherever it is asked for.
            value = self._externals.setdefault(value.name, Unknown(value.name, place))
        if isinstance(value, dict):
            value = Unknown("a condition", place)
        if isinstance(value, Unknown):
            if self.tolerance:
                raise Unresolved(value)
            return self.decisions.decide(value)
        if isinstance(value, Member) and value.is_plain:
            return bool(value.value)
        return True

    def certain_exception(
        self, function: Bound | Function, arguments: list[Value], keywords: dict[str, Value]
    ) -> Raised | None:
        """The exception that a call certainly raises; what cannot be told on the way is passed over."""
        before = self.tolerance, self.uncertain
        self.tolerance, self.uncertain = Tolerance.SURE, 0
        try:
            self.call(function, arguments, keywords, "")
        except Raised as raised:
            return raised
        except Unresolved:
            return None
        finally:
            self.tolerance, self.uncertain = before
        return None
