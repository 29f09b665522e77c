# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An installation in miniature, and a torch and a triton of a few lines that count the bytes of its kernels.

The real pair is asked in tests/e2e/test_kernel_fit.py; with this one the road to it and back is real: the process, the
program, the launcher of the installed source.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelShape

KERNEL_FILE = "vllm/v1/attention/ops/triton_decode_attention.py"
SHAPE = KernelShape(8, 512, 64, 576, use_mla=True)

BACKEND = """
import torch
from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd as decode

class TritonMLAImpl:
    def forward_mqa(self, q, cache, metadata, layer):
        decode(
            q, cache, cache[..., : self.rank], self.o, self.lse, metadata.table, metadata.lens, self.logits,
            self.splits, self.scale, cache.size(1), k_scale=layer._k_scale, v_scale=layer._k_scale, is_mla=True,
        )
"""

# bfloat16 needs 2 x 32 x 512 bytes a stage, fp8 half as much again for the values it is turned into.
KERNELS = """
import torch
from vllm.platforms import current_platform
from vllm.triton_utils import tl, triton

@triton.jit
def _stage1(q, k, out, BLOCK_DMODEL: tl.constexpr, BLOCK_N: tl.constexpr):
    pass

@triton.jit
def _stage2(out, o):
    pass

def decode_attention_fwd(
    q, k_buffer, v_buffer, o, lse, req_to_token, b_seq_len, attn_logits, num_kv_splits, sm_scale, page_size=1,
    logit_cap=0.0, k_scale=None, v_scale=None, is_mla=False,
):
    assert is_mla and not current_platform.is_rocm()
    BLOCK_DMODEL = triton.next_power_of_2(v_buffer.shape[-1])
    num_stages = 2
    if BLOCK_DMODEL >= 1024:
        num_stages = 1
    grid = (q.shape[0], q.shape[1])
    _stage1[grid](q, k_buffer, attn_logits, BLOCK_DMODEL=BLOCK_DMODEL, BLOCK_N=32, num_warps=4, num_stages=num_stages)
    _stage2[grid](attn_logits, o, num_warps=4, num_stages=2)
"""

TORCH = """
print("a library that prints on import")
bfloat16, float16, float32, int32, float8_e4m3fn = "bf16", "fp16", "fp32", "i32", "fp8e4nv"

class empty:
    def __init__(self, shape, dtype, device):
        assert device == "meta"
        self.shape, self.dtype = tuple(shape), dtype

    def __getitem__(self, index):
        return empty((*self.shape[:-1], index[-1].stop), self.dtype, "meta")

class cuda:
    pass
"""

TRITON = """
import os
from types import SimpleNamespace
from triton.runtime.jit import JITFunction as jit

assert "TRITON_INTERPRET" not in os.environ and os.path.isdir(os.environ["TRITON_CACHE_DIR"])

def next_power_of_2(number):
    return 1 << (number - 1).bit_length()
"""

JIT = """
from types import SimpleNamespace
from triton.runtime import driver

class JITFunction:
    def __init__(self, function):
        self.fn = function

    def __getitem__(self, grid):
        return lambda *arguments, **words: self.run(*arguments, grid=grid, warmup=False, **words)

    def run(self, *arguments, grid, warmup, num_warps, num_stages, **blocks):
        assert warmup, "a kernel was launched"
        fp8 = any(argument.dtype == "fp8e4nv" for argument in arguments)
        if fp8 and driver.active.get_current_target().arch < 89:
            raise ValueError("type fp8e4nv not supported in this architecture")
        bytes_per_stage = blocks.get("BLOCK_DMODEL", 0) * blocks.get("BLOCK_N", 0) * (3 if fp8 else 2)
        return SimpleNamespace(
            metadata=SimpleNamespace(num_stages=num_stages, num_warps=num_warps, shared=num_stages * bytes_per_stage)
        )
"""

RUNTIME = """
class driver:
    @classmethod
    def set_active(cls, active):
        cls.active = active
"""

TARGET = """
from collections import namedtuple
GPUTarget = namedtuple("GPUTarget", "backend arch warp_size")
"""

PACKAGES = {
    "torch/__init__.py": TORCH,
    "torch-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.0\n",
    "triton/__init__.py": TRITON,
    "triton/language.py": "constexpr = int\n",
    "triton/backends/compiler.py": TARGET,
    "triton/runtime/__init__.py": RUNTIME,
    "triton/runtime/jit.py": JIT,
    "triton-3.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: triton\nVersion: 3.0\n",
}


def write_all(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


class Processes:
    """A runner that really runs, and remembers what."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def __call__(self, arguments: list[str]) -> tuple[int, str, str]:
        self.commands.append(arguments)
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=60, check=False, env={"TRITON_INTERPRET": "1"}
        )
        return done.returncode, done.stdout, done.stderr

    @property
    def compilations(self) -> int:
        return sum('"compile"' in arguments[-1] for arguments in self.commands)
