# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The one error for a model whose cache is not known."""

from __future__ import annotations

from typing import NoReturn

from ...errors import ServingError


def refuse(what: str, why: str) -> NoReturn:
    """Raise the one error for a model whose cache this release cannot compute."""
    raise ServingError(
        f"cannot estimate {what}",
        where="config.json",
        why=why,
        remedy=(
            "Give available_kv_cache_bytes and kv_bytes_per_token_per_gpu, both from the log of an earlier start, or "
            "extend plugins/module_utils/kv_cache/families/architectures.py"
        ),
    )
