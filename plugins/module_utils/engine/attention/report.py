# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The answer as the task's result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..kernels.terms import KernelFit
from .answer import Answer, BackendAnswer
from .recommendation import CheckpointCache, Recommendation

UNCALIBRATED = "the checkpoint asks for an FP8 KV cache and holds no KV scales: vLLM runs it with scale 1.0"


def report(
    answer: Answer, kernels: Sequence[KernelFit], recommendation: Recommendation, checkpoint: CheckpointCache
) -> dict[str, Any]:
    """Everything but what the caller knows itself (release, distribution, capability)."""
    unfit = {(fit.dtype, fit.backend) for fit in kernels if fit.fits is False}
    supported = [
        dtype
        for dtype in answer.selected
        if (serving := answer.serving(dtype)) and not any((dtype, name) in unfit for name in serving)
    ]
    return {
        "backends": [_backend(each) for each in answer.backends],
        "selected": dict(answer.selected),
        "possible": dict(answer.possible),
        "unanswered": dict(answer.unanswered),
        "kernels": [asdict(fit) for fit in kernels],
        "supported_kv_cache_dtypes": supported,
        "recommended_kv_cache_dtype": recommendation.kv_cache_dtype,
        "recommended_by": recommendation.by,
        "alternatives": recommendation.alternatives,
        "notes": [*answer.notes, *_notes(recommendation, checkpoint)],
    }


def _backend(each: BackendAnswer) -> dict[str, Any]:
    verdicts: Mapping[str, Any] = each.verdicts
    refused = {dtype: [*v.reasons, *v.later] for dtype, v in verdicts.items() if v.serves is False}
    return {
        "name": each.name,
        "valid": each.valid,
        "reasons": list(dict.fromkeys(reason for reasons in refused.values() for reason in reasons))
        if not each.valid
        else [],
        "kv_cache_dtypes": [dtype for dtype, verdict in verdicts.items() if verdict.serves],
        "refused": refused,
        "unanswered": {dtype: list(v.unknown) for dtype, v in verdicts.items() if v.serves is None},
        "declared_kv_cache_dtypes": each.declared_kv_cache_dtypes,
        "kernel_block_sizes": each.kernel_block_sizes,
    }


def _notes(recommendation: Recommendation, checkpoint: CheckpointCache) -> list[str]:
    notes: list[str] = []
    dtype = recommendation.kv_cache_dtype
    if dtype is None:
        return notes
    if dtype.startswith("fp8") and checkpoint.has_scales is False:
        notes.append(UNCALIBRATED)
    quantized = checkpoint.auto not in (None, "auto")
    if quantized and not dtype.startswith("fp8") and checkpoint.overrides_flag:
        notes.append(
            f"{checkpoint.where} wins over --kv-cache-dtype {dtype} in this release: the files have to be patched "
            "(blackwell.serving.quant_config_patch)"
        )
    elif quantized and dtype == "auto":
        notes.append(
            f"auto would become {checkpoint.auto}: the files have to be patched (blackwell.serving.quant_config_patch)"
        )
    return notes
