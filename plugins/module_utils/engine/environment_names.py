# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The environment variables that an installed vLLM knows, read from its sources."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ServingError
from .source.parsing import parse_file

PREFIX = "VLLM_"
TABLE = "environment_variables"


@dataclass(frozen=True)
class EnvironmentNames:
    """The names of the engine's table, and why there may be others (None: these are all)."""

    names: frozenset[str]
    incomplete: str | None = None

    def unknown(self, asked: Iterable[str]) -> list[dict[str, str | None]]:
        """[{name, nearest}] of the VLLM_* names that the engine does not know; none when its table is not complete."""
        if self.incomplete:
            return []
        return [
            {"name": name, "nearest": next(iter(difflib.get_close_matches(name, self.names, 1, 0.85)), None)}
            for name in sorted(asked)
            if name.startswith(PREFIX) and name not in self.names
        ]


def read(root: Path) -> EnvironmentNames:
    """The names in vllm/envs.py below `root`; a file without the table is a ServingError."""
    path = root / "vllm" / "envs.py"
    if not path.is_file():
        raise _missing(path, "there is no such file")
    names: set[str] = set()
    incomplete = None
    found = False
    for statement in parse_file(path):
        for table in _tables(statement):
            found = True
            for key in table.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    names.add(key.value)
                else:
                    incomplete = f"a name of {TABLE} cannot be told ({path}:{table.lineno})"
        added = _added(statement)
        if added is not None:
            names.add(added)
        elif not _tables(statement) and _changes(statement):
            incomplete = f"{TABLE} is changed in a way that cannot be told ({path}:{statement.lineno})"
    if not found:
        raise _missing(path, f"it has no table {TABLE}")
    return EnvironmentNames(frozenset(names), incomplete)


def _missing(path: Path, why: str) -> ServingError:
    return ServingError(
        "the environment variables of the installed engine cannot be told",
        where=str(path),
        why=why,
        remedy="This is no vLLM, or a release that keeps them in a way that this collection does not know",
    )


def _tables(statement: ast.stmt) -> list[ast.Dict]:
    """The dict of `environment_variables = {...}` or of `environment_variables.update({...})`."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        named = any(isinstance(target, ast.Name) and target.id == TABLE for target in targets)
        return [statement.value] if named and isinstance(statement.value, ast.Dict) else []
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{TABLE}.update" and len(call.args) == 1:
        return [call.args[0]] if isinstance(call.args[0], ast.Dict) else []
    return []


def _added(statement: ast.stmt) -> str | None:
    """The name of `environment_variables["NAME"] = ...`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == TABLE:
        name = target.slice.value if isinstance(target.slice, ast.Constant) else None
        return name if isinstance(name, str) else None
    return None


def _changes(statement: ast.stmt) -> bool:
    """Whether a statement of the module, not one inside a function, may change the table."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return False
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return False
    for node in ast.walk(statement):
        if isinstance(node, (ast.Subscript, ast.Name)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            name = node.value if isinstance(node, ast.Subscript) else node
            if isinstance(name, ast.Name) and name.id == TABLE:
                return True
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == TABLE
        ):
            return node.func.attr in ("update", "setdefault", "pop", "clear", "popitem")
    return False
