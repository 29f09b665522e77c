# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source that is read yields what Python would, or is unknown; it is never run, and takes bounded time and memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.decisions import (
    MOST_WAYS,
    Decisions,
    TooManyWays,
    Way,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.natives import install
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.operations import holds_unknown
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.reader import Reader
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.tree import SourceTree
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.values import (
    Raised,
    Unknown,
    Unresolved,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def reader_of(folder: Path, **files: str) -> Reader:
    (folder / "vllm").mkdir(exist_ok=True)
    for name, text in {"__init__": "", **files}.items():
        (folder / "vllm" / f"{name}.py").write_text(text)
    reader = Reader(SourceTree(folder), Decisions())
    install(reader, {})
    return reader


def ways_of(reader: Reader, module: str = "vllm.source", name: str = "asked") -> list[Way[Any]]:
    """The result of calling a function without arguments, on every way; an exception as ("raised", kind)."""
    scope = reader.tree.module(module)
    assert scope is not None

    def run() -> Any:
        reader.restart()
        try:
            return reader.call(reader.lookup(scope, name), [], {}, "test")
        except Raised as raised:
            return "raised", raised.kind
        except Unresolved as error:
            return error.unknown

    return reader.decisions.explore(run)


def result(folder: Path, text: str) -> Any:
    ways = ways_of(reader_of(folder, source=text))
    assert len(ways) == 1
    return ways[0].result


# Each part of the file defines asked().
PROGRAMS = Path(__file__).with_name("programs.txt").read_text().split("---\n")


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_program_yields_what_python_yields(tmp_path: Path, text: str) -> None:
    names: dict[str, Any] = {"__name__": "source"}
    exec(compile(text, "source", "exec"), names)  # noqa: S102 - the peer
    assert result(tmp_path, text) == names["asked"]()


NUMBERS = st.integers(-9, 9).map(str)
WORDS = st.sampled_from(["'a'", "'fp8'", "''", "None", "True", "False"])
LEAVES = st.one_of(NUMBERS, WORDS, st.sampled_from(["[1, 2]", "(3, 'a')", "{'a': 1}", "{1, 2}", "[]"]))


def combined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(
        ["+", "-", "//", "%", "and", "or", "==", "!=", "<", ">=", "in", "not in", "is", "is not"]
    )
    return st.one_of(
        st.builds(lambda a, o, b: f"({a} {o} {b})", parts, operators, parts),
        st.builds(lambda a, b, c: f"({a} if {b} else {c})", parts, parts, parts),
        st.builds(lambda a: f"(not {a})", parts),
        st.builds(lambda a, b: f"[{a}, *([{b}] if {a} else [])]", parts, parts),
        st.builds(lambda a, b, c: f"({a} < {b} < {c})", parts, parts, parts),
        st.builds(lambda a: f"len({a})", parts),
        st.builds(lambda a, n: f"{a}[{n}]", parts, st.integers(0, 2)),
    )


EXPRESSIONS = st.recursive(LEAVES, combined, max_leaves=12)


@given(EXPRESSIONS)
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_an_expression_is_as_python_has_it_or_unknown(tmp_path: Path, expression: str) -> None:
    text = f"def asked():\n    return {expression}"
    ways = ways_of(reader_of(tmp_path, source=text))
    try:
        expected: Any = eval(expression)  # noqa: S307 - the peer
    except (LookupError, ArithmeticError):
        assert all(way.assumed or is_open(way.result) for way in ways)
        return
    except TypeError:
        return  # no engine that starts has such a source: nothing is claimed
    if not any(way.assumed or is_open(way.result) for way in ways):
        assert [way.result for way in ways] == [expected]
        assert type(ways[0].result) is type(expected)


def is_open(value: Any) -> bool:
    """Whether it tells nothing certain: unknown, made of something unknown, or an exception."""
    return holds_unknown([value]) or (isinstance(value, tuple) and value[:1] == ("raised",))


@pytest.mark.parametrize(
    "body",
    [
        "open('{touched}', 'w')",
        "__import__('os').system('touch {touched}')",
        "os.system('touch {touched}')",
        "os.path.join.__globals__['os'].system('touch {touched}')",
        "().__class__.__bases__[0].__subclasses__()",
        "eval('open(chr(47))')",
        "exec('x = 1')",
        "getattr(getattr('', '__class__'), '__mro__')",
        "(lambda: 0).__code__",
        "asked.__globals__",
        "type(asked)('x', (), {{}})",
        "subprocess.run(['touch', '{touched}'])",
        "Path('{touched}').touch()",
        "print('x', file=open('{touched}', 'w'))",
        "'{{0.__class__}}'.format(0)",
        "f'{{asked.__globals__}}'",
        "os.path.exists('/etc/passwd')",
    ],
)
def test_what_could_have_an_effect_is_unknown(tmp_path: Path, body: str) -> None:
    touched = tmp_path / "touched"
    text = f"import os, subprocess\nfrom pathlib import Path\ndef asked():\n    return {body.format(touched=touched)}"
    ways = ways_of(reader_of(tmp_path, source=text))
    assert all(isinstance(way.result, Unknown) or way.result == "?" or "raised" in way.result for way in ways)
    assert not touched.exists()


@pytest.mark.parametrize(
    "text",
    [
        "def asked():\n    return 'a' * 10**12",
        "def asked():\n    return [0] * 10**10",
        "def asked():\n    return 9 ** 9 ** 9",
        "def asked():\n    return '%1000000000d' % 1",
        "def asked():\n    return '{:>1000000000}'.format(1)",
        "def asked():\n    n = 3\n    while True:\n        n = n * n",
        "def asked():\n    a = [1]\n    while True:\n        a.extend(a)",
        "def asked():\n    s = 'a'\n    while True:\n        s = s + s",
        "def asked():\n    s = 'a'\n    while True:\n        s = s.replace('a', 'aa')",
        "def asked():\n    while True:\n        pass",
        "def asked():\n    return asked()",
        "def asked():\n    return [1 for a in range(9999) for b in range(9999)]",
        "def asked():\n    return range(10**12)",
        "def asked():\n    return sum(a for a in range(10**9))",
        "X = X\ndef asked():\n    return X",
        "class A(A):\n    pass\ndef asked():\n    return A.x",
        "from vllm.source import asked as again\ndef asked():\n    return again()",
        f"def asked():\n    return {'(' * 90}1{' + 1)' * 90}",
        f"def asked():\n    return {'not ' * 60}x",
    ],
)
def test_a_source_cannot_take_much_time_or_memory(tmp_path: Path, text: str) -> None:
    started = time.process_time()
    for way in ways_of(reader_of(tmp_path, source=text)):
        assert isinstance(way.result, (Unknown, int, tuple))
    assert time.process_time() - started < 10


def test_both_ways_of_an_unknown_condition_are_followed(tmp_path: Path) -> None:
    text = "import host\ndef asked():\n    if host.wide:\n        return 1\n    return 2 if host.wide else 3"
    reader = reader_of(tmp_path, source=text)
    (tmp_path / "host.py").touch()
    ways = ways_of(reader)
    # One and the same condition is decided once a way: 2 cannot be.
    assert {way.result for way in ways} == {1, 3}
    assert {str(unknown) for way in ways for unknown in way.assumed} == {"host.wide (vllm/source.py:3)"}


def test_a_module_s_names_do_not_leak_from_one_way_to_the_other(tmp_path: Path) -> None:
    text = "import host\nif host.wide:\n    X = 1\nelse:\n    X = 2\ndef asked():\n    return [X]"
    reader = reader_of(tmp_path, source=text)
    (tmp_path / "host.py").touch()
    assert sorted(way.result[0] for way in ways_of(reader)) == [1, 2]


def test_what_both_ways_yield_is_a_fact_and_too_many_ways_are_none(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, source="import host\ndef asked():\n    return 3 if host.wide else 3")
    (tmp_path / "host.py").touch()
    assert [way.result for way in ways_of(reader)] == [3, 3]
    conditions = "\n".join(f"    n += 1 if host.c{at} else 0" for at in range(12))
    reader = reader_of(tmp_path, source=f"import host\ndef asked():\n    n = 0\n{conditions}\n    return n")
    assert MOST_WAYS < 2**12
    with pytest.raises(TooManyWays, match="host"):
        ways_of(reader)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import missing_package", ("raised", "ModuleNotFoundError")),
        ("import vllm.missing", ("raised", "ModuleNotFoundError")),
        ("from vllm.other import missing", ("raised", "ImportError")),
        ("from vllm.other import here", 5),
        ("from .other import here", 5),
        ("from . import other\n    here = other.here", 5),
        ("import vllm.other as o\n    here = o.here", 5),
        ("import vllm.other\n    here = vllm.other.here", 5),
        ("import vllm._native\n    here = 6", 6),
        ("import present\n    here = present is None", False),
    ],
)
def test_imports_are_as_the_folder_has_them(tmp_path: Path, text: str, expected: Any) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "present").mkdir()
    reader = reader_of(tmp_path, source=f"def asked():\n    {text}\n    return here", other="here = 5")
    (tmp_path / "vllm" / "_native.abi3.so").touch()
    assert [way.result for way in ways_of(reader)] == [expected]


def test_a_name_that_a_function_sets_is_unknown(tmp_path: Path) -> None:
    text = "_manager = None\ndef start():\n    global _manager\n    _manager = 1\ndef asked():\n    return _manager"
    assert "which the running engine sets" in str(result(tmp_path, text))


def test_star_imports_and_module_getattr_leave_names_open(tmp_path: Path) -> None:
    assert isinstance(result(tmp_path, "from vllm.other import *\ndef asked():\n    return here"), Unknown)
    reader = reader_of(
        tmp_path,
        source="from vllm.one import *\nfrom vllm.other import *\ndef asked():\n    return [here, there, len('a')]",
        one="here = 1\nthere = 2",
        other="here = 3",
    )
    assert ways_of(reader)[0].result == [3, 2, 1]
    reader = reader_of(
        tmp_path,
        source="from vllm.other import here\ndef asked():\n    return here",
        other="def __getattr__(name):\n    return 1",
    )
    assert isinstance(ways_of(reader)[0].result, Unknown)


def test_packages_that_a_pth_file_adds_and_that_a_module_needs(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "more" / "inner" / "added").mkdir(parents=True)
    text = "def asked():\n    try:\n        import vllm.other\n    except ImportError:\n        return 'no'\n"
    text += "    return 'yes'"
    reader = reader_of(tmp_path, source=text, other="import added\n")
    assert [way.result for way in ways_of(reader)] == ["no"]
    (tmp_path / "added.pth").write_text("import something_at_start\nmore/inner\n")
    reader = reader_of(tmp_path, source=text, other="import added\n")
    assert [way.result for way in ways_of(reader)] == ["yes"]
