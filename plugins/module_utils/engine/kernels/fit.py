# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Does the decode kernel of the installed attention backend fit the card? Asked before anything is started.

A backend may declare a KV cache dtype whose decode kernel the card cannot launch: the engine starts, says it is ready,
and dies at the first token (OutOfResources: shared memory). The kernel of the installation is compiled for the card's
compute capability by the installation's own triton, and the shared memory it needs is compared with what the card has.
There is a probe for TRITON_MLA; the kernels of the other backends are not made by triton.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import ServingError
from .child import Runner
from .limits import target_of
from .probe import Found, find, read_installation
from .terms import KernelFit, KernelShape, Target, UnknownError

PROBED = "TRITON_MLA"
# --kv-cache-dtype -> the torch dtype of the cache that the kernel is given. `auto` stands for the model's dtype.
KV_DTYPES = {
    "auto": "bfloat16",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
}


def fit(
    site_packages: Path,
    compute_capability: str,
    shape: KernelShape,
    kv_cache_dtypes: Sequence[str],
    *,
    python: str | None,
    cache_dir: Path | None,
    run: Runner,
    check: bool,
    backends: Mapping[str, str | None] | None = None,
) -> list[KernelFit]:
    """One answer per KV cache dtype, in the order asked.

    site_packages: the folder that holds vllm/. python: the engine's interpreter; None compiles nothing. cache_dir: made
    when needed; None keeps nothing. run: runs an argument vector -> (exit status, standard output, standard error);
    every command brings its own time limit (30 s and 120 s), so the runner needs none. check: nothing is kept.
    backends: {KV cache dtype: the backend selected for it}; by default TRITON_MLA for each.

    ServingError: the compute capability or the shape is none. All else that stands in the way is a reason to answer
    `unknown`, for each dtype by itself.
    """
    _check_shape(shape)
    chosen = {dtype: PROBED if backends is None else backends.get(dtype) for dtype in kv_cache_dtypes}
    refusals = {dtype: _no_probe(dtype, backend, shape) for dtype, backend in chosen.items()}
    wanted = sorted({KV_DTYPES[dtype] for dtype, refusal in refusals.items() if refusal is None})
    target: Target | None = None
    found: dict[str, Found] = {}
    try:
        target = target_of(compute_capability)
        if wanted:
            asked = read_installation(site_packages, shape, target)
            found = find(asked, wanted, python=python, cache_dir=cache_dir, run=run, check=check)
    except UnknownError as error:
        found = {kv_dtype: Found("unknown", None, str(error)) for kv_dtype in wanted}
    fits = []
    for dtype in kv_cache_dtypes:
        refusal = refusals[dtype]
        each = found[KV_DTYPES[dtype]] if refusal is None else Found("unknown", None, refusal)
        fits.append(_verdict(dtype, chosen[dtype] or "", target, each))
    return fits


def _check_shape(shape: KernelShape) -> None:
    """An MLA shape that contradicts itself would be compiled into a meaningless number."""
    if not shape.use_mla:
        return
    sizes = (shape.num_attention_heads_per_rank, shape.kv_lora_rank, shape.qk_rope_head_dim, shape.head_size)
    if min(sizes) < 1 or shape.head_size != shape.kv_lora_rank + shape.qk_rope_head_dim:
        raise ServingError(
            "not the shape of multi-head latent attention",
            where=str(shape),
            why="head_size is kv_lora_rank + qk_rope_head_dim, and every rank has a query head",
            remedy="Correct the model's shape, or the tensor parallel size that it was divided by",
        )


def _no_probe(dtype: str, backend: str | None, shape: KernelShape) -> str | None:
    """Why there is nothing to compile for that dtype; None where there is."""
    if not backend:
        return "no backend serves this KV cache dtype"
    if backend != PROBED:
        return f"no probe for {backend}"
    if not shape.use_mla:
        return f"no probe for {backend} without multi-head latent attention"
    if dtype not in KV_DTYPES:
        return f"no probe for {backend} with KV cache dtype {dtype}; there is one for {', '.join(KV_DTYPES)}"
    return None


def _verdict(dtype: str, backend: str, target: Target | None, found: Found) -> KernelFit:
    limit = target.limit_bytes if target else None
    if found.measured is None or target is None:
        return KernelFit(dtype, backend, None, limit, None, "unknown", found.words)
    capability = f"compute capability {target.capability}"
    if found.measured.refused is not None:
        reason = f"the kernel cannot be compiled for {capability}: {found.measured.refused} ({found.words})"
        return KernelFit(dtype, backend, None, limit, False, found.method, reason)
    hungriest = max(found.measured.launches, key=lambda launch: launch.shared_memory_bytes)
    needed, spare = hungriest.shared_memory_bytes, target.limit_bytes - hungriest.shared_memory_bytes
    reason = (
        f"{hungriest.kernel} with num_stages={hungriest.num_stages} needs {needed:,} bytes of shared memory per block, "
        f"{abs(spare):,} {'less' if spare >= 0 else 'more'} than the {target.limit_bytes:,} of {capability} "
        f"({found.words})"
    )
    return KernelFit(dtype, backend, needed, limit, spare >= 0, found.method, reason)
