# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What the engine takes for --max-num-batched-tokens and --max-num-seqs when they are not given."""

from __future__ import annotations

from .release import EngineRelease
from .units import GIB

_LARGE_CARD = 96 * GIB


def batch_defaults(card_bytes: int, card_name: str | None, release: EngineRelease) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) of the API server on such a card (EngineArgs.get_batch_defaults)."""
    if release.has_160_gib_defaults and card_bytes >= 160 * GIB:
        return 16384, 1024
    if card_bytes >= 70 * GIB and "a100" not in (card_name or "").lower():
        return 8192, 1024
    return 2048, 256


def max_num_batched_tokens(
    card_bytes: int | None,
    card_name: str | None,
    release: EngineRelease,
    *,
    given: int | None,
    max_num_seqs: int | None,
    max_model_len: int,
) -> int:
    """--max-num-batched-tokens as the engine sets it; a default is at most what all requests together can hold.

    Without a card: the default of a card of 70 GiB or more.
    """
    if given is not None:
        return given
    tokens, seqs = batch_defaults(_LARGE_CARD if card_bytes is None else card_bytes, card_name, release)
    return min(tokens, (max_num_seqs or seqs) * max_model_len)


def in_flight_batches(pipeline: int, release: EngineRelease, *, asynchronous: bool | None, draft: bool) -> int:
    """Batches scheduled and not yet settled (max_concurrent_batches); one before 0.26, which does not count them."""
    if not release.counts_in_flight_batches:
        return 1
    if asynchronous is False or (asynchronous is None and not draft):
        return pipeline
    if release.runs_v2_runner or pipeline == 1:
        return pipeline + 1
    return pipeline
