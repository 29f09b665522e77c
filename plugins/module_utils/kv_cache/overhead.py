# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""An explicit estimate of what the engine takes besides weights, CUDA graphs and KV cache.

The engine measures this at start with a dummy batch of max_num_batched_tokens. Basis of the coefficients:

* MLA's workspace is what the engine allocates (determine_chunked_prefill_workspace_size and the dummy run of
  MLAAttention): the latent vectors of 64K tokens, and these unfolded to the rank's heads.
* MoE activations: the two buffers of fused_moe (active experts x hidden_size and x moe_intermediate_size) and ten
  hidden states. vLLM 0.24.0, 7168 hidden, 384 experts: 2.80 GiB measured at 8 heads, 4.44 to 4.60 GiB at 64 heads,
  2.79 and 4.54 GiB by this formula (design of the rows: tests/unit/data/kv).
* Dense activations: gate, up and product of one layer and four hidden states. vLLM 0.12.0, 8 B and 14 B models on
  24 to 40 GB cards: 0.44 to 0.49 GiB measured, 0.48 to 0.53 GiB by this formula.
* Outside torch: 0.25 GiB on one card; 0.45 GiB more for NCCL where ranks talk: the remainder on one host with eight
  cards on PCIe (11.7 GiB were left of 0.90 x 94.97 - 70.81).
"""

from __future__ import annotations

from dataclasses import dataclass

from .layer_specs import Parallel
from .shape import ModelShape
from .units import GIB, gib

_ELEMENT_BYTES = 2
_NON_TORCH_BYTES = GIB // 4
_COMMUNICATION_BYTES = int(0.45 * GIB)
_WORKSPACE_TOKENS = 64 * 1024
_HIDDEN_STATES_MOE = 10
_HIDDEN_STATES_DENSE = 4


@dataclass(frozen=True)
class Overhead:
    """Bytes per card: activations grow with max_num_batched_tokens, workspace with heads, non_torch with neither."""

    activations: int
    workspace: int
    non_torch: int

    @property
    def total(self) -> int:
        return self.activations + self.workspace + self.non_torch

    def explain(self, max_num_batched_tokens: int) -> str:
        workspace = f", {gib(self.workspace)} MLA prefill workspace" if self.workspace else ""
        return (
            f"Overhead, estimated: {gib(self.total)} = {gib(self.activations)} activations of a batch of "
            f"{max_num_batched_tokens:,} tokens (max_num_batched_tokens){workspace}, {gib(self.non_torch)} outside "
            "torch (libraries, NCCL)."
        )


def estimate_overhead(
    shape: ModelShape,
    parallel: Parallel,
    *,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    max_model_len: int,
    block_size: int,
) -> Overhead:
    return Overhead(
        activations=max_num_batched_tokens * _ELEMENT_BYTES * _activation_elements(shape, parallel),
        workspace=_mla_workspace(shape, parallel, max_num_seqs, max_model_len, block_size),
        non_torch=_NON_TORCH_BYTES + (_COMMUNICATION_BYTES if parallel.tensor * parallel.pipeline > 1 else 0),
    )


def _activation_elements(shape: ModelShape, parallel: Parallel) -> int:
    """Elements per token of the batch, on one card, at the peak of one layer."""
    if not shape.active_experts:
        return _HIDDEN_STATES_DENSE * shape.hidden_size + 3 * shape.intermediate_size // parallel.tensor
    expert = shape.moe_intermediate_size // (1 if parallel.expert else parallel.tensor)
    buffers = shape.active_experts * (max(shape.hidden_size, 2 * expert) + expert)
    return _HIDDEN_STATES_MOE * shape.hidden_size + buffers


def _mla_workspace(shape: ModelShape, parallel: Parallel, seqs: int, max_model_len: int, block_size: int) -> int:
    if shape.family != "mla":
        return 0
    tokens = min(max(8 * max_model_len, 4 * seqs * block_size), _WORKSPACE_TOKENS)
    tokens = max(tokens, seqs * block_size)
    heads = shape.num_attention_heads // parallel.tensor
    return tokens * (shape.head_size + heads * shape.projected_head_size) * _ELEMENT_BYTES
