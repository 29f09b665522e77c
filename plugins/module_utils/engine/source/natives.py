# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The functions of Python and its library that a source may call, as far as they have no effect."""

from __future__ import annotations

import ast
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from .operations import LITERAL, LONGEST, UNION, holds_unknown, literal_values
from .reader import Reader
from .scope import Frame, Scope
from .values import (
    Bound,
    Class,
    External,
    Function,
    Instance,
    Member,
    Native,
    Raised,
    Record,
    Recorder,
    Unknown,
    Value,
)

EXCEPTIONS = (
    "AssertionError AttributeError Exception ImportError IndexError KeyError LookupError ModuleNotFoundError "
    "NotImplementedError OSError RuntimeError StopIteration TypeError ValueError FileNotFoundError"
)
_TYPES: dict[str, type] = {
    kind.__name__: kind for kind in (bool, int, float, str, bytes, tuple, list, dict, set, frozenset)
}


def install(reader: Reader, environment: Mapping[str, str]) -> None:
    """Give the reader Python's built-in names and the parts of its library that sources use."""
    plain: dict[str, Any] = {
        "abs": abs,
        "enumerate": _in_list(enumerate),
        "len": len,
        "max": max,
        "min": min,
        "range": _range,
        "repr": repr,
        "reversed": _in_list(reversed),
        "round": round,
        "sorted": lambda values, reverse=False: sorted(values, reverse=reverse),
        "sum": sum,
        "zip": _in_list(zip),
        **{name: _constructor(kind) for name, kind in _TYPES.items()},
    }
    lenient: dict[str, Any] = {
        "all": _all,
        "any": _any,
        "callable": _callable,
        "getattr": lambda value, name, *default: _getattr(reader, value, name, *default),
        "hasattr": lambda value, name: _hasattr(reader, value, name),
        "isinstance": lambda value, kinds: _isinstance(reader, value, kinds),
        "type": lambda value: _type(reader, value),
    }
    reader.builtins.update({name: Native(name, function) for name, function in plain.items()})
    reader.builtins.update({name: Native(name, function, lenient=True) for name, function in lenient.items()})
    reader.builtins.update({name: External(f"builtins.{name}") for name in EXCEPTIONS.split()})
    reader.builtins["object"] = External("builtins.object")
    root = reader.tree.root
    library: dict[str, Any] = {
        "importlib.util.find_spec": lambda name: _find_spec(reader, name),
        "itertools.chain": _in_list(itertools.chain),
        "itertools.combinations": _in_list(itertools.combinations),
        "itertools.permutations": _in_list(itertools.permutations),
        "itertools.product": _in_list(itertools.product),
        "math.gcd": math.gcd,
        "math.lcm": math.lcm,
        "os.environ.get": lambda name, default=None: environment.get(name, default),
        "os.getenv": lambda name, default=None: environment.get(name, default),
        "os.path.basename": os.path.basename,
        "os.path.dirname": os.path.dirname,
        "os.path.exists": lambda path: _inside(root, path, Path.exists),
        "os.path.isdir": lambda path: _inside(root, path, Path.is_dir),
        "os.path.isfile": lambda path: _inside(root, path, Path.is_file),
        "os.path.islink": lambda path: _inside(root, path, Path.is_symlink),
        "os.path.join": os.path.join,
        "typing.get_args": _get_args,
    }
    reader.stand_ins.update({name: Native(name, function) for name, function in library.items()})
    reader.stand_ins["typing.cast"] = Native("cast", lambda kind, value: value, lenient=True)
    reader.stand_ins["typing.TYPE_CHECKING"] = False
    reader.stand_ins["vllm.logger.init_logger"] = Native("init_logger", lambda *_: External("logger"), lenient=True)
    reader.stand_ins["logging.getLogger"] = reader.stand_ins["vllm.logger.init_logger"]
    reader.stand_ins["vllm.envs.__getattr__"] = Native("envs", _engine_variable, lenient=True)


def _engine_variable(reader: Reader, scope: Scope, name: str) -> Value:
    """vllm.envs.NAME: the entry of vLLM's table, which reads the environment and knows the default."""
    for statement in scope.binders("environment_variables"):
        table = getattr(statement, "value", None)
        if not isinstance(table, ast.Dict):
            continue
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                getter = reader.evaluate(value, Frame(scope, {}))
                return reader.call(getter, [], {}, scope.place(value))
    raise Raised("AttributeError", f"module 'vllm.envs' has no attribute '{name}'")


def _get_args(kind: Value) -> Value:
    if not isinstance(kind, External) or not kind.arguments:
        return Unknown("get_args()", "?")
    return literal_values(kind) if kind.name == LITERAL else kind.arguments


def _constructor(kind: type) -> Any:
    if kind is str:
        return lambda value="": value.fields["message"] if isinstance(value, Record) else str(value)
    return kind


def _range(*bounds: int) -> list[int]:
    return _listed(range(*bounds))


def _listed(values: Iterable[Any]) -> list[Any]:
    """An iterator's elements; one would be used up by the first reader."""
    found = list(itertools.islice(values, LONGEST + 1))
    if len(found) > LONGEST:
        raise TypeError("more elements than are worth it")
    return found


def _in_list(function: Callable[..., Iterable[Any]]) -> Callable[..., list[Any]]:
    return lambda *values, **options: _listed(function(*values, **options))


def _any(values: Value) -> Value:
    return _first(values, True)


def _all(values: Value) -> Value:
    return _first(values, False)


def _first(values: Value, decisive: bool) -> Value:
    """any() and all(): decided by one element that is certain, else unknown when any element is."""
    if isinstance(values, Unknown):
        return values
    unknown = [value for value in values if isinstance(value, (Unknown, External))]
    if any(bool(value) is decisive for value in values if not isinstance(value, (Unknown, External))):
        return decisive
    return Unknown(str(unknown[0]), "?") if unknown else not decisive


def _callable(value: Value) -> Value:
    if isinstance(value, Unknown):
        return Unknown(f"callable({value.what})", value.place)
    return isinstance(value, (Function, Bound, Class, Native, External))


def _getattr(reader: Reader, value: Value, name: Value, *default: Value) -> Value:
    if not isinstance(name, str):
        return Unknown("getattr()", "?")
    try:
        return reader.attribute(value, name, f"getattr of {name}")
    except Raised as raised:
        if default and raised.kind == "AttributeError":
            return default[0]
        raise


def _hasattr(reader: Reader, value: Value, name: str) -> Value:
    try:
        found = reader.attribute(value, name, f"hasattr of {name}")
    except Raised as raised:
        if raised.kind == "AttributeError":
            return False
        raise
    return Unknown(f"whether there is {found.what}", found.place) if isinstance(found, Unknown) else True


def _isinstance(reader: Reader, value: Value, kinds: Value) -> Value:
    answers = [_is_one(reader, value, kind) for kind in (kinds if isinstance(kinds, tuple) else (kinds,))]
    if True in answers:
        return True
    return Unknown("isinstance()", "?") if None in answers else False


def _is_one(reader: Reader, value: Value, kind: Value) -> bool | None:
    if isinstance(kind, External) and kind.name == UNION:
        answer = _isinstance(reader, value, kind.arguments)
        return None if isinstance(answer, Unknown) else bool(answer)
    if holds_unknown([kind]) or isinstance(value, (Unknown, External, Record, Recorder)):
        return None
    if isinstance(kind, Native):
        known = _TYPES.get(kind.name)
        held = value.value if isinstance(value, Member) and value.is_plain else value
        return isinstance(held, known) if known is not None else None
    if isinstance(kind, Class):
        return isinstance(value, (Instance, Member)) and kind in reader.bases(value.of)
    return False if value is None else None


def _type(reader: Reader, value: Value) -> Value:
    if isinstance(value, (Instance, Member)):
        return value.of
    return reader.builtins.get(type(value).__name__, Unknown("type()", "?"))


def _find_spec(reader: Reader, name: str) -> Value:
    tree = reader.tree
    package = name.split(".")[0]
    on_disk = tree.has_module(package)
    found = tree.has_module(name) if on_disk else tree.installed(package)
    if found is None or (found and not on_disk and name != package):
        return Unknown(f"find_spec({name!r})", f"{package} is not in {tree.root}")
    return External(f"the spec of {name}") if found else None


def _inside(root: Path, path: str, test: Any) -> Value:
    """What a test of a path says, for paths of the folder that is read; of others nothing is told."""
    if not os.path.abspath(path).startswith(f"{root}{os.sep}"):
        return Unknown(f"the file {path}", "?")
    return test(Path(path))
