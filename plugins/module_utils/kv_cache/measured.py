# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The numbers of an earlier start, and how they correct the estimates of the next one.

A term is measured under one set of settings and asked for under another. What was measured counts for the settings of
that start exactly; for others the estimate's change from those settings to these is added.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """An earlier start of the same service (vllm_service_info's kv_cache). Bytes per card; tokens as printed.

    cuda_graph_estimated_bytes: what the engine took off before it sized the cache; cuda_graph_bytes: what the graphs
    took in the end, used where the first was not printed.
    """

    weights_bytes: int | None = None
    cuda_graph_bytes: int | None = None
    cuda_graph_estimated_bytes: int | None = None
    available_bytes: int | None = None
    gpu_memory_utilization: float | None = None
    tokens: int | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    decode_context_parallel_size: int | None = None
    enforce_eager: bool | None = None

    @property
    def subtracted_graph_bytes(self) -> int | None:
        estimated = self.cuda_graph_estimated_bytes
        return self.cuda_graph_bytes if estimated is None else estimated

    @property
    def is_empty(self) -> bool:
        return (self.weights_bytes, self.subtracted_graph_bytes, self.available_bytes) == (None, None, None)


def corrected(now: int, then: int, measured: int) -> int:
    """The estimate for these settings, moved by what was measured beside the estimate for that start."""
    return max(0, measured + now - then)
