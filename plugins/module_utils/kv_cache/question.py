# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The parts of one budget put together: a planner for any parallel sizes, and what a change would give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import ServingError
from .batch_defaults import in_flight_batches, max_num_batched_tokens
from .block_size import block_size_for
from .families.caches import AttentionCache
from .grouping import Group, groups_of_stages
from .kv_dtype import (
    KVDtype,
    compressed_kv_dtype,
    flagless_kv_dtype,
    kv_dtype,
    model_dtype,
    sparse_kv_dtype,
    unquantized_layers,
)
from .layer_specs import LayerSpec, Parallel, Serving
from .length import LengthLimit, any_length, counts_positions, model_length_limit
from .measured import Measured
from .memory import Memory, memory_of
from .parallel import check_parallel
from .planner import Planner
from .request import BudgetRequest
from .shape import ModelShape, read_shape
from .specs import CardLayout, card_layout, specs_of_stages
from .speculative import Draft, read_draft
from .state_blocks import state_blocks

WITHOUT_LIMIT = 1 << 40
_STATE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Question:
    """A request with what follows from it before any memory is looked at."""

    request: BudgetRequest

    @cached_property
    def shape(self) -> ModelShape | None:
        """None where kv_bytes_per_token_per_gpu stands for the model."""
        return None if self.request.kv_bytes_per_token_per_gpu is not None else read_shape(self.request.config)

    @property
    def family(self) -> str:
        return "given" if self.shape is None else self.shape.family

    @cached_property
    def dtype(self) -> KVDtype:
        request = self.request
        dtype = kv_dtype(request.kv_cache_dtype, request.config, request.release)
        if self.shape is not None and self.shape.family == "mla+dsa":
            return sparse_kv_dtype(dtype, request.attention_backend, request.compute_capability)
        if self.shape is not None and self.shape.family == "mla+compressed":
            return compressed_kv_dtype(
                dtype, request.kv_cache_dtype, request.attention_backend, request.compute_capability, request.release
            )
        return dtype if self.shape is None else flagless_kv_dtype(request.config, dtype)

    @cached_property
    def draft(self) -> Draft:
        return read_draft(self.request.speculative_config, self.request.config)

    @cached_property
    def limit(self) -> LengthLimit:
        request = self.request
        if not counts_positions(request.config) and (self.shape is None or self.shape.family == "state"):
            return any_length(request.max_model_len or request.max_model_len_cap)
        return model_length_limit(request.config, request.release)

    @property
    def ceiling(self) -> int:
        cap = self.request.max_model_len_cap
        return self.limit.tokens if cap is None else min(self.limit.tokens, cap)

    @cached_property
    def block_size(self) -> tuple[int, str]:
        request = self.request
        family = "gqa" if self.shape is None else self.shape.family
        return block_size_for(
            request.block_size, request.attention_backend, family, request.compute_capability, request.release
        )

    def planner(self, parallel: Parallel) -> Planner:
        """Raises ServingError for sizes that the engine refuses."""
        request, serving = self.request, self._serving(parallel)
        if self.shape is None:
            given = LayerSpec("given", self.block_size[0], request.kv_bytes_per_token_per_gpu or 0)
            return Planner([[Group((given,), given)]], self.block_size[0], serving, request.release)
        check_parallel(self.shape, parallel, self.dtype.element_bytes, request.release)
        layout = self._layout(self.shape, parallel)
        others = {
            index: replace(layout, dtype=model_dtype(request.config))
            for index in unquantized_layers(self.shape, request.kv_cache_dtype_skip_layers, self.dtype, request.release)
        }
        stages = specs_of_stages(self.shape, layout, parallel, self.draft.layers, others)
        groups = groups_of_stages(stages, request.release, hybrid_manager=self._has_hybrid_manager)
        return Planner(groups, layout.block_size, serving, request.release)

    def _layout(self, shape: ModelShape, parallel: Parallel) -> CardLayout:
        return card_layout(
            shape,
            parallel,
            self.dtype,
            self.block_size[0],
            self.request.release,
            state_element_bytes=_STATE_BYTES.get(self.request.mamba_cache_dtype or "")
            or model_dtype(self.request.config).element_bytes,
            recurrent_bytes=_STATE_BYTES.get(self.request.mamba_ssm_cache_dtype or ""),
            drafts=self.draft.tokens,
            state_per_block=self._state_blocks is None,
        )

    @property
    def _has_hybrid_manager(self) -> bool:
        """Off by its flag, and for chunked attention by default."""
        chunks = self.shape is not None and any(
            isinstance(cache, AttentionCache) and cache.chunk for cache in self.shape.caches
        )
        return not (self.request.disable_hybrid_kv_cache_manager or chunks)

    @cached_property
    def _state_blocks(self) -> int | None:
        request = self.request
        return state_blocks(self.shape, request.release, request.mamba_cache_mode, request.compute_capability)

    def _serving(self, parallel: Parallel) -> Serving:
        request = self.request
        tokens = max_num_batched_tokens(
            request.card_bytes,
            request.card_name,
            request.release,
            given=request.max_num_batched_tokens,
            max_num_seqs=request.max_num_seqs,
            max_model_len=request.max_model_len or self.limit.tokens,
        )
        batches = in_flight_batches(
            parallel.pipeline, request.release, asynchronous=request.async_scheduling, draft=self.draft.asynchronous
        )
        counts_drafts = self._state_blocks is not None or request.release.counts_draft_states
        return Serving(
            decode_context=parallel.decode_context,
            in_flight_tokens=tokens * batches,
            state_blocks=self._state_blocks,
            drafts=self.draft.tokens if counts_drafts else 0,
            encoder_tokens=tokens,
        )

    def memory(self, length: int) -> Memory:
        return memory_of(self.request, max_model_len=length, block_size=self.block_size[0])


def capacity_with(request: BudgetRequest, length: int) -> tuple[int, int] | None:
    """(tokens that the engine would print at that length, bytes available) with a changed request.

    (0, available) when the weights leave no room; None when the engine would refuse the change.
    """
    question = Question(request)
    try:
        planner = question.planner(request.parallel)
        available = question.memory(length).available
    except ServingError:
        return None
    return (planner.token_capacity(length, available) if available > 0 else 0), available


def with_tensor_parallel_size(request: BudgetRequest, size: int) -> BudgetRequest:
    """The same question at another --tensor-parallel-size; DCP is kept where it divides that size."""
    asked = request.parallel
    if size == asked.tensor:
        return request
    dcp = asked.decode_context if size % asked.decode_context == 0 else 1
    return replace(
        request,
        parallel=replace(asked, tensor=size, decode_context=dcp),
        weights_bytes_per_gpu=None,
        measured=Measured(),
    )
