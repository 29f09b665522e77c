# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by an engine's own Python, with tests/ on its path: what the vLLM that it imports says of its attention backends.

stdin: {"capability": "12.0", "sources": folder or null, "points": [{kv_cache_dtype, use_mla, use_sparse, head_size,
has_sink, use_dcp}]}. Without `sources` the installed vLLM is asked as it is. With it the package vllm of that folder is
imported, a CUDA build: empty modules stand in for its compiled extensions, mere names for FlashInfer, and a card of
that capability is pretended.
Last line of stdout: for each point {"order": [names], "refusals": {name: [reasons] or "Kind: message"}}.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

from e2e.stand_ins import Finder

os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
ORDERED_BY = ("use_mla", "device_capability", "num_heads", "kv_cache_dtype", "head_size")


def answer(point: dict[str, Any], capability: Any) -> dict[str, Any]:
    import torch
    from vllm.platforms import cuda
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.attention.selector import AttentionSelectorConfig

    asked = {**point, "dtype": torch.bfloat16, "block_size": None}
    config = AttentionSelectorConfig(**{k: v for k, v in asked.items() if k in AttentionSelectorConfig._fields})
    takes = cuda._get_backend_priorities.__wrapped__.__code__.co_varnames
    known = {**asked, "device_capability": capability, "num_heads": 8}
    order = cuda._get_backend_priorities(**{name: known[name] for name in ORDERED_BY if name in takes})
    refusals: dict[str, Any] = {}
    for backend in AttentionBackendEnum:
        if backend not in order and backend.name.startswith(("ROCM", "XPU")):
            continue
        try:
            refusals[backend.name] = backend.get_class().validate_configuration(
                device_capability=capability, **config._asdict()
            )
        except Exception as error:
            refusals[backend.name] = f"{type(error).__name__}: {error}"
    return {"order": [backend.name for backend in order], "refusals": refusals}


def stand_in_for_extensions(sources: Path) -> None:
    for file in sources.glob("vllm/**/*.so"):
        name = ".".join([*file.relative_to(sources).parent.parts, file.name.split(".")[0]])
        sys.modules[name] = types.ModuleType(name)


def without_torchvision() -> None:
    """A torchvision that does not match torch counts as not installed."""
    with contextlib.suppress(Exception):
        import torchvision  # noqa: F401
    if "torchvision" not in sys.modules:
        find_spec = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "torchvision" else find_spec(name, *rest)


def pretend_card(capability: Any) -> None:
    import torch
    import vllm.platforms
    from vllm.platforms.cuda import CudaPlatformBase

    class Card(CudaPlatformBase):  # type: ignore[misc]
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return capability

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "this GPU"

    vllm.platforms._current_platform = Card()
    torch.cuda.get_device_capability = lambda *_: tuple(capability)
    torch.cuda.current_device = lambda: 0
    empty = torch.empty  # CUTLASS_MLA takes a workspace when it is imported
    torch.empty = lambda *sizes, device=None, **more: empty(
        *sizes, device="meta" if str(device).startswith("cuda") else device, **more
    )
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(multi_processor_count=148)


def main() -> None:
    request = json.load(sys.stdin)
    stdout, sys.stdout = sys.stdout, sys.stderr
    without_torchvision()
    if request["sources"]:
        sys.path.insert(0, request["sources"])
        stand_in_for_extensions(Path(request["sources"]))
        sys.meta_path.append(Finder(("flashinfer", "tokenspeed_mla")))
    else:
        for extension in ("vllm._C", "vllm._C_stable_libtorch"):
            try:
                importlib.import_module(extension)
            except ImportError:
                sys.modules[extension] = types.ModuleType(extension)
    from vllm.platforms.interface import DeviceCapability

    capability = DeviceCapability(*(int(part) for part in request["capability"].split(".")))
    if request["sources"]:
        pretend_card(capability)
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config

    config = VllmConfig(device_config=DeviceConfig(device="cpu"))
    with set_current_vllm_config(config):
        answers = []
        for point in request["points"]:
            config.parallel_config.decode_context_parallel_size = 2 if point["use_dcp"] else 1
            answers.append(answer(point, capability))
    print(json.dumps(answers), file=stdout)


if __name__ == "__main__":
    main()
