# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by an engine's own python: what the vLLM that is imported says of its attention backends.

stdin: a JSON list of points {capability, kv_cache_dtype, use_mla, use_sparse, head_size, has_sink}. Last line of
stdout: for each point {"order": [names], "refusals": {name: [reasons]}}, an exception as "Kind: message".
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import types
from typing import Any

os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"


ORDERED_BY = ("use_mla", "device_capability", "num_heads", "kv_cache_dtype", "head_size")


def answer(point: dict[str, Any], every: bool) -> dict[str, Any]:
    import torch
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.attention.selector import AttentionSelectorConfig

    capability = DeviceCapability(*(int(part) for part in point["capability"].split(".")))
    asked = {
        "head_size": point["head_size"],
        "dtype": torch.bfloat16,
        "kv_cache_dtype": point["kv_cache_dtype"],
        "block_size": None,
        "use_mla": point["use_mla"],
        "has_sink": point["has_sink"],
        "use_sparse": point["use_sparse"],
        "use_dcp": point["use_dcp"],
    }
    config = AttentionSelectorConfig(**{k: v for k, v in asked.items() if k in AttentionSelectorConfig._fields})
    takes = cuda._get_backend_priorities.__wrapped__.__code__.co_varnames
    known = {**asked, "device_capability": capability, "num_heads": 8}
    order = cuda._get_backend_priorities(**{name: known[name] for name in ORDERED_BY if name in takes})
    names = [backend.name for backend in (AttentionBackendEnum if every else order)]
    refusals = {}
    for name in names:
        try:
            refusals[name] = (
                AttentionBackendEnum[name]
                .get_class()
                .validate_configuration(device_capability=capability, **config._asdict())
            )
        except Exception as error:
            refusals[name] = f"{type(error).__name__}: {error}"
    return {"order": [backend.name for backend in order], "refusals": refusals}


def import_engine() -> None:
    """Import vLLM on a machine without a GPU, with stand-ins for what cannot be loaded there."""
    with contextlib.suppress(Exception):
        import torchvision  # noqa: F401
    if "torchvision" not in sys.modules:
        find_spec = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "torchvision" else find_spec(name, *rest)
    for extension in ("vllm._C", "vllm._C_stable_libtorch"):
        try:
            importlib.import_module(extension)
        except ImportError:
            sys.modules[extension] = types.ModuleType(extension)


def main() -> None:
    request = json.load(sys.stdin)
    stdout, sys.stdout = sys.stdout, sys.stderr
    import_engine()
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config

    with set_current_vllm_config(VllmConfig(device_config=DeviceConfig(device="cpu"))):
        answers = [answer(point, request["every"]) for point in request["points"]]
    print(json.dumps(answers), file=stdout)


if __name__ == "__main__":
    main()
