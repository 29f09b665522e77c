# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that is parsed bit by bit holds the same statements, at the same lines, as one that is parsed at once."""

from __future__ import annotations

import ast

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.parsing import (
    Deferred,
    parse,
    parse_lazily,
)
from hypothesis import given
from hypothesis import strategies as st

PARTS = [
    "import os\n",
    "x = 1\n",
    "x: int = 2\n\n",
    "# a comment with '''quotes\n",
    "# and one more '''\n",
    '"""A docstring\nclass NotThis:\n    pass\n"""\n',
    "def f(a,\n      b):\n    return a\n",
    "async def g():\n    pass\n",
    "class C:\n    '''Doc\ndef inside_the_text():\n    '''\n    def m(self): ...\n",
    "@deco\nclass D:\n    x = 1\n",
    "@deco(\n    1,\n)\n@other\n# between\ndef h():\n    pass\n",
    "if x:\n    def i(): ...\nelif y:\n    pass\nelse:\n    pass\n",
    "try:\n    import a\nexcept ImportError:\n    a = None\nfinally:\n    pass\n",
    "y = [\n    1,\n]\n",
    "z = (\n1\n)\n",
    "t = '''\ndef nothing(): ...\n'''\n",
    "u = \"'''\"\n",
    "w = 1 + \\\n2\n",
    "with a as b:\n    pass\n",
    "class E(C): pass; pass\n",
    's = \'ü\' + """ß"""\n',
    "\n\n",
]


def dumped(statements: list[ast.stmt]) -> list[str]:
    return [ast.dump(statement, include_attributes=True) for statement in statements]


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_the_statements_are_the_same(text: str) -> None:
    data = text.encode()
    try:
        whole = parse(data)
    except SyntaxError:
        with pytest.raises(SyntaxError):
            [each.node() for each in parse_lazily(data) if isinstance(each, Deferred)]
        return
    lazily = parse_lazily(data)
    try:
        found = [each.node() if isinstance(each, Deferred) else each for each in lazily]
    except SyntaxError:
        return  # a definition that is none by itself: its scope then parses the whole file
    assert dumped(found) == dumped(whole)


def test_a_definition_is_parsed_when_it_is_asked_for() -> None:
    data = b"import os\n\n@deco\nclass A:\n    pass\n\ndef broken(:\n    pass\n"
    statements = parse_lazily(data)
    assert [each.name for each in statements if isinstance(each, Deferred)] == ["A", "broken"]
    deferred = statements[1]
    assert isinstance(deferred, Deferred)
    assert deferred.node().lineno == 4
    with pytest.raises(SyntaxError):
        statements[2].node()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "data",
    [
        b"# -*- coding: latin-1 -*-\nx = '\xfc'\ndef f(): ...\n",
        b"\xef\xbb\xbfdef f(): ...\nx = 1\n",
        b"x = 1\r\ndef f():\r\n    pass\r\n",
        b"x = '''never closed\ndef f(): ...\n'''\ny = '''\n'''\n",
        b"",
    ],
)
def test_encodings_and_line_ends(data: bytes) -> None:
    found = [each.node() if isinstance(each, Deferred) else each for each in parse_lazily(data)]
    assert dumped(found) == dumped(parse(data))


def test_what_is_no_python_is_said() -> None:
    with pytest.raises((SyntaxError, ValueError)):
        parse_lazily(b"x = (\n")
    with pytest.raises((SyntaxError, ValueError)):
        parse_lazily(b"x = 1\0\n")
