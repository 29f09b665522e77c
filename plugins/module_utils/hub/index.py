# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""model.safetensors.index.json: which shards a checkpoint consists of."""

from __future__ import annotations

from typing import Any

from ..errors import ServingError
from .paths import safe_path

INDEX = "model.safetensors.index.json"


def shards_of_index(index: Any, where: str) -> set[str]:
    """The distinct file names in `weight_map`, each a safe path relative to the index's folder."""
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    shards = list(weight_map.values()) if isinstance(weight_map, dict) else []
    if not shards or not all(isinstance(shard, str) for shard in shards):
        raise ServingError(
            "the index has no weight_map",
            where=where,
            why="it must map tensor names to shards",
            remedy="Ask the publisher, or exclude the index",
        )
    return {safe_path(shard) for shard in set(shards)}
