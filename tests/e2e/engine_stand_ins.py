# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for what only cards have, so that vLLM's model classes can be built without one (layer_answers.py).

Process groups of any size in one process, attention kernels that take blocks of any multiple of 16, packages that only
cards need, and the configuration class that nemotron-nas checkpoints bring.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import types
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from transformers import LlamaConfig
from vllm.v1.attention.backend import AttentionBackend, AttentionMetadataBuilder, MultipleOf

STAND_INS = ("cuda", "cutlass", "deep_gemm", "flashinfer", "quack", "tilelang", "torchvision")


class StandIn(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last, so that what is installed is taken."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        wanted = name.partition(".")[0] in STAND_INS
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = StandIn(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Ranks:
    """Rank 0 of so many ranks, which never talk."""

    is_first_rank = is_last_rank = True
    use_custom_op_call = False
    unique_name = "ranks"
    rank = rank_in_group = local_rank = first_rank = 0

    def __init__(self, size: int) -> None:
        self.world_size = size
        self.ranks = list(range(size))
        self.last_rank = size - 1
        self.device = torch.device("cpu")
        self.device_group = self.cpu_group = SimpleNamespace(size=lambda: size, rank=lambda: 0)


class Kernel:
    """Stands for the implementation or the metadata of an attention backend."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __getattr__(self, name: str) -> bool:
        if name.startswith("__"):
            raise AttributeError(name)
        return False


class Builder(Kernel, AttentionMetadataBuilder):  # type: ignore[misc]
    pass


class Backend(AttentionBackend):  # type: ignore[misc]
    @staticmethod
    def get_name() -> str:
        return "FLASH_ATTN"

    @staticmethod
    def get_impl_cls() -> type:
        return Kernel

    @staticmethod
    def get_builder_cls() -> type:
        return Builder

    @staticmethod
    def get_kv_cache_shape(*arguments: Any, **named: Any) -> tuple[int, ...]:
        return ()

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[int | MultipleOf]:
        return [MultipleOf(16)]


class LatentBackend(Backend):
    @classmethod
    def is_mla(cls) -> bool:
        return True

    @classmethod
    def is_sparse(cls) -> bool:
        return True


def backend_class(cls: type, *arguments: Any, **named: Any) -> str:
    asked = named.get("attn_selector_config") or arguments[1]
    return "stand_in_backends." + ("LatentBackend" if asked.use_mla else "Backend")


class Fields(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]


class NemotronNas(LlamaConfig):  # type: ignore[misc]
    """The fields of a nemotron-nas config.json as vLLM reads them."""

    model_type = "nemotron-nas"

    def __init__(self, block_configs: Any = (), num_key_value_heads: Any = None, **fields: Any) -> None:
        super().__init__(**{**fields, "intermediate_size": 128})
        self.num_key_value_heads = num_key_value_heads
        self.block_configs = json.loads(json.dumps(list(block_configs)), object_hook=Fields)
