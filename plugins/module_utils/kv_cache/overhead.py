# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""An explicit estimate of what the engine takes besides weights, CUDA graphs and KV cache.

The engine measures it at start (profile_run) with a dummy batch: first the encoder, then one forward pass over
max_num_batched_tokens tokens, then the sampling of max_num_seqs requests. What one phase takes is free again in the
next, so that the largest counts; what libraries take outside torch comes on top. Basis of each number:

* MLA's workspace: what the engine allocates, the latent vectors of up to 64K tokens and these unfolded to the rank's
  heads (determine_chunked_prefill_workspace_size and the dummy run of MLAAttention).
* Sparse attention's: 512 MiB of index scores (VLLM_SPARSE_INDEXER_MAX_LOGITS_MB) and the gathered keys of 40 full
  contexts (get_max_prefill_buffer_size).
* Forward pass: four hidden states, and in a dense layer gate, up and product, in a mixture of experts the two buffers
  of fused_moe (active experts x hidden_size, or x moe_intermediate_size where that is more).
* Sampling: the logits in 16 bits, their float32 copy, and the probabilities.
* Encoder: four hidden states and two intermediate ones per patch.
* Outside torch: 256 MiB on one card, 210 MiB more where ranks talk (NCCL; the remainder on one host with eight cards on
  PCIe, which had 11.70 GiB left of 0.90 x 94.97 - 70.81); 0.9 GiB on ROCm.

The counts of hidden states and the constants outside torch are fitted to half of tests/unit/data/kv/memory_rows.jsonl;
the other half is predicted (tests/unit/plugins/module_utils/kv_cache/test_kv_memory_rows.py prints both).
"""

from __future__ import annotations

from dataclasses import dataclass

from .activation_shape import ActivationShape
from .layer_specs import Parallel
from .units import GIB, MIB, gib

_ELEMENT_BYTES = 2
_NON_TORCH_BYTES = 256 * MIB
_NON_TORCH_ROCM_BYTES = int(0.9 * GIB)
_COMMUNICATION_BYTES = 210 * MIB
_WORKSPACE_TOKENS = 64 * 1024
_INDEX_SCORE_BYTES = 512 * MIB
_INDEXED_CONTEXTS = 40
_HIDDEN_STATES = 4
_SAMPLING_BYTES = 2 + 4 + 4


@dataclass(frozen=True)
class Overhead:
    """Bytes per card. activations and workspace are of the forward pass; sampling and encoder the other phases' peaks.

    non_torch is taken all the time, the largest of the phases at its time.
    """

    activations: int
    workspace: int
    sampling: int
    encoder: int
    non_torch: int

    @property
    def forward(self) -> int:
        return self.activations + self.workspace

    @property
    def total(self) -> int:
        return max(self.forward, self.sampling, self.encoder) + self.non_torch

    def explain(self, max_num_batched_tokens: int, max_num_seqs: int) -> str:
        forward = (
            f"{gib(self.activations)} activations of a batch of {max_num_batched_tokens:,} tokens "
            "(max_num_batched_tokens)"
        )
        if self.workspace:
            forward += f" and {gib(self.workspace)} attention workspace"
        phases = [
            (self.forward, forward),
            (self.sampling, f"{gib(self.sampling)} sampling of {max_num_seqs:,} requests (max_num_seqs)"),
        ]
        if self.encoder:
            phases.append((self.encoder, f"{gib(self.encoder)} encoder (images)"))
        phases.sort(key=lambda phase: -phase[0])
        return (
            f"Overhead, estimated: {gib(self.total)} = {gib(self.non_torch)} outside torch (libraries, NCCL) and the "
            f"largest of {'; '.join(text for _phase, text in phases)}."
        )


def estimate_overhead(
    shape: ActivationShape,
    parallel: Parallel,
    *,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    max_model_len: int,
    block_size: int,
    language_model_only: bool = False,
    rocm: bool = False,
) -> Overhead:
    ranks = parallel.tensor * parallel.pipeline
    workspace = _mla_workspace(shape, parallel, max_num_seqs, max_model_len, block_size)
    return Overhead(
        activations=max_num_batched_tokens * _ELEMENT_BYTES * _activation_elements(shape, parallel),
        workspace=workspace + _index_workspace(shape, max_model_len),
        sampling=min(max_num_seqs, max_num_batched_tokens) * shape.vocab_size * _SAMPLING_BYTES,
        encoder=0 if language_model_only else _encoder_bytes(shape, parallel, max_num_batched_tokens),
        non_torch=(_NON_TORCH_ROCM_BYTES if rocm else _NON_TORCH_BYTES) + (_COMMUNICATION_BYTES if ranks > 1 else 0),
    )


def _activation_elements(shape: ActivationShape, parallel: Parallel) -> int:
    """Elements per token of the batch, on one card, at the peak of one layer."""
    hidden = shape.hidden_size
    if not shape.active_experts:
        return _HIDDEN_STATES * hidden + 3 * shape.intermediate_size // parallel.tensor
    expert = shape.moe_intermediate_size // (1 if parallel.expert else parallel.tensor)
    return _HIDDEN_STATES * hidden + shape.active_experts * (max(hidden, 2 * expert) + max(hidden, expert))


def _mla_workspace(shape: ActivationShape, parallel: Parallel, seqs: int, max_model_len: int, block_size: int) -> int:
    if not shape.is_mla:
        return 0
    tokens = min(max(8 * max_model_len, 4 * seqs * block_size), _WORKSPACE_TOKENS)
    tokens = max(tokens, seqs * block_size)
    heads = shape.num_attention_heads // parallel.tensor
    return tokens * (shape.latent_size + heads * shape.unfolded_head_size) * _ELEMENT_BYTES


def _index_workspace(shape: ActivationShape, max_model_len: int) -> int:
    """One byte per element of a key and a float32 scale."""
    if not shape.is_sparse:
        return 0
    return _INDEX_SCORE_BYTES + _INDEXED_CONTEXTS * max_model_len * (shape.indexer_head_size + 4)


def _encoder_bytes(shape: ActivationShape, parallel: Parallel, max_num_batched_tokens: int) -> int:
    encoder = shape.encoder
    if encoder is None:
        return 0
    patches = max(max_num_batched_tokens, encoder.largest_item) * encoder.patches_per_token
    return patches * (4 * encoder.hidden_size + 2 * encoder.intermediate_size // parallel.tensor) * _ELEMENT_BYTES
