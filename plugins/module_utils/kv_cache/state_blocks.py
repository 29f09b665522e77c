# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How many states a request keeps in a layer with states: by --mamba-cache-mode, release and prefill kernel."""

from __future__ import annotations

from .release import EngineRelease
from .shape import ModelShape

_HEAD_SIZE = 128  # of the keys, for the prefill kernels that export a state


def state_blocks(
    shape: ModelShape | None, release: EngineRelease, mode: str | None, compute_capability: str | None
) -> int | None:
    """States per request and layer; None = one per block of tokens (all).

    Without a mode: align where the release caches the prefixes of models with attention and states by default.
    """
    if shape is None or shape.state is None:
        return 1
    if mode is None and shape.family != "state" and release.caches_prefixes_of_hybrids:
        mode = "align"
    if mode == "all" and release.has_state_per_block:
        return None
    if mode not in ("align", "all"):
        return 1
    return 2 + _exported_in_prefill(shape, release, compute_capability)


def _exported_in_prefill(shape: ModelShape, release: EngineRelease, compute_capability: str | None) -> int:
    """1 where the prefill kernel writes the state at a block's boundary, so that a prefill is not split for it."""
    state = shape.state
    if state is None:
        return 0
    major = (compute_capability or "").split(".")[0]
    if state.kind == "mamba2":
        return int(release.exports_mamba2_states)
    if state.kind == "kda":  # FlashKDA
        has_kernel = major in ("9", "10", "12") and state.key_size == _HEAD_SIZE and state.has_bounded_gate
        return int(release.exports_kda_states and has_kernel)
    if state.kind == "gdn":  # FlashInfer
        has_kernel = major == "9" or (major in ("10", "12") and state.key_size == _HEAD_SIZE)
        return int(release.exports_gdn_states and has_kernel)
    return 0
