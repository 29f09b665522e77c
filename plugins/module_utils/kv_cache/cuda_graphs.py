# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""CUDA-graph memory that the engine estimates and subtracts before it sizes the KV cache (from 0.20).

Known for TRITON_MLA, the only dense MLA backend of SM120, from rows measured with vLLM 0.24.0 on an H200; 0 with a
note for every other backend, until a first start has measured it.

TRITON_MLA's decode writes partial results to a float32 scratch [captured requests, heads, splits, kv_lora_rank + 1];
splits is the next power of two of max_model_len / 512, at most twice the card's multiprocessors; with DCP a rank
decodes the heads of DCP ranks for 1/DCP of the tokens. The pool keeps the scratch, and 1 MiB per graph. At 64 heads it
was there twice, at 8 heads once (a guess at the cause: an output that is no small allocation of torch any more is cut
out of the freed scratch, so that the next layer needs a new one). Measured / by this formula, GiB: 64 heads 33.23 /
33.16; 8 heads at 262,144, 131,072 and 32,768 tokens 2.17 / 2.16, 2.10 / 2.10, 0.60 / 0.60; with 64 sequences 0.30 /
0.28; 4 heads at 8,192 tokens 0.18 / 0.16.
"""

from __future__ import annotations

from dataclasses import dataclass

from .layer_specs import Parallel
from .release import EngineRelease
from .shape import ModelShape
from .units import MIB, gib

_MIN_TOKENS_PER_SPLIT = 512
_LARGEST_CAPTURE = 512
_SMALL_ALLOCATION = 10 * MIB  # torch's kMinLargeAlloc
_MULTIPROCESSORS = {"rtx pro 6000": 188, "h200": 132, "h100": 132, "b200": 148, "b300": 148}
_MULTIPROCESSORS_OTHERWISE = 188


@dataclass(frozen=True)
class CudaGraphs:
    """Bytes per card, and the sentence that says where they come from."""

    count: int
    because: str
    known: bool = True


def estimate_cuda_graphs(
    shape: ModelShape,
    parallel: Parallel,
    release: EngineRelease,
    *,
    backend: str | None,
    enforce_eager: bool,
    max_num_seqs: int,
    max_model_len: int,
    card_name: str | None,
) -> CudaGraphs:
    """What that release subtracts for this model on one card, as far as it is known."""
    if enforce_eager:
        return CudaGraphs(0, "CUDA graphs: none (enforce_eager).")
    if not release.subtracts_cuda_graphs:
        return CudaGraphs(
            0, f"CUDA graphs: vLLM {release} does not subtract them from the KV cache (from 0.20 it does)."
        )
    if backend != "TRITON_MLA" or shape.family != "mla":
        return CudaGraphs(
            0,
            f"CUDA graphs: not known for {backend or 'an attention backend that is not given'} and taken as 0; the "
            "engine will subtract some. Give cuda_graph_bytes_per_gpu, or `measured` after a first start.",
            known=False,
        )
    requests = min(max_num_seqs, _LARGEST_CAPTURE)
    heads = shape.num_attention_heads // parallel.tensor * parallel.decode_context
    scratch = (
        requests * heads * _splits(max_model_len // parallel.decode_context, card_name) * (shape.kv_lora_rank + 1) * 4
    )
    graphs = _captured(min(2 * max_num_seqs, _LARGEST_CAPTURE)) + _captured(requests) - 2
    output = requests * heads * shape.kv_lora_rank * 2
    count = scratch * (2 if output >= _SMALL_ALLOCATION else 1) + graphs * MIB
    return CudaGraphs(
        count,
        f"CUDA graphs, estimated: {gib(count)} for TRITON_MLA with {heads} heads per card, max_num_seqs "
        f"{max_num_seqs:,} and {max_model_len:,} tokens (formula of rows measured with vLLM 0.24.0).",
    )


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
