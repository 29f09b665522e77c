# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What the engine takes for --max-num-batched-tokens and --max-num-seqs when they are not given."""

from __future__ import annotations

from .release import EngineRelease
from .units import GIB


def batch_defaults(card_bytes: int, card_name: str | None, release: EngineRelease) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) of the API server on such a card (EngineArgs.get_batch_defaults)."""
    if release.has_160_gib_defaults and card_bytes >= 160 * GIB:
        return 16384, 1024
    if card_bytes >= 70 * GIB and "a100" not in (card_name or "").lower():
        return 8192, 1024
    return 2048, 256
