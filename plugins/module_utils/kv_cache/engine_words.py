# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The engine's own error texts, so that what is refused here is recognised there (v1/core/kv_cache_utils.py)."""

from __future__ import annotations

from .release import EngineRelease
from .units import GIB

_MORE = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."


def does_not_fit(length: int, needed: int, available: int, longest: int, release: EngineRelease) -> str:
    """`To serve at least one request ...`, unbalanced parenthesis included. Bytes per card; tokens."""
    whose = "model's" if release.names_cpu_in_errors else "models's"
    estimate = (
        f"Based on the available memory, the estimated maximum model length is {longest}. " if longest > 0 else ""
    )
    clause = " (which also controls CPU memory on the CPU backend)" if release.names_cpu_in_errors else ""
    return (
        f"To serve at least one request with the {whose} max seq len ({length}), ({_gib(needed)} GiB KV cache is "
        f"needed, which is larger than the available KV cache memory ({_gib(available)} GiB). {estimate}"
        f"Try increasing `gpu_memory_utilization`{clause} or decreasing `max_model_len` when initializing the engine. "
        f"{_MORE}"
    )


def no_memory(release: EngineRelease) -> str:
    """`No available memory for the cache blocks. ...`: weights, activations and graphs leave nothing."""
    clause = (
        " (this flag also controls CPU memory reservation on the CPU backend, despite its name)"
        if release.names_cpu_in_errors
        else ""
    )
    return (
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the "
        f"engine{clause}. {_MORE}"
    )


def longer_than_derived(length: int, limit: int) -> str:
    """`User-specified max_model_len (...) is greater than the derived max_model_len (...)` (config/model.py)."""
    return (
        f"User-specified max_model_len ({length}) is greater than the derived max_model_len "
        f"(max_position_embeddings={limit} or model_max_length=None in model's config.json)."
    )


def free_memory(index: int, free: int, total: int, utilization: float, requested: int) -> str:
    """`Free memory on device cuda:N ...` (v1/worker/utils.py, request_memory). Bytes."""
    return (
        f"Free memory on device cuda:{index} ({_gib(free)}/{_gib(total)} GiB) on startup is less than desired GPU "
        f"memory utilization ({utilization}, {_gib(requested)} GiB). Decrease GPU memory utilization or reduce GPU "
        "memory used by other processes."
    )


def _gib(count: int) -> str:
    return f"{round(count / GIB, 2)}"


def too_few_states(max_num_seqs: int, blocks: int) -> str:
    """`max_num_seqs (...) exceeds available Mamba cache blocks (...)` (config/compilation.py), GDN and KDA included."""
    return (
        f"max_num_seqs ({max_num_seqs}) exceeds available Mamba cache blocks ({blocks}). Each decode sequence requires "
        "one Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most "
        f"{blocks} or increase gpu_memory_utilization."
    )
