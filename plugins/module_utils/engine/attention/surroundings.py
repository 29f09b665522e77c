# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What vLLM would find around it when it asks for its platform, its configuration and its environment."""

from __future__ import annotations

from typing import Any

from ..source.decisions import Decisions
from ..source.names import MISSING
from ..source.natives import install
from ..source.reader import Reader
from ..source.tree import SourceTree
from ..source.values import Capability, Class, External, Instance, Native, Record, Unknown, Unresolved, Value
from .question import Question

PLATFORMS = {"cuda": ("vllm.platforms.cuda", "CudaPlatformBase"), "cpu": ("vllm.platforms.cpu", "CpuPlatform")}
CONFIG_READERS = ("get_current_vllm_config", "get_current_vllm_config_or_none")


class Surroundings:
    """A reader that stands where the engine's process would.

    platform: cuda or cpu, the class that vLLM would choose
    configured: whether a model's configuration is there, as in a service; without it vLLM's own tests ask
    """

    def __init__(self, tree: SourceTree, question: Question, platform: str, *, configured: bool = True) -> None:
        self.tree = tree
        self.question = question
        self.decisions = Decisions()
        self.reader = Reader(tree, self.decisions)
        self.cache_config = Record("cache_config", {"block_size": None, "user_specified_block_size": False})
        install(self.reader, question.environment)
        self._stand_in_for_platform(platform)
        self._stand_in_for_configuration(configured)
        # Of AMD's kernels no CUDA or CPU backend depends; their module is the largest that would be parsed.
        self.reader.stand_ins["vllm._aiter_ops.rocm_aiter_ops"] = External("rocm_aiter_ops")

    def value(self, module: str, name: str) -> Value:
        """What the dotted name stands for; Unresolved says that the source no longer has it."""
        scope = self.tree.module(module)
        file = "/".join(module.split("."))
        if scope is None:
            raise Unresolved(Unknown(f"the module {module}", f"{file}.py is not there"))
        value = self.reader.lookup(scope, name)
        if value is MISSING:
            raise Unresolved(Unknown(f"{name} in {module}", f"{scope.file}: no such name"))
        return value

    def cls(self, module: str, name: str) -> Class:
        value = self.value(module, name)
        if isinstance(value, Class):
            return value
        raise Unresolved(
            value if isinstance(value, Unknown) else Unknown(f"a class {name}", f"{module.replace('.', '/')}.py")
        )

    def ask_for(self, kv_cache_dtype: str) -> None:
        """The configuration holds this --kv-cache-dtype from now on."""
        self.cache_config.fields["cache_dtype"] = kv_cache_dtype

    def _stand_in_for_platform(self, platform: str) -> None:
        module, name = PLATFORMS[platform]
        capability = self.question.capability if platform == "cuda" else None
        stand_ins = self.reader.stand_ins
        stand_ins["vllm.platforms.interface.DeviceCapability"] = Native("DeviceCapability", Capability)
        stand_ins[f"{module}.{name}.get_device_capability"] = Native(
            "get_device_capability", lambda *_, **__: capability
        )
        stand_ins[f"{module}.{name}.get_device_name"] = Native("get_device_name", lambda *_, **__: "this GPU")
        stand_ins["torch.cuda.get_device_capability"] = Native(
            "get_device_capability", lambda *_, **__: tuple(self.question.capability)
        )
        try:
            stand_ins["vllm.platforms.current_platform"] = Instance(self.cls(module, name))
        except Unresolved as error:
            stand_ins["vllm.platforms.current_platform"] = error.unknown

    def _stand_in_for_configuration(self, configured: bool) -> None:
        config = Record(
            "vllm_config",
            {
                "model_config": self._model_config() if configured else None,
                "cache_config": self.cache_config,
                "parallel_config": self._config_of("vllm.config.parallel", "ParallelConfig", self._parallel_sizes()),
                "attention_config": self._config_of("vllm.config.attention", "AttentionConfig", {"backend": None}),
                "speculative_config": None,
                "kv_transfer_config": None,
            },
        )
        for name in CONFIG_READERS:
            for module in ("vllm.config", "vllm.config.vllm"):
                self.reader.stand_ins[f"{module}.{name}"] = Native(name, lambda: config)

    def _parallel_sizes(self) -> dict[str, Value]:
        return {
            "tensor_parallel_size": self.question.tensor_parallel_size,
            "decode_context_parallel_size": self.question.decode_context_parallel_size,
            "prefill_context_parallel_size": 1,
            "pipeline_parallel_size": 1,
        }

    def _config_of(self, module: str, name: str, fields: dict[str, Value]) -> Value:
        """The engine's own class of settings with its defaults, and these fields set."""
        try:
            return Instance(self.cls(module, name), fields)
        except Unresolved:
            return Record(name, fields)

    def _model_config(self) -> Record:
        model = self.question.model
        text = Record("hf_text_config", dict(model.text_config), whole=model.whole)
        heads, kv_heads = self.question.heads_per_rank, self.question.kv_heads_per_rank
        fields: dict[str, Any] = {
            "hf_text_config": text,
            "hf_config": text,
            "dtype": External(f"torch.{model.engine_dtype}"),
            "use_mla": model.use_mla,
            "is_hybrid": False,
            "is_mm_prefix_lm": False,
            "is_diffusion": False,
            "rswa_window": None,
            "get_head_size": Native("get_head_size", lambda *_: model.head_size),
        }
        if heads is not None:
            fields["get_num_attention_heads"] = Native("get_num_attention_heads", lambda *_: heads, lenient=True)
        if kv_heads is not None:
            fields["get_num_kv_heads"] = Native("get_num_kv_heads", lambda *_: kv_heads, lenient=True)
        return Record("model_config", fields)
