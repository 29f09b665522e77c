# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader that stops at nothing: what depends on something that cannot be told is unknown, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.decisions import Decisions
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.natives import install
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.operations import is_told
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.reader import Reader
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.tolerance import Tolerance
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.tree import SourceTree
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.values import (
    Function,
    Recorder,
    Unknown,
    Unresolved,
)


def reader_of(folder: Path, body: str, tolerance: Tolerance = Tolerance.ALL) -> tuple[Reader, Function]:
    (folder / "vllm").mkdir()
    (folder / "vllm" / "source.py").write_text(f"import host\ndef asked(given=None):\n    {body}\n")
    (folder / "host.py").touch()
    reader = Reader(SourceTree(folder), Decisions(), tolerance)
    install(reader, {})
    scope = reader.tree.module("vllm.source")
    assert scope is not None
    function = reader.lookup(scope, "asked")
    assert isinstance(function, Function)
    return reader, function


def asked(folder: Path, body: str, *given: Any) -> Any:
    reader, function = reader_of(folder, body)
    return reader.call(function, list(given), {}, "test")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = [1]; y = host.a\n    return x", [1]),
        ("x = 1\n    if host.a:\n        y = 2\n    return x", 1),
        ("x = 1\n    for y in host.a:\n        pass\n    return x", 1),
        ("x = {'a': 1, 'b': host.a}\n    return x['a']", 1),
        ("x = 1\n    if host.a:\n        raise ValueError\n    return x", 1),
        ("raise ValueError\n    return 1", 1),
        ("x = {'a': 1}\n    del x['a']\n    return x", {}),
        ("x = y = [1]\n    x += [2]\n    return y", [1, 2]),
        ("import vllm.missing\n    return 1", 1),
    ],
)
def test_what_can_be_told(tmp_path: Path, body: str, expected: Any) -> None:
    assert asked(tmp_path, body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "x = 1\n    if host.a:\n        x = 2\n    return x",
        "x = [1]\n    if host.a:\n        x.append(2)\n    return x",
        "x = {'a': 1}\n    if host.a:\n        x['a'] = 2\n    return x['a']",
        "x = {'a': 1}\n    if host.a:\n        del x['a']\n    return x",
        "x = {'a': 1}\n    x.update(host.a)\n    return x['a']",
        "x = {'a': 1}\n    x.update(host.a)\n    return 'a' in x",
        "x = {'a': 1}\n    x.update(host.a)\n    return [key for key in x]",
        "x = y = [1]\n    x += host.a\n    return y",
        "x = [1]\n    for y in host.a:\n        x.append(y)\n    return x",
        "if host.a:\n        return 1\n    return 2",
        "for y in host.a:\n        return 1\n    return 2",
        "x = 1\n    if host.a:\n        return 2\n    x = 3\n    x = 4\n    return x",
        "return f'{host.a}'",
        "return 1 if host.a else 2",
        "return not host.a",
        "return [x for x in (1, 2) if host.a]",
        "from vllm.missing import x\n    return x",
        "return {}['a']",
        "x = [1]\n    x[5] = 2\n    return x",
        "x = {}\n    x[[1]] = 2\n    return x",
        "x = {'a': 1}\n    del x[[1]]\n    return x",
        "return {(1, [2])}",
        "return {(1, [2]): 3}",
        "return {x: 1 for x in [[1]]}",
        "return {x for x in ([1], [2])}",
        "return host.a | [1]",
    ],
)
def test_what_cannot_be_told(tmp_path: Path, body: str) -> None:
    assert not is_told(asked(tmp_path, body))


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("given.know()", 0),
        ("return given", 0),
        ("host.f(given)", 1),
        ("host.f(key=given)", 1),
        ("(lambda a: a)(given, host.a)", 1),
        ("given.know(*host.a)", 1),
        ("for x in host.a:\n        given.know(x)", 1),
        ("while given.know():\n        pass", 1),
    ],
)
def test_what_is_done_with_an_object_that_is_watched(tmp_path: Path, body: str, lost: int) -> None:
    reasons: list[str] = []
    asked(tmp_path, body, Recorder(Unknown, reasons.append))
    assert bool(reasons) == bool(lost)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('a')", "ValueError: a"),
        ("assert given is None\n    assert given, f'{nothing} and {given}'", "AssertionError: ? and None"),
        ("if host.a:\n        raise ValueError('a')", None),
        ("if host.a:\n        return\n    if host.b:\n        raise ValueError('a')", None),
        ("return {}['a']", None),
    ],
)
def test_an_exception_that_is_certain(tmp_path: Path, body: str, message: str | None) -> None:
    reader, function = reader_of(tmp_path, body)
    raised = reader.certain_exception(function, [], {})
    assert (None if raised is None else str(raised)) == message
    assert reader.tolerance is Tolerance.ALL


def test_endless_work_stops_any_reader(tmp_path: Path) -> None:
    reader, function = reader_of(tmp_path, "for a in range(9999):\n        for b in range(9999):\n            pass")
    with pytest.raises(Unresolved, match="of this length"):
        reader.call(function, [], {}, "test")
