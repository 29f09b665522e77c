# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the clone importable as the collection, and tests/simulation as the package `simulation`."""

from __future__ import annotations

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _package(name: str, path: list[str]) -> None:
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.__path__ = path
        sys.modules[name] = module
        parent, _dot, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


_package("ansible_collections", [])
_package("ansible_collections.blackwell", [])
_package("ansible_collections.blackwell.serving", [str(ROOT)])
if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))
