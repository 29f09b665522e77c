# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The files of an installed engine, parsed when they are asked for; nothing is imported or run."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from email.parser import HeaderParser
from pathlib import Path

from .parsing import Deferred, parse, parse_lazily
from .scope import Scope, not_python
from .values import Unresolved

ENGINE = "vllm"
_GLOBALS = re.compile(rb"^[ \t]+global[ \t]+([\w, \t]+)", re.MULTILINE)
EXTENSION_SUFFIXES = (".so", ".pyd")


class SourceTree:
    """The package vllm below one folder, and the packages that it imports below the same or another one."""

    def __init__(self, root: Path, site_packages: Path | None = None) -> None:
        self.root = root
        self.site_packages = site_packages or root
        self.taken_as_installed: set[str] = set()
        self._modules: dict[str, Scope | None] = {}
        self._present: dict[str, bool] = {}
        self._extensions: dict[Path, set[str]] = {}
        # Without torch the folder is not the engine's environment but the engine's files alone.
        self.is_environment = (self.site_packages / "torch").is_dir()
        self._requirements: set[str] | None = None
        self._added: list[Path] | None = None

    def module(self, name: str) -> Scope | None:
        """The module's names; None when there is no Python source of that name."""
        if name not in self._modules:
            self._modules[name] = self._parse(name)
        return self._modules[name]

    def is_engine(self, name: str) -> bool:
        return name.split(".")[0] == ENGINE

    def has_module(self, name: str) -> bool:
        """Whether a module, package or compiled extension of that name is there."""
        if name not in self._present:
            base = self.root if self.is_engine(name) else self.site_packages
            path = base.joinpath(*name.split("."))
            self._present[name] = (
                path.with_name(path.name + ".py").is_file() or path.is_dir() or path.name in self._compiled(path.parent)
            )
        return self._present[name]

    def installed(self, package: str) -> bool | None:
        """Whether another top-level package can be imported; None when the folder does not tell.

        Where the folder holds the engine's files alone, what the engine requires is taken as installed.
        """
        if package in sys.stdlib_module_names or self.has_module(package):
            return True
        if any(path.joinpath(package).is_dir() or path.joinpath(f"{package}.py").is_file() for path in self._further()):
            return True
        if self.is_environment:
            return None if any(self.site_packages.glob("__editable__*")) else False
        if package in self._required():
            self.taken_as_installed.add(package)
            return True
        return None

    def file_of(self, name: str) -> Path | None:
        base = self.root.joinpath(*name.split("."))
        return next(
            (path for path in (base.with_name(base.name + ".py"), base / "__init__.py") if path.is_file()), None
        )

    def _parse(self, name: str) -> Scope | None:
        path = self.file_of(name)
        if path is None:
            return None
        shown = self.shown(path)
        data = path.read_bytes()
        body = self.statements(path, data)
        scope = Scope(body, name, shown, package=path.name == "__init__.py", whole=lambda: parse(data))
        declared = _GLOBALS.findall(data) if b"global" in data else []
        scope.rebound = frozenset(word.decode() for line in declared for word in re.findall(rb"\w+", line))
        return scope

    def shown(self, path: Path) -> str:
        """As people are told the file."""
        return str(path.relative_to(self.root))

    def statements(self, path: Path, data: bytes) -> Sequence[ast.stmt | Deferred]:
        try:
            return parse_lazily(data)
        except (SyntaxError, ValueError) as error:
            raise Unresolved(not_python(error, self.shown(path))) from error

    def _further(self) -> list[Path]:
        """Folders that the environment's .pth files add to the search path."""
        if self._added is None:
            self._added = []
            for file in sorted(self.site_packages.glob("*.pth")):
                for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                    if line.strip() and not line.startswith(("#", "import ", "import\t")):
                        self._added.append(self.site_packages / line.strip())
        return self._added

    def _compiled(self, folder: Path) -> set[str]:
        if folder not in self._extensions:
            names = (path.name for path in folder.iterdir()) if folder.is_dir() else iter(())
            self._extensions[folder] = {name.split(".")[0] for name in names if name.endswith(EXTENSION_SUFFIXES)}
        return self._extensions[folder]

    def _required(self) -> set[str]:
        """Import names that follow from the engine's unconditional Requires-Dist."""
        if self._requirements is None:
            self._requirements = set()
            for metadata in self.site_packages.glob(f"{ENGINE}*.dist-info/METADATA"):
                headers = HeaderParser().parsestr(metadata.read_text(encoding="utf-8"))
                for line in headers.get_all("Requires-Dist") or []:
                    name = re.match(r"[A-Za-z0-9._-]+", str(line))
                    if name is None or re.search(r"\bextra\b", str(line).partition(";")[2]):
                        continue
                    importable = re.sub(r"[-.]+", "_", name.group()).lower()
                    self._requirements |= {importable, importable.removesuffix("_python")}
        return self._requirements
