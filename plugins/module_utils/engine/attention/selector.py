# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""vLLM's own choice of an attention backend on CUDA, followed in its sources.

The order comes from _get_backend_priorities (platforms/cuda.py). Whether a backend may be chosen is the answer of its
validate_configuration (v1/attention/backend.py).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..source.decisions import TooManyWays, Way
from ..source.values import (
    Bound,
    Class,
    Function,
    Member,
    Raised,
    Unknown,
    Unresolved,
    Value,
)
from .facts import selector_facts
from .implementation import later_refusals, parameters
from .surroundings import Surroundings

REGISTRY = ("vllm.v1.attention.backends.registry", "AttentionBackendEnum")
BACKENDS = "vllm.v1.attention.backends."
PRIORITIES = ("vllm.platforms.cuda", "_get_backend_priorities")


@dataclass(frozen=True)
class Verdict:
    """What vLLM says about one backend and one KV-cache dtype.

    valid:   whether the selector accepts it; None when the source does not tell
    reasons: the selector's, in its own words
    later:   what would end the engine after the selector had accepted it
    unknown: what could not be told, each with file and line
    would_run: of an open verdict, whether nothing is known that would end the engine if the selector accepted it
    """

    valid: bool | None
    reasons: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    would_run: bool = False

    @property
    def serves(self) -> bool | None:
        """Whether the engine would run with it; None when that is not certain."""
        if self.later:
            return False
        return None if self.valid and self.unknown else self.valid


class Selector:
    """Asks one installation about one question."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.around = surroundings
        self.question = surroundings.question
        self.reader = surroundings.reader
        self.notes: list[str] = []
        self._imported: set[str] = set()

    def priorities(self, kv_cache_dtype: str) -> list[str]:
        """Names of the backends that vLLM tries, first to last; Unresolved when that cannot be told."""
        function = self.around.value(*PRIORITIES)
        if not isinstance(function, Function):
            raise Unresolved(function if isinstance(function, Unknown) else Unknown(PRIORITIES[1], "platforms/cuda.py"))
        keywords = self._keywords(function, selector_facts(self.question, kv_cache_dtype))
        place = function.scope.place(function.node)
        ways = self.explore(lambda: _names(self.reader.call(function, [], keywords, place), place))
        if any(way.result != ways[0].result for way in ways):
            raise Unresolved(Unknown(f"{PRIORITIES[1]}: {_told(ways)[0]}", place))
        return list(ways[0].result)

    def registered(self) -> list[str]:
        """All backends that this vLLM has a class for."""
        registry = self.around.cls(*REGISTRY)
        values = {name: self.reader.lookup(registry.body, name) for name in registry.body.names() if name.isupper()}
        return [name for name, value in values.items() if isinstance(value, str) and value]

    def judge(self, name: str, kv_cache_dtype: str) -> Verdict:
        """The selector's verdict, and of an accepted backend what it refuses later."""
        self.around.ask_for(kv_cache_dtype)
        try:
            ways = self.explore(lambda: self.refusals(name, kv_cache_dtype))
        except (Unresolved, TooManyWays) as error:
            return Verdict(None, unknown=(str(error.unknown),))
        refused = [bool(way.result) for way in ways]
        if all(refused):
            common = [reason for reason in ways[0].result if all(reason in way.result for way in ways)]
            return Verdict(False, tuple(common or ways[0].result))
        accepted = self._accepted(name, kv_cache_dtype)
        if not any(refused):
            return accepted
        possible = dict.fromkeys(reason for way in ways for reason in way.result)
        told = (*(f"perhaps {reason!r}" for reason in possible), *_told(ways), *accepted.later, *accepted.unknown)
        return Verdict(None, unknown=told, would_run=bool(accepted.serves))

    def _accepted(self, name: str, kv_cache_dtype: str) -> Verdict:
        """The verdict on a backend that the selector accepts: what it refuses later."""
        try:
            ways = self.explore(lambda: later_refusals(self.around, self.backend(name), kv_cache_dtype))
        except (Unresolved, TooManyWays) as error:
            return Verdict(True, unknown=(str(error.unknown),))
        certain = [reason for reason in ways[0].result if all(reason in way.result for way in ways)]
        return Verdict(True, later=tuple(certain))

    def backend(self, name: str) -> Class:
        """The backend's class, as importing it would find it."""
        path = self.reader.lookup(self.around.cls(*REGISTRY).body, name)
        if not isinstance(path, str) or not path:
            raise Raised("ValueError", f"Backend {name} must be registered before use", stated=True)
        module, _dot, cls = path.rpartition(".")
        self._import(module)
        return self.around.cls(module, cls)

    def _file_of(self, name: str) -> str:
        path = self.reader.lookup(self.around.cls(*REGISTRY).body, name)
        return f"{str(path).rpartition('.')[0].replace('.', '/')}.py"

    def _import(self, module: str, importers: tuple[str, ...] = ()) -> None:
        """Fail as importing the module would where a package is not installed that it or a backend it uses imports."""
        if module in self._imported or module in importers:
            return
        scope = self.around.tree.module(module)
        if scope is None:
            raise Raised("ModuleNotFoundError", f"No module named '{module}'", stated=True)
        consulted = self.around.decisions.consulted
        for statement in scope.body:
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and not statement.level:
                names = [statement.module or ""]
            else:
                continue
            for name in names:
                self.reader.imported(name, scope.place(statement))
                if name.startswith(BACKENDS):
                    self._import(name, (*importers, module))
        if self.around.decisions.consulted == consulted:
            self._imported.add(module)

    def refusals(self, name: str, kv_cache_dtype: str) -> tuple[str, ...]:
        try:
            backend = self.backend(name)
            check = self.reader.attribute(backend, "validate_configuration", backend.scope.place(backend.node))
            if not isinstance(check, Bound):
                raise Unresolved(
                    check if isinstance(check, Unknown) else Unknown("validate_configuration", backend.scope.file)
                )
            keywords = self._keywords(check.function, selector_facts(self.question, kv_cache_dtype))
            place = check.function.scope.place(check.function.node)
            reasons = self.reader.call(check, [], keywords, place)
        except Raised as raised:
            if not raised.stated:
                raise Unresolved(Unknown(str(raised), f"{self._file_of(name)}, or what it is based on")) from raised
            return (str(raised),)
        if not isinstance(reasons, list):
            raise Unresolved(reasons if isinstance(reasons, Unknown) else Unknown("a list of reasons", place))
        return tuple(str(reason) for reason in reasons)

    def _keywords(self, function: Function, facts: dict[str, Value]) -> dict[str, Value]:
        """The facts that the function takes. What it takes besides stays at its default, and a note says so."""
        taken = parameters(function)
        defaults = function.node.args.defaults
        for name in taken[len(taken) - len(defaults) :] if defaults else []:
            if name not in facts and name not in ("num_heads", "cls"):
                note = f"{getattr(function.node, 'name', '')} also takes {name}, which is left at its default"
                if note not in self.notes:
                    self.notes.append(note)
        return {name: facts[name] for name in taken if name in facts}

    def explore(self, run: Callable[[], Any]) -> list[Way[Any]]:
        def once() -> Any:
            self.reader.restart()
            try:
                return run()
            except RecursionError as error:
                raise Unresolved(Unknown("a source that nests this deeply", "")) from error
            except Raised as raised:
                raise Unresolved(Unknown(f"what to do after {raised}", raised.place)) from raised

        return self.around.decisions.explore(once)


def _names(value: Value, place: str) -> list[str]:
    if isinstance(value, list) and value and all(isinstance(member, Member) for member in value):
        return [member.name for member in value]
    raise Unresolved(value if isinstance(value, Unknown) else Unknown("a list of backends", place))


def _told(ways: Iterable[Way[Any]]) -> list[str]:
    return list(dict.fromkeys(str(unknown) for way in ways for unknown in way.assumed))
