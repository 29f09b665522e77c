# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What is asked: a card, a model's attention, how it is split over cards, and which KV-cache dtypes matter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ServingError
from ..source.values import Capability

KNOWN_DTYPES = ("bfloat16", "float16", "float32")


@dataclass(frozen=True)
class ModelShape:
    """A model's attention. Sizes are in elements; None is what is not known.

    dtype:       what the weights that are not quantized are in; vLLM runs float32 in 16 bits
    text_config: config.json of the language model, for checks that read other fields
    whole:       whether text_config is complete, so that a field it lacks does not exist
    """

    use_mla: bool
    head_size: int
    use_sparse: bool = False
    dtype: str = "bfloat16"
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    has_sink: bool = False
    has_sliding_window: bool = False
    text_config: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False

    @property
    def engine_dtype(self) -> str:
        return "bfloat16" if self.dtype == "float32" else self.dtype


@dataclass(frozen=True)
class Question:
    """One question to an installed engine.

    kv_cache_dtypes:  values of --kv-cache-dtype; empty: all that the engine knows
    attention_backend: the value of --attention-backend, which leaves the engine no choice
    environment:      variables of the service, as far as they matter
    """

    capability: Capability
    model: ModelShape
    tensor_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    kv_cache_dtypes: Sequence[str] = ()
    attention_backend: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def heads_per_rank(self) -> int | None:
        heads = self.model.num_attention_heads
        return None if heads is None else heads // self.tensor_parallel_size

    @property
    def kv_heads_per_rank(self) -> int | None:
        heads = 1 if self.model.use_mla else self.model.num_key_value_heads
        return None if heads is None else max(1, heads // self.tensor_parallel_size)


def check_sizes(question: Question) -> None:
    """Refuse parallel sizes with which vLLM does not start at all."""
    tensor, decode = question.tensor_parallel_size, question.decode_context_parallel_size
    for name, size in (("tensor_parallel_size", tensor), ("decode_context_parallel_size", decode)):
        if size < 1:
            raise ServingError(f"{size} is no parallel size", where=name, remedy="Give 1 or more")
    heads = question.model.num_attention_heads
    if heads is not None and heads % tensor:
        raise ServingError(
            f"{heads} attention heads cannot be split over {tensor} ranks",
            where="tensor_parallel_size",
            remedy=f"Choose a divisor of {heads}",
        )
    if tensor % decode:
        raise ServingError(
            f"{tensor} ranks cannot be split into groups of {decode}",
            where="decode_context_parallel_size",
            remedy=f"Choose a divisor of tensor_parallel_size ({tensor})",
        )


def parse_capability(text: str) -> Capability:
    """ "12.0" as NVIDIA writes a compute capability."""
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text.strip())
    if match is None:
        raise ServingError(
            f"{text!r} is no compute capability",
            where="compute_capability",
            remedy="Write it as blackwell.serving.gpu_info and nvidia-smi do, for example 12.0",
        )
    return Capability(int(match[1]), int(match[2]))
