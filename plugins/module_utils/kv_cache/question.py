# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The parts of one budget put together: a planner for any parallel sizes, and what a change would give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import ServingError
from .block_size import block_size_for
from .kv_dtype import KVDtype, kv_dtype
from .layer_specs import Group, LayerSpec, Parallel, check_parallel, groups_of_stages
from .length import LengthLimit, model_length_limit
from .measured import Measured
from .memory import Memory, memory_of
from .planner import Planner
from .request import BudgetRequest
from .shape import ModelShape, read_shape

WITHOUT_LIMIT = 1 << 40


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
        return kv_dtype(self.request.kv_cache_dtype, self.request.config)

    @cached_property
    def limit(self) -> LengthLimit:
        return model_length_limit(self.request.config, self.request.release)

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
        return Planner(self._stages(parallel), self.block_size[0], parallel.decode_context, self.request.release)

    def memory(self, length: int) -> Memory:
        return memory_of(self.request, max_model_len=length, block_size=self.block_size[0])

    def _stages(self, parallel: Parallel) -> list[list[Group]]:
        if self.shape is None:
            return [[Group((LayerSpec("given", self.request.kv_bytes_per_token_per_gpu or 0),))]]
        check_parallel(self.shape, parallel, self.dtype.element_bytes, self.request.release)
        return groups_of_stages(self.shape, parallel, self.dtype.element_bytes)


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
