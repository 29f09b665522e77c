# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The program that the engine's own python runs: what it has, or what its decode kernels need for a target.

child.py hands this file's text to that python; nothing else of the collection is there. It takes one JSON argument and
writes one JSON object per line to its standard output. `{"ask": "versions"}` is answered with the versions of triton
and torch. `{"ask": "compile", ...}` runs one decode step of the installed source on tensors without memory (device
"meta"). The installed launcher chooses block sizes, stages and warps as it would for the card, triton specialises and
compiles as it would for the card (JITFunction.run with warmup=True), and nothing is launched: no GPU, no driver and no
import of vllm is needed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
import types
from typing import Any, NamedTuple

# Any sizes do: block sizes, stages and shared memory do not depend on them.
REQUESTS, BLOCKS, PAGE_SIZE, NUM_KV_SPLITS = 2, 64, 16, 4


def version_of(package: str) -> str | None:
    """The installed version, or None where the package cannot be imported; "" where nothing tells the version."""
    if importlib.util.find_spec(package) is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        # PyTorch's own builds of triton are distributed under another name.
        names = importlib.metadata.packages_distributions().get(package, [])
        return " ".join(f"{name} {importlib.metadata.version(name)}" for name in sorted(set(names)))


class Capability(NamedTuple):
    """A compute capability, in the words of vLLM's DeviceCapability."""

    major: int
    minor: int

    def to_int(self) -> int:
        return 10 * self.major + self.minor


class Card:
    """The target, to a source that asks vLLM's platform or torch about it; all else is an AttributeError."""

    def __init__(self, major: int, minor: int, limit_bytes: int) -> None:
        self.major = major
        self.minor = minor
        self.shared_memory_per_block_optin = limit_bytes

    def is_cuda(self) -> bool:
        return True

    def is_cuda_alike(self) -> bool:
        return True

    def is_rocm(self) -> bool:
        return False

    def get_device_capability(self, device_id: int = 0) -> Capability:
        return Capability(self.major, self.minor)

    def has_device_capability(self, capability: Any, device_id: int = 0) -> bool:
        return self.get_device_capability() >= _pair(capability)

    def is_device_capability(self, capability: Any, device_id: int = 0) -> bool:
        return self.get_device_capability() == _pair(capability)

    def is_device_capability_family(self, capability: int, device_id: int = 0) -> bool:
        return self.major == capability // 10


def _pair(capability: Any) -> tuple[int, ...]:
    """(12, 0) of vLLM's two ways to name a capability: (12, 0) and 120."""
    return divmod(capability, 10) if isinstance(capability, int) else tuple(capability)


class Driver:
    """The active driver to triton: a card of the target, on which nothing can be launched."""

    def __init__(self, card: Card, target: Any) -> None:
        self.card = card
        self.target = target
        self.utils = self

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_current_target(self) -> Any:
        return self.target

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        return {"max_shared_mem": self.card.shared_memory_per_block_optin}


def stand_in(name: str, **contents: Any) -> None:
    """A module under vllm's name. Other modules of vllm cannot be imported: the source that needs one is refused."""
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(contents)
    sys.modules[name] = module


def prepare(card: Card) -> list[dict[str, Any]]:
    """Make triton compile for the card instead of launching -> the list that each compiled kernel is added to."""
    import torch
    import triton
    import triton.language
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    driver.set_active(Driver(card, GPUTarget("cuda", 10 * card.major + card.minor, 32)))
    torch.cuda.get_device_properties = lambda device=None: card
    torch.cuda.get_device_capability = lambda device=None: (card.major, card.minor)
    stand_in("vllm")
    stand_in("vllm.platforms", current_platform=card)
    stand_in("vllm.triton_utils", tl=triton.language, triton=triton)
    launches: list[dict[str, Any]] = []
    run = JITFunction.run

    def compile_only(self: Any, *arguments: Any, grid: Any, warmup: bool, **words: Any) -> Any:
        compiled = run(self, *arguments, grid=grid, warmup=True, **words)
        launches.append(
            {
                "kernel": self.fn.__name__,
                "num_stages": compiled.metadata.num_stages,
                "num_warps": compiled.metadata.num_warps,
                "shared_memory_bytes": compiled.metadata.shared,
            }
        )
        return compiled

    JITFunction.run = compile_only
    return launches


def load(file: str) -> Any:
    """The installed source as a module, from its place: triton reads the text of a kernel there."""
    spec = importlib.util.spec_from_file_location("decode_kernels_of_the_installation", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python source")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made_up(shape: dict[str, int], kv_dtype: str) -> dict[str, Any]:
    """What a decode step is called with, by parameter name: one latent KV head, queries in the model's dtype."""
    import torch

    def tensor(*size: int, dtype: Any) -> Any:
        return torch.empty(size, dtype=dtype, device="meta")

    heads, latent, head_size = shape["num_attention_heads_per_rank"], shape["kv_lora_rank"], shape["head_size"]
    model = torch.float16 if kv_dtype == "float16" else torch.bfloat16
    cache = tensor(BLOCKS, PAGE_SIZE, 1, head_size, dtype=getattr(torch, kv_dtype))
    return {
        "q": tensor(REQUESTS, heads, head_size, dtype=model),
        "k_buffer": cache,
        "v_buffer": cache[..., :latent],
        "o": tensor(REQUESTS, heads, latent, dtype=model),
        "lse": tensor(REQUESTS, heads, dtype=model),
        "req_to_token": tensor(REQUESTS, BLOCKS, dtype=torch.int32),
        "b_seq_len": tensor(REQUESTS, dtype=torch.int32),
        "attn_logits": tensor(REQUESTS, heads, NUM_KV_SPLITS, latent + 1, dtype=torch.float32),
        "num_kv_splits": NUM_KV_SPLITS,
        "sm_scale": 0.1,
        "page_size": PAGE_SIZE,
        "k_scale": tensor(dtype=torch.float32),
        "v_scale": tensor(dtype=torch.float32),
    }


def described(error: BaseException) -> str:
    """The cause in one line; triton wraps it in its own error with an excerpt of the kernel."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


def main(question: dict[str, Any], answer: Any) -> None:
    if question["ask"] == "versions":
        answer({"triton": version_of("triton"), "torch": version_of("torch")})
        return
    # The operator's settings for a serving engine (TRITON_INTERPRET, a dump folder) are not for this compilation, and a
    # card is not to be touched: it may be full.
    for name in [name for name in os.environ if name.startswith("TRITON_")]:
        del os.environ[name]
    os.environ.update(TRITON_CACHE_DIR=question["scratch"], CUDA_VISIBLE_DEVICES="")
    launches = prepare(Card(*question["target"]))
    function = getattr(load(question["file"]), question["function"])
    for kv_dtype in question["kv_dtypes"]:
        launches.clear()
        given = made_up(question["shape"], kv_dtype)
        try:
            function(**{name: given[name] for name in question["made_up"]}, **question["literals"])
        except Exception as error:  # whatever the installed source or triton raises is the answer for this dtype
            answer({"kv_dtype": kv_dtype, "error": described(error)})
        else:
            answer({"kv_dtype": kv_dtype, "launches": launches})


if __name__ == "__main__":
    # What libraries print on import goes to standard error; the answers have standard output to themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    main(json.loads(sys.argv[1]), lambda fact: answers.write(json.dumps(fact) + "\n"))
