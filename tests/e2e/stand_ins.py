# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For the programs here that an engine's own Python runs: packages that a machine lacks, as far as importing goes."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import types
from collections.abc import Collection, Sequence
from typing import Any


class StandIn(types.ModuleType):
    """A module that has every name, each a class; it answers imports and is never called."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """To be appended to sys.meta_path: asked last, so that what is installed is taken."""

    def __init__(self, packages: Collection[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        wanted = name.partition(".")[0] in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = StandIn(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass
