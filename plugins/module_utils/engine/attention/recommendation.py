# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which --kv-cache-dtype to pass: the smallest that the checkpoint is made for, a backend serves and the card holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..kernels.terms import KernelFit
from .answer import Answer

# Bytes per cached element, where they decide between two dtypes (scales and packing included).
ELEMENT_BYTES = {
    "nvfp4": 0.5625,
    "nvfp4_4over6": 0.5625,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "fp8_inc": 1.0,
    "fp8_ds_mla": 656 / 576,
    "nvfp4_ds_mla": 352 / 576,
    "float16": 2.0,
    "bfloat16": 2.0,
}
FULL_WIDTH = ("bfloat16", "float16")
COMPILED_AT_RUN_TIME = "TRITON"


@dataclass(frozen=True)
class CheckpointCache:
    """What the checkpoint says of its KV cache.

    auto:   what --kv-cache-dtype auto becomes for it (fp8_e4m3, ...); auto or None: the model's own dtype
    where:  the key that decides, as file#pointer
    has_scales: whether it holds KV scales; None when that is not known
    overrides_flag: whether it wins over an explicit flag in this release
    """

    auto: str | None = None
    where: str | None = None
    has_scales: bool | None = None
    overrides_flag: bool = False


@dataclass(frozen=True)
class Recommendation:
    """kv_cache_dtype: None when nothing can be recommended. by: why, in sentences. alternatives: what was rejected."""

    kv_cache_dtype: str | None
    by: str
    alternatives: list[dict[str, str]]


def recommend(
    answer: Answer, kernels: Sequence[KernelFit], checkpoint: CheckpointCache, model_dtype: str
) -> Recommendation:
    """The widest capacity comes first; a quantized dtype has to be proven, the model's own is the way out."""
    rejected: list[dict[str, str]] = []
    for dtype, wanted_by in _candidates(answer, checkpoint, model_dtype):
        obstacle = _obstacle(answer, kernels, dtype)
        if obstacle is None:
            text = _words(answer, kernels, dtype, wanted_by)
            return Recommendation(dtype, " ".join([text, *_rejections(rejected)]), rejected)
        rejected.append({"kv_cache_dtype": dtype, "why": obstacle})
    if model_dtype not in answer.selected and answer.selected.get("auto"):
        text = f"auto: the model's own {model_dtype}, which this engine's --kv-cache-dtype does not take by name."
        return Recommendation("auto", " ".join([text, *_rejections(rejected)]), rejected)
    left = [dtype for dtype in answer.kv_cache_dtypes if answer.serving(dtype) and dtype not in FULL_WIDTH]
    for dtype in left:
        if _obstacle(answer, kernels, dtype) is None:
            text = (
                f"{dtype}: the only one of the KV-cache dtypes that {' or '.join(answer.serving(dtype))} serves here."
            )
            return Recommendation(dtype, " ".join([text, *_rejections(rejected)]), rejected)
    uncertain = [f"Not certain: {dtype}." for dtype in answer.unanswered if dtype not in FULL_WIDTH]
    text = " ".join(["No KV-cache dtype can be recommended.", *_rejections(rejected), *uncertain])
    return Recommendation(None, text, rejected)


def _candidates(answer: Answer, checkpoint: CheckpointCache, model_dtype: str) -> Iterator[tuple[str, str]]:
    """(dtype, why it is one), the smallest element first."""
    found: dict[str, str] = {}
    if checkpoint.auto is not None and checkpoint.auto != "auto":
        where = f" ({checkpoint.where})" if checkpoint.where else ""
        found[checkpoint.auto] = f"the checkpoint asks for it{where}"
    elif checkpoint.has_scales:
        found["fp8_e4m3"] = "the checkpoint holds scales for an FP8 KV cache"
    found.setdefault(model_dtype, "the model's own dtype")
    yield from sorted(found.items(), key=lambda item: ELEMENT_BYTES.get(item[0], 2.0))


def _obstacle(answer: Answer, kernels: Sequence[KernelFit], dtype: str) -> str | None:
    """Why the dtype cannot be recommended; None when nothing stands in the way."""
    if dtype not in answer.selected:
        return "it was not asked for"
    serving = answer.serving(dtype)
    if not serving:
        return _no_backend(answer, dtype)
    for backend in serving:
        fit = next((fit for fit in kernels if fit.dtype == dtype and fit.backend == backend), None)
        if fit is not None and fit.fits is False:
            return f"{backend} declares it, and its decode kernel does not fit the card: {fit.reason}"
        proven = fit is not None and fit.fits
        if dtype not in FULL_WIDTH and backend.startswith(COMPILED_AT_RUN_TIME) and not proven:
            why = fit.reason if fit is not None else "the kernels were not looked at"
            return f"whether the decode kernel of {backend} fits the card is not known: {why}"
    return None


def _no_backend(answer: Answer, dtype: str) -> str:
    if dtype in answer.unanswered:
        return f"the source does not tell which backend serves it: {'; '.join(answer.unanswered[dtype])}"
    refusals = []
    for backend in answer.backends:
        verdict = backend.verdicts.get(dtype)
        if verdict is not None and not verdict.serves:
            refusals.append(f"{backend.name}: {', '.join((*verdict.reasons, *verdict.later))}")
    return f"no attention backend serves it ({'; '.join(refusals)})" if refusals else "no attention backend serves it"


def _words(answer: Answer, kernels: Sequence[KernelFit], dtype: str, wanted_by: str) -> str:
    serving = answer.serving(dtype)
    backend = " or ".join(serving)
    fit = next((fit for fit in kernels if fit.dtype == dtype and fit.backend in serving and fit.fits), None)
    proven = f", and its decode kernel fits: {fit.reason}" if fit is not None else ""
    return f"{dtype}: {wanted_by}; {backend} serves it{proven}."


def _rejections(rejected: list[dict[str, str]]) -> list[str]:
    return [f"Not {each['kv_cache_dtype']}: {each['why']}." for each in rejected]
