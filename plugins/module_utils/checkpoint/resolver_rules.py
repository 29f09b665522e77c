# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What differs between vLLM releases when the KV-cache dtype is settled.

The table was read in the wheels of every release from 0.15.0 to 0.33.0 (0.21 is not on PyPI): vllm/utils/
torch_utils.py (resolve_kv_cache_dtype_string), vllm/transformers_utils/config.py (get_config) and
model_arch_config_convertor.py, the attention layer, the quantization methods and vllm/config. Where an installation is
at hand, its own source is asked instead: resolver_source.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import ServingError

OLDEST_EXAMINED = (0, 15, 0)
NEWEST_EXAMINED = (0, 33, 0)

MODELOPT_METHODS = {
    "FP8": "modelopt",
    "FP8_PER_CHANNEL_PER_TOKEN": "modelopt",
    "FP8_PB_WO": "modelopt",
    "NVFP4": "modelopt_fp4",
}


@dataclass(frozen=True)
class ArchitectureDefault:
    """What an architecture makes of auto on compute capability 10.x; sparse_only: where its config has index_topk."""

    dtype: str
    sparse_only: bool


@dataclass(frozen=True)
class ResolverRules:
    """One release's way to settle the KV-cache dtype.

    dtypes: what a ModelOpt algorithm, in lower case, makes of `auto`; another one gives auto and a warning.
    four_bit_scheme: a ModelOpt scheme of 4-bit float counts as the algorithm nvfp4; from 0.20.
    methods: the quant_method of each ModelOpt algorithm in the wrapped form; another one is an error.
        MIXED_PRECISION is among them from 0.33.
    modelopt_quant_config: a hf_quant_config.json without `producer` counts as ModelOpt's when its `quantization`
        holds `modelopt_quant_config`; from 0.26.
    flat_algo_is_string: a `kv_cache_quant_algo` that is no string is an error in config.json's flat form as well;
        until 0.16. In the wrapped form it always is.
    scheme_overrides_flag: a compressed-tensors kv_cache_scheme wins over an explicit --kv-cache-dtype; before 0.22.
    scheme_is_8_bit_float: a compressed-tensors scheme of another type or width is an error; before 0.24 only one that
        differs in both.
    per_head_scales_choose_backend: with the strategy attn_head only backends with scales per head are valid, whatever
        dtype the flag names; from 0.17.
    nvfp4_refused_with_mla: nvfp4 and MLA together are an error before anything is loaded; from 0.22.
    float_flags: those of float16 and bfloat16 that --kv-cache-dtype takes; float16 from 0.18.
    float_flag_is_model_dtype: one of these that is not the model's dtype is an error; from 0.33.
    auto_by_architecture: architectures that turn auto into fp8 on compute capability 10.x, whatever the files say;
        GlmMoeDsaForCausalLM from 0.32, the Glm5Next ones from 0.33.
    """

    dtypes: Mapping[str, str]
    four_bit_scheme: bool
    methods: Mapping[str, str]
    modelopt_quant_config: bool
    flat_algo_is_string: bool
    scheme_overrides_flag: bool
    scheme_is_8_bit_float: bool
    per_head_scales_choose_backend: bool
    nvfp4_refused_with_mla: bool
    float_flags: tuple[str, ...]
    float_flag_is_model_dtype: bool
    auto_by_architecture: Mapping[str, ArchitectureDefault]
    notes: tuple[str, ...] = ()


def rules_for(vllm_version: str | None) -> ResolverRules:
    """The rules of a release ("0.16.0rc2.dev313" counts as 0.16.0); without one, those of the newest examined."""
    version = NEWEST_EXAMINED if vllm_version is None else _release(vllm_version)
    notes: tuple[str, ...] = ()
    if not OLDEST_EXAMINED <= version <= NEWEST_EXAMINED:
        oldest, newest = (".".join(map(str, limit)) for limit in (OLDEST_EXAMINED, NEWEST_EXAMINED))
        notes = (
            f"vLLM {vllm_version} lies outside the releases whose resolution of --kv-cache-dtype auto is known "
            f"({oldest} to {newest}); the nearest one is assumed",
        )
    return ResolverRules(
        dtypes={"fp8": "fp8_e4m3"} | ({"nvfp4": "nvfp4"} if version >= (0, 20, 0) else {}),
        four_bit_scheme=version >= (0, 20, 0),
        methods=MODELOPT_METHODS | ({"MIXED_PRECISION": "modelopt_mixed"} if version >= (0, 33, 0) else {}),
        modelopt_quant_config=version >= (0, 26, 0),
        flat_algo_is_string=version < (0, 17, 0),
        scheme_overrides_flag=version < (0, 22, 0),
        scheme_is_8_bit_float=version >= (0, 24, 0),
        per_head_scales_choose_backend=version >= (0, 17, 0),
        nvfp4_refused_with_mla=version >= (0, 22, 0),
        float_flags=("float16", "bfloat16") if version >= (0, 18, 0) else ("bfloat16",),
        float_flag_is_model_dtype=version >= (0, 33, 0),
        auto_by_architecture=_defaults(version),
        notes=notes,
    )


def _defaults(version: tuple[int, int, int]) -> dict[str, ArchitectureDefault]:
    found = {}
    if version >= (0, 32, 0):
        found["GlmMoeDsaForCausalLM"] = ArchitectureDefault("fp8_e4m3", sparse_only=False)
    if version >= (0, 33, 0):
        for architecture in ("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"):
            found[architecture] = ArchitectureDefault("fp8", sparse_only=True)
    return found


def _release(text: str) -> tuple[int, int, int]:
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise ServingError(
            "the vLLM version cannot be read",
            where=text,
            remedy="Give it as vllm_engine_info returns it, for example 0.33.0",
        )
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch or 0)
