# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""CUDA-graph memory that the engine estimates and subtracts before it sizes the KV cache (from 0.20).

The engine captures one graph of its largest batch and one more, and takes the first plus 1 MiB or more for each other
graph. What makes the first one large is the scratch of a decode kernel that splits a request's tokens: float32
[captured requests, heads of the rank, splits, head size + 1].

* TRITON_MLA (the only dense MLA backend of SM120): splits is the next power of two of max_model_len / 512, at most
  twice the card's multiprocessors; with DCP a rank decodes the heads of DCP ranks for 1/DCP of the tokens. From 0.25
  the engine reserves this scratch for max_num_seqs requests before it captures (_reserve_attn_logits_workspace), and
  so neither counts it as graphs nor takes it off the KV cache: it comes on top of gpu_memory_utilization.
* FLASH_ATTN_MLA, and FLASH_ATTN on compute capability 9.x (FlashAttention 3): 32 splits
  (flash_attn_max_num_splits_for_cuda_graph).

At 64 heads the scratch was there twice, at 8 heads once (a guess at the cause: an output that is no small allocation of
torch any more is cut out of the freed scratch, so that the next layer needs a new one). Measured with vLLM 0.24.0 on an
H200 / by this formula, GiB: TRITON_MLA 64 heads 33.23 / 33.16; 8 heads at 262,144, 131,072 and 32,768 tokens 2.17 /
2.16, 2.10 / 2.10, 0.60 / 0.60; with 64 sequences 0.30 / 0.28; 4 heads at 8,192 tokens 0.18 / 0.16; FLASH_ATTN_MLA 64
heads 4.13 / 4.11, 4 heads 0.24 / 0.22.

Two guesses, by what engines printed. Sparse MLA (DSA): GLM-5.1 on eight SM120 cards, 4.94 and 4.98 GiB, with three
drafted tokens 6.04, 6.26, 6.34 and 6.84, of which the graphs took 1.2 and 2.3 in the end. Other backends: the middle of
seven estimates of 0.37 to 2.44 GiB, which for one model alone were 0.91 and 1.69.
"""

from __future__ import annotations

from dataclasses import dataclass

from .activation_shape import ActivationShape
from .layer_specs import Parallel
from .release import EngineRelease
from .units import GIB, MIB, gib

_MIN_TOKENS_PER_SPLIT = 512
_FLASH_ATTENTION_SPLITS = 32
_LARGEST_CAPTURE = 512
_SMALL_ALLOCATION = 10 * MIB  # torch's kMinLargeAlloc
_MULTIPROCESSORS = {"rtx pro 6000": 188, "h200": 132, "h100": 132, "b200": 148, "b300": 148}
_MULTIPROCESSORS_OTHERWISE = 188
_MIB_PER_GRAPH_OTHERWISE = 9
_SPARSE_MLA = int(4.96 * GIB)
_SPARSE_MLA_DRAFTING = int(6.3 * GIB)
_SPARSE_MLA_GRAPHS = 100  # of max_num_seqs 1,024, the default of those cards
_SWITCH = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
_RESERVED_FROM = (0, 25)
_ROCM_FROM = (0, 26)


@dataclass(frozen=True)
class CudaGraphs:
    """Bytes per card that are subtracted; bytes that come on top of gpu_memory_utilization; where they come from."""

    count: int
    because: str
    known: bool = True
    on_top: int = 0


def estimate_cuda_graphs(
    shape: ActivationShape,
    parallel: Parallel,
    release: EngineRelease,
    *,
    backend: str | None,
    compute_capability: str | None,
    enforce_eager: bool,
    max_num_seqs: int,
    max_model_len: int,
    card_name: str | None,
    rocm: bool = False,
    drafts: int = 0,
    asked: bool | None = None,
) -> CudaGraphs:
    """What that release subtracts for this model on one card, as far as it is known."""
    on_top = 0
    if backend == "TRITON_MLA" and release.major_minor >= _RESERVED_FROM:
        on_top = _triton_scratch(shape, parallel, max_num_seqs, max_model_len, card_name)
    if enforce_eager:
        return CudaGraphs(0, f"CUDA graphs: none (enforce_eager){_beyond(on_top, max_num_seqs)}.", on_top=on_top)
    if asked is False and release.may_subtract_cuda_graphs:
        return CudaGraphs(
            0, f"CUDA graphs: not subtracted ({_SWITCH}=0){_beyond(on_top, max_num_seqs)}.", on_top=on_top
        )
    subtracts = release.subtracts_cuda_graphs or (asked is True and release.may_subtract_cuda_graphs)
    if not subtracts or (rocm and release.major_minor < _ROCM_FROM):
        return CudaGraphs(
            0,
            f"CUDA graphs: vLLM {release} does not subtract them from the KV cache (from 0.20 it does"
            f"{', on ROCm from 0.26' if rocm else ''}).",
        )
    requests = min(max_num_seqs, _LARGEST_CAPTURE)
    graphs = _captured(min(2 * max_num_seqs, _LARGEST_CAPTURE)) + _captured(requests) - 2
    if shape.is_sparse:
        return _sparse_mla(graphs, drafts)
    heads = shape.num_attention_heads // parallel.tensor * parallel.decode_context
    per_graph, known = 1, True
    scratch = 0
    if backend == "TRITON_MLA":
        if not on_top:
            scratch = _triton_scratch(shape, parallel, requests, max_model_len, card_name)
    elif backend == "FLASH_ATTN_MLA" or (backend == "FLASH_ATTN" and (compute_capability or "").startswith("9.")):
        scratch = requests * heads * _FLASH_ATTENTION_SPLITS * (shape.value_head_size + 1) * 4
    else:
        per_graph, known = _MIB_PER_GRAPH_OTHERWISE, False
    if requests * heads * shape.value_head_size * 2 >= _SMALL_ALLOCATION:
        scratch *= 2
    count = scratch + graphs * per_graph * MIB
    if not known:
        return CudaGraphs(
            count,
            f"CUDA graphs: not known for {backend or 'an attention backend that is not given'} and taken as "
            f"{gib(count)}, the middle of what engines printed for others (0.37 to 2.44 GiB). Give "
            "cuda_graph_bytes_per_gpu, or `measured` after a first start.",
            known=False,
        )
    return CudaGraphs(
        count,
        f"CUDA graphs, estimated: {gib(count)} for {backend} with {heads} heads per card, max_num_seqs "
        f"{max_num_seqs:,} and {max_model_len:,} tokens{_beyond(on_top, max_num_seqs)}.",
        on_top=on_top,
    )


def _sparse_mla(graphs: int, drafts: int) -> CudaGraphs:
    count = (_SPARSE_MLA_DRAFTING if drafts else _SPARSE_MLA) * min(graphs, _SPARSE_MLA_GRAPHS) // _SPARSE_MLA_GRAPHS
    return CudaGraphs(
        count,
        f"CUDA graphs: not known for sparse MLA and taken as {gib(count)}, by what engines printed for GLM-5.1 on "
        "eight cards of compute capability 12.0 (4.94 to 6.84 GiB). Give cuda_graph_bytes_per_gpu, or `measured` "
        "after a first start.",
        known=False,
    )


def _beyond(on_top: int, max_num_seqs: int) -> str:
    """The scratch that no budget of the engine counts."""
    if not on_top:
        return ""
    return (
        f"; besides, up to {gib(on_top)} of decode scratch for {max_num_seqs:,} requests (max_num_seqs), which this "
        "release reserves on top of gpu_memory_utilization"
    )


def _triton_scratch(
    shape: ActivationShape, parallel: Parallel, requests: int, max_model_len: int, card_name: str | None
) -> int:
    heads = shape.num_attention_heads // parallel.tensor * parallel.decode_context
    splits = _splits(max_model_len // parallel.decode_context, card_name)
    return requests * heads * splits * (shape.kv_lora_rank + 1) * 4


def _splits(max_model_len: int, card_name: str | None) -> int:
    wanted = max(1, max_model_len // _MIN_TOKENS_PER_SPLIT)
    return min(1 << (wanted - 1).bit_length(), 2 * _multiprocessors(card_name))


def _multiprocessors(card_name: str | None) -> int:
    for part, count in _MULTIPROCESSORS.items():
        if part in (card_name or "").lower():
            return count
    return _MULTIPROCESSORS_OTHERWISE


def _captured(largest: int) -> int:
    """How many batch sizes are captured: 1, 2, 4, then every 8 below 256, then every 16 (cudagraph_capture_sizes)."""
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, _LARGEST_CAPTURE + 1, 16)]
    return sum(1 for size in sizes if size <= largest)
