# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A reader that follows how an engine's command line is built, whatever it cannot tell on the way."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from ..source.decisions import Decisions
from ..source.natives import install
from ..source.parsing import parse_file
from ..source.reader import Reader
from ..source.tolerance import Tolerance
from ..source.tree import SourceTree
from ..source.values import Value

# Names of the standard library with a fixed value.
CONSTANTS: dict[str, Value] = {
    "argparse.SUPPRESS": "==SUPPRESS==",
    "ssl.CERT_NONE": 0,
    "ssl.CERT_OPTIONAL": 1,
    "ssl.CERT_REQUIRED": 2,
    "sys.argv": ["vllm", "serve"],
    "sys.platform": "linux",
}


class EngineAlone(SourceTree):
    """The engine's own files. What they import besides counts as installed, for no flag depends on it."""

    def shown(self, path: Path) -> str:
        return str(path)

    def statements(self, path: Path, data: bytes) -> list[ast.stmt]:
        return parse_file(path)

    def installed(self, package: str) -> bool:
        return True


def reader_of(root: Path, environment: Mapping[str, str]) -> Reader:
    """environment: the process environment that os.getenv() of the source would see."""
    reader = Reader(EngineAlone(root), Decisions(), Tolerance.ALL)
    install(reader, environment)
    reader.stand_ins.update(CONSTANTS)
    del reader.stand_ins["importlib.util.find_spec"]
    return reader
