# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What published files need, measured by this probe; found by the sha256 of the file, never by a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .terms import KernelShape, Measured, Target


@dataclass(frozen=True)
class Row:
    """measured: the launches. provenance: of which release's file, with which triton."""

    measured: Measured
    provenance: str


def lookup(
    sha256: str, literals: Mapping[str, object], shape: KernelShape, kv_dtype: str, target: Target
) -> Row | None:
    return None
