# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What differs between vLLM releases when `--kv-cache-dtype auto` is resolved.

Read in the wheels of 0.15.0, 0.16.0, 0.17.0, 0.18.0, 0.19.0, 0.20.0, 0.22.0, 0.23.0, 0.25.0 to 0.28.0 and 0.30.0 to
0.33.0: vllm/utils/torch_utils.py (resolve_kv_cache_dtype_string), vllm/transformers_utils/config.py (get_config) and
model_arch_config_convertor.py, and the attention layer (attention.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ServingError

OLDEST_EXAMINED = (0, 15, 0)
NEWEST_EXAMINED = (0, 33, 0)


@dataclass(frozen=True)
class ResolverRules:
    """One release's way to resolve `auto`.

    nvfp4: a 4-bit float scheme becomes nvfp4; before 0.20 it is unknown, which gives auto and a warning.
    modelopt_quant_config: a hf_quant_config.json without `producer` counts as ModelOpt's when its `quantization`
        holds `modelopt_quant_config`; from 0.26.
    modelopt_mixed: MIXED_PRECISION is known in a ModelOpt block of that wrapped form; before 0.33 it is an error.
    scheme_overrides_flag: a compressed-tensors kv_cache_scheme wins over an explicit --kv-cache-dtype; until 0.21.
    dsa_auto_is_fp8: GlmMoeDsaForCausalLM turns auto into fp8_e4m3 on compute capability 10.x; from 0.32.
    """

    nvfp4: bool
    modelopt_quant_config: bool
    modelopt_mixed: bool
    scheme_overrides_flag: bool
    dsa_auto_is_fp8: bool
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
        nvfp4=version >= (0, 20, 0),
        modelopt_quant_config=version >= (0, 26, 0),
        modelopt_mixed=version >= (0, 33, 0),
        scheme_overrides_flag=version < (0, 22, 0),
        dsa_auto_is_fp8=version >= (0, 32, 0),
        notes=notes,
    )


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
