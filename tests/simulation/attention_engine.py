# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An installed engine in miniature: files of the same names and roles as vLLM's, in words of their own.

It has two latent backends (LATENT_A for 9.x, LATENT_B for all, fp8 from 8.9), one sparse one, two for grouped queries,
an order that depends on the capability, checks that need a compiled extension, another package, the model's
configuration or the environment, a constructor that refuses, and the check of context parallelism.
"""

from __future__ import annotations

from pathlib import Path

REGISTRY = "vllm/v1/attention/backends/registry.py"
CUDA = "vllm/platforms/cuda.py"
BASE = "vllm/v1/attention/backend.py"
LATENT_A = "vllm/v1/attention/backends/mla/latent_a.py"
LATENT_B = "vllm/v1/attention/backends/mla/latent_b.py"
CACHE = "vllm/config/cache.py"
CP_UTILS = "vllm/v1/worker/cp_utils.py"

FILES = {
    "vllm/__init__.py": "",
    "vllm/_version.py": "__version__ = version = '9.9.9'\n",
    "vllm-9.9.9.dist-info/METADATA": "Metadata-Version: 2.4\nName: vllm\nVersion: 9.9.9\n"
    "Requires-Dist: torch==2.0\nRequires-Dist: fast-python==1.0\nRequires-Dist: rare; extra == 'rare'\n",
    "vllm-9.9.9.dist-info/RECORD": "vllm/__init__.py,,\n",
    "vllm/logger.py": "def init_logger(name): ...\n",
    "vllm/envs.py": """
import os
environment_variables = {
    "VLLM_BATCH_INVARIANT": lambda: bool(int(os.getenv("VLLM_BATCH_INVARIANT", "0"))),
}
def __getattr__(name):
    return environment_variables[name]()
""",
    "vllm/config/__init__.py": "from .running import get_current_vllm_config\n",
    "vllm/config/running.py": "def get_current_vllm_config():\n    return _config\n",
    CACHE: 'from typing import Literal\nCacheDType = Literal["auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]\n',
    "vllm/config/parallel.py": "class ParallelConfig:\n    decode_context_parallel_size: int = 1\n",
    "vllm/platforms/__init__.py": "from .interface import Platform\n",
    "vllm/platforms/interface.py": """
import enum
from typing import NamedTuple

class PlatformEnum(enum.Enum):
    CUDA = enum.auto()
    CPU = enum.auto()

class DeviceCapability(NamedTuple):
    major: int
    minor: int

class Platform:
    _enum: PlatformEnum

    def is_cuda(self) -> bool:
        return self._enum == PlatformEnum.CUDA

    @classmethod
    def get_device_capability(cls, device_id: int = 0):
        raise NotImplementedError

    @classmethod
    def has_device_capability(cls, wanted) -> bool:
        have = cls.get_device_capability()
        return have is not None and have.to_int() >= wanted
""",
    CUDA: """
from functools import cache
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from .interface import Platform, PlatformEnum

@cache
def _get_backend_priorities(use_mla, device_capability, num_heads=None):
    if use_mla:
        if device_capability.major == 9:
            return [AttentionBackendEnum.LATENT_A, AttentionBackendEnum.LATENT_B, AttentionBackendEnum.SPARSE]
        return [AttentionBackendEnum.LATENT_B, *([AttentionBackendEnum.SPARSE] if num_heads > 4 else [])]
    return [AttentionBackendEnum.GROUPED_A, AttentionBackendEnum.GROUPED_B]

class CudaPlatformBase(Platform):
    _enum = PlatformEnum.CUDA
""",
    "vllm/platforms/cpu.py": """
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from .interface import Platform, PlatformEnum

class CpuPlatform(Platform):
    _enum = PlatformEnum.CPU

    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):
        if attn_selector_config.use_sparse:
            raise NotImplementedError("sparse attention is not for CPUs")
        return AttentionBackendEnum.ON_CPU.get_path()
""",
    REGISTRY: """
from enum import Enum

class AttentionBackendEnum(Enum):
    LATENT_A = "vllm.v1.attention.backends.mla.latent_a.LatentABackend"
    LATENT_B = "vllm.v1.attention.backends.mla.latent_b.LatentBBackend"
    SPARSE = "vllm.v1.attention.backends.mla.sparse.SparseBackend"
    GROUPED_A = "vllm.v1.attention.backends.grouped.GroupedABackend"
    GROUPED_B = "vllm.v1.attention.backends.grouped." "GroupedBBackend"
    ON_CPU = "vllm.v1.attention.backends.grouped.OnCpuBackend"
    CUSTOM = None

    def get_path(self):
        return _OVERRIDES.get(self, self.value)

_OVERRIDES = {}
""",
    BASE: """
from abc import ABC
from enum import Enum
import torch

class AttentionType(str, Enum):
    DECODER = "decoder"

class MultipleOf:
    base: int

class AttentionBackend(ABC):
    supported_dtypes = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes = ["auto", "bfloat16"]

    @staticmethod
    def get_supported_kernel_block_sizes():
        return [MultipleOf(16)]

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype):
        return kv_cache_dtype is None or kv_cache_dtype in cls.supported_kv_cache_dtypes

    @classmethod
    def is_mla(cls):
        return False

    @classmethod
    def is_sparse(cls):
        return False

    @classmethod
    def supports_compute_capability(cls, capability):
        return True

    @classmethod
    def supports_batch_invariance(cls):
        return False

    @classmethod
    def supports_combination(cls, head_size, kv_cache_dtype):
        return None

    @classmethod
    def validate_configuration(
        cls, head_size, dtype, kv_cache_dtype, use_mla, use_sparse, device_capability, attn_type,
        use_batch_invariant=False,
    ):
        reasons = []
        if dtype not in cls.supported_dtypes:
            reasons.append("dtype not supported")
        if not cls.supports_kv_cache_dtype(kv_cache_dtype):
            reasons.append("kv_cache_dtype not supported")
        if use_mla != cls.is_mla():
            reasons.append("MLA not supported" if use_mla else "non-MLA not supported")
        if use_sparse != cls.is_sparse():
            reasons.append("sparse not supported" if use_sparse else "non-sparse not supported")
        if not cls.supports_compute_capability(device_capability):
            reasons.append("compute capability not supported")
        if attn_type != AttentionType.DECODER:
            reasons.append(f"attention type {attn_type} not supported")
        if use_batch_invariant and not cls.supports_batch_invariance():
            reasons.append("batch invariance not supported")
        combination = cls.supports_combination(head_size, kv_cache_dtype)
        if combination is not None:
            reasons.append(combination)
        return reasons

class AttentionImpl:
    can_return_lse_for_decode: bool = False

    def __init__(self, num_heads, head_size, kv_cache_dtype, indexer=None):
        self.kv_cache_dtype = kv_cache_dtype
""",
    "vllm/v1/attention/backends/mla/common.py": """
from vllm.v1.attention.backend import AttentionBackend

class LatentBackend(AttentionBackend):
    @classmethod
    def is_mla(cls) -> bool:
        return True
""",
    "vllm/v1/attention/ops/extension.py": """
from vllm.platforms import current_platform

if current_platform.is_cuda():
    try:
        import vllm._extension_C
        AVAILABLE = True
    except ImportError:
        AVAILABLE = False
else:
    AVAILABLE = False

def is_supported():
    if not AVAILABLE:
        return False, "vllm._extension_C is not available"
    return True, None
""",
    LATENT_A: """
from typing import ClassVar
from vllm.v1.attention.backend import AttentionImpl
from vllm.v1.attention.backends.mla.common import LatentBackend

class LatentABackend(LatentBackend):
    supported_kv_cache_dtypes: ClassVar[list[str]] = ["auto", "bfloat16", "fp8", "fp8_e4m3"]

    @staticmethod
    def get_supported_kernel_block_sizes():
        return [64]

    @staticmethod
    def get_impl_cls():
        return LatentAImpl

    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.major in [9]

    @classmethod
    def supports_combination(cls, head_size, kv_cache_dtype):
        from vllm.v1.attention.ops.extension import is_supported
        return is_supported()[1]

class LatentAImpl(AttentionImpl):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
""",
    LATENT_B: """
from typing import ClassVar
from vllm.config import get_current_vllm_config
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionImpl
from vllm.v1.attention.backends.mla.common import LatentBackend

logger = init_logger(__name__)

class LatentBBackend(LatentBackend):
    supported_kv_cache_dtypes: ClassVar[list[str]] = ["auto", "bfloat16", "fp8", "fp8_e4m3"]

    @staticmethod
    def get_impl_cls():
        return LatentBImpl

    @classmethod
    def supports_batch_invariance(cls):
        return True

    @classmethod
    def supports_combination(cls, head_size, kv_cache_dtype):
        model_config = get_current_vllm_config().model_config
        if model_config is not None:
            nope = getattr(model_config.hf_text_config, "qk_nope_head_dim", 1)
            if nope not in (64, 128):
                logger.info_once("unusual %d", nope)
                return f"needs qk_nope_head_dim in (64, 128), got {nope}"
        return None

class LatentBImpl(AttentionImpl):
    can_return_lse_for_decode: bool = True

    def __init__(self, num_heads, head_size, kv_cache_dtype, indexer=None):
        super().__init__(num_heads, head_size, kv_cache_dtype, indexer)
        assert indexer is not None, "seen at run time only"
        self.buffer = make_buffer(num_heads)
        if current_platform.is_cuda():
            if self.kv_cache_dtype.startswith("fp8") and not current_platform.has_device_capability(89):
                raise ValueError("FP8 needs compute capability 8.9")
""",
    "vllm/v1/attention/backends/mla/sparse.py": """
import fast
from vllm.v1.attention.backends.mla.common import LatentBackend

class SparseBackend(LatentBackend):
    @staticmethod
    def get_impl_cls():
        from vllm.v1.attention.backends.mla.latent_b import LatentBImpl
        return LatentBImpl

    @classmethod
    def is_sparse(cls):
        return True

    @classmethod
    def supports_combination(cls, head_size, kv_cache_dtype):
        try:
            import rare
        except ImportError:
            return "rare is not installed"
        return None
""",
    "vllm/v1/attention/backends/grouped.py": """
import urllib.request
from vllm.v1.attention.backend import AttentionBackend, AttentionImpl

class _GroupedBackend(AttentionBackend):
    @staticmethod
    def get_impl_cls():
        return AttentionImpl

class GroupedABackend(_GroupedBackend):
    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype):
        if kv_cache_dtype is not None and kv_cache_dtype.startswith("fp8"):
            return urllib.request.urlopen("https://example.invalid").status == 200
        return super().supports_kv_cache_dtype(kv_cache_dtype)

class GroupedBBackend(_GroupedBackend):
    supported_kv_cache_dtypes = [*AttentionBackend.supported_kv_cache_dtypes, "fp8"]

class OnCpuBackend(AttentionBackend):
    supported_kv_cache_dtypes = ["auto"]
""",
    CP_UTILS: """
from vllm.config import get_layers_from_vllm_config

def check_attention_cp_compatibility(vllm_config):
    size = vllm_config.parallel_config.decode_context_parallel_size
    if size > 1:
        for name, layer in get_layers_from_vllm_config(vllm_config, object).items():
            impl = getattr(layer, "impl", None)
            assert impl.need_to_return_lse_for_decode, f"{impl.__class__.__name__} returns no LSE"
""",
}


def write_engine(folder: Path, *, extension: bool = True) -> Path:
    """The installation below the folder; extension: whether its compiled extension is there."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if extension:
        (folder / "vllm" / "_extension_C.abi3.so").touch()
    return folder


def edit(folder: Path, name: str, before: str, after: str) -> None:
    """Replace a text in one of the files, which must hold it."""
    path = folder / name
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
