# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Parsing a source file bit by bit: a function or class at its top level is parsed when its name is asked for.

Of a file of 3,000 lines a question needs one class. The file is cut where a statement can begin; a piece whose quotes
do not pair is joined with what follows, and where a piece is not Python by itself, the whole file is parsed instead.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ServingError

_START = re.compile(r"^(?!else\b|elif\b|except\b|finally\b|case\b)[^\s#)\]}]", re.MULTILINE)
_DEFINITION = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)
_BEGINS_DEFINITION = re.compile(r"@|async\s+def\b|def\b|class\b")
_OTHER_ENCODING = re.compile(rb"coding[:=]")


@dataclass(eq=False)
class Deferred:
    """A function or class that is not parsed yet. line: its first line in the file."""

    name: str
    text: str
    line: int
    _node: ast.stmt | None = field(default=None, repr=False)

    def node(self) -> ast.stmt:
        """The statement; SyntaxError when the text is none by itself."""
        if self._node is None:
            body = parse(self.text, self.line)
            if len(body) != 1 or getattr(body[0], "name", None) != self.name:
                raise SyntaxError(f"the text is not {self.name} alone")
            self._node = body[0]
        return self._node


def parse(text: str | bytes, line: int = 1) -> list[ast.stmt]:
    """The statements of a text that begins at that line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python thinks of the engine's style
        tree = ast.parse(text)
    return ast.increment_lineno(tree, line - 1).body if line > 1 else tree.body


def parse_file(path: Path) -> list[ast.stmt]:
    """The statements of a file; one that is no Python is a ServingError that names file and line."""
    try:
        return parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        reader = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        raise ServingError(
            f"the installed engine has a source file that {reader} cannot read",
            where=f"{path}:{getattr(error, 'lineno', None) or 1}",
            why=getattr(error, "msg", None) or str(error),
            remedy="Install the engine again, or let the task run with the engine's own Python if that one is newer",
        ) from error


def parse_lazily(data: bytes) -> list[ast.stmt | Deferred]:
    """All statements of a file, those that define a function or class deferred; SyntaxError where it is no Python."""
    if _OTHER_ENCODING.search(b"\n".join(data.splitlines()[:2])):
        return [*parse(data)]
    try:
        pieces = _pieces(data.decode("utf-8-sig").replace("\r\n", "\n"))
        if pieces is None:
            return [*parse(data)]
        found: list[ast.stmt | Deferred] = []
        for text, line in pieces:
            definitions = _DEFINITION.findall(text)
            if len(definitions) == 1 and _BEGINS_DEFINITION.match(text):
                found.append(Deferred(definitions[0], text, line))
            else:
                found.extend(parse(text, line))
    except (SyntaxError, UnicodeDecodeError):
        return [*parse(data)]
    return found


def _pieces(text: str) -> list[tuple[str, int]] | None:
    """(text, first line) of each statement or few; None when quotes do not pair."""
    starts = [match.start() for match in _START.finditer(text)]
    pieces: list[tuple[str, int]] = []
    begin = 0
    line = 1
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        piece = text[begin:end]
        if not piece or (piece.startswith("@") and _DEFINITION.search(text, start, end) is None):
            continue  # a decorator belongs to what follows
        if piece.count('"""') % 2 or piece.count("'''") % 2:
            continue
        pieces.append((piece, line))
        line += piece.count("\n")
        begin = end
    return pieces if begin == len(text) else None
