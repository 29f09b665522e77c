# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What the engine's command line says of memory and length, read as its parser reads it.

`--flag value` and `--flag=value`, dashes or underscores, short names and abbreviations, `--no-flag`, JSON or
`--flag.key.below value`; the last one counts. Flags that decide nothing here are passed over: whether the engine takes
them is asked elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import ServingError
from .length import parse_length

_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-sc": "--speculative-config",
    "-ac": "--attention-config",
    "--device-memory-utilization": "--gpu-memory-utilization",
    "--spec-method": "--speculative-config.method",
    "--spec-model": "--speculative-config.model",
    "--spec-tokens": "--speculative-config.num_speculative_tokens",
}
_SWITCHES = {
    "--enforce-eager": "enforce_eager",
    "--language-model-only": "language_model_only",
    "--enable-expert-parallel": "enable_expert_parallel",
    "--async-scheduling": "async_scheduling",
    "--disable-hybrid-kv-cache-manager": "disable_hybrid_kv_cache_manager",
    "--enable-prefix-caching": "enable_prefix_caching",
}
_SKIPPED = "--kv-cache-dtype-skip-layers"
_DTYPES = {"half": "float16", "float16": "float16", "bfloat16": "bfloat16", "auto": None}
_STATE_DTYPES = ("auto", "float32", "float16", "bfloat16")
_REFUSED = {
    "--num-gpu-blocks-override": "the engine would not size its KV cache by memory",
}


def read_arguments(arguments: Sequence[str]) -> dict[str, Any]:
    """{option: value} of what the arguments say. Raises ServingError for a value that cannot be read."""
    found: dict[str, Any] = {}
    skipped = _listed(_SKIPPED, [str(each) for each in arguments])
    if skipped:
        found["kv_cache_dtype_skip_layers"] = skipped
    for written, key, text in _flags([str(each) for each in arguments]):
        flag = _in_full(written)
        if flag in _REFUSED:
            raise _unreadable(flag, text, _REFUSED[flag])
        if flag in _SWITCHES:
            found[_SWITCHES[flag]] = True
        elif flag.startswith("--no-") and f"--{flag[5:]}" in _SWITCHES:
            found[_SWITCHES[f"--{flag[5:]}"]] = False
        elif flag in _VALUES and text is None:
            raise _unreadable(flag, text, "its value is missing")
        elif flag in _VALUES and text is not None:
            option, read = _VALUES[flag]
            found[option] = read(flag, text) if not key else _placed(found.get(option), key, _plain(text))
    return _settled(found)


def _settled(found: dict[str, Any]) -> dict[str, Any]:
    """What two flags say of one thing."""
    caches_prefixes = found.pop("enable_prefix_caching", None)
    if caches_prefixes:
        found.setdefault("mamba_cache_mode", "align")
    elif caches_prefixes is not None:  # "Mamba cache mode is set to 'none' when prefix caching is disabled"
        found["mamba_cache_mode"] = "none"
    backend = found.pop("attention_config", {}).get("backend")
    if backend is not None:
        found.setdefault("attention_backend", str(backend))
    dtype = found.pop("dtype", None)
    if dtype is not None:  # it stands over what config.json says
        found["hf_overrides"] = {**found.get("hf_overrides", {}), "dtype": dtype}
    return found


def _in_full(flag: str) -> str:
    """An abbreviation of one flag alone, which the engine's parser takes for it."""
    known = {*_VALUES, *_SWITCHES, *_REFUSED, _SKIPPED, *(f"--no-{name[2:]}" for name in _SWITCHES)}
    if flag in known or not flag.startswith("--"):
        return flag
    meant = [name for name in known if name.startswith(flag)]
    return meant[0] if len(meant) == 1 else flag


def _placed(below: object, key: str, value: object) -> dict[str, Any]:
    """The object with a value under a.b.c."""
    found = dict(below) if isinstance(below, Mapping) else {}
    name, dot, rest = key.partition(".")
    found[name] = _placed(found.get(name), rest, value) if dot else value
    return found


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    """(flag with dashes, key below it, value); the value is None where the next word is another flag."""
    for index, word in enumerate(arguments):
        if not word.startswith("-"):
            continue
        written, equals, value = word.partition("=")
        named = _SHORT.get(written, written)
        name, dot, key = named.partition(".")
        flag = _SHORT.get(name.replace("_", "-"), name.replace("_", "-"))
        if equals:
            yield flag, key if dot else "", value
            continue
        following = arguments[index + 1] if index + 1 < len(arguments) else None
        is_flag = following is not None and following.startswith("-") and not _is_number(following)
        yield flag, key if dot else "", None if is_flag else following


def _listed(flag: str, arguments: Sequence[str]) -> list[str]:
    """The words behind the last of a flag that takes several."""
    found: list[str] = []
    for index, word in enumerate(arguments):
        written, equals, value = word.partition("=")
        if written.replace("_", "-") != flag:
            continue
        found = [value] if equals else []
        for following in arguments[index + 1 :] if not equals else ():
            if following.startswith("-"):
                break
            found.append(following)
    return found


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()


def _integer(flag: str, text: str) -> int:
    if not text.strip().isdecimal() or not text.isascii():
        raise _unreadable(flag, text, "it is no whole number")
    return int(text)


def _human_integer(flag: str, text: str) -> int:
    """Also 8k and 8K, as --max-model-len."""
    try:
        return parse_length(text, flag)
    except ServingError as error:
        raise _unreadable(flag, text, "it is no whole number") from error


def _share(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise _unreadable(flag, text, "it is no number") from error


def _word(flag: str, text: str) -> str:
    return text


def _model_dtype(flag: str, text: str) -> str | None:
    if text not in _DTYPES:
        raise _unreadable(flag, text, f"known are {', '.join(_DTYPES)}")
    return _DTYPES[text]


def _state_dtype(flag: str, text: str) -> str | None:
    if text not in _STATE_DTYPES:
        raise _unreadable(flag, text, f"known are {', '.join(_STATE_DTYPES)}")
    return None if text == "auto" else text


def _object(flag: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _unreadable(flag, text, "it is no JSON") from error
    if not isinstance(value, dict):
        raise _unreadable(flag, text, "it is no JSON object")
    return value


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _unreadable(flag: str, text: str | None, why: str) -> ServingError:
    return ServingError(
        f"{flag} cannot be taken into the budget",
        where="arguments",
        why=f"got {text!r}: {why}" if text is not None else why,
        remedy=f"Correct {flag}, or leave it out",
    )


# Flags with a value -> (the option of this collection, how the value is read).
_VALUES: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "--tensor-parallel-size": ("tensor_parallel_size", _integer),
    "--pipeline-parallel-size": ("pipeline_parallel_size", _integer),
    "--decode-context-parallel-size": ("decode_context_parallel_size", _integer),
    "--max-model-len": ("max_model_len", _word),
    "--max-num-batched-tokens": ("max_num_batched_tokens", _human_integer),
    "--max-num-seqs": ("max_num_seqs", _human_integer),
    "--block-size": ("block_size", _integer),
    "--kv-cache-dtype": ("kv_cache_dtype", _word),
    "--kv-cache-memory-bytes": ("available_kv_cache_bytes", _human_integer),
    "--gpu-memory-utilization": ("gpu_memory_utilization", _share),
    "--attention-backend": ("attention_backend", _word),
    "--attention-config": ("attention_config", _object),
    "--dtype": ("dtype", _model_dtype),
    "--mamba-cache-mode": ("mamba_cache_mode", _word),
    "--mamba-cache-dtype": ("mamba_cache_dtype", _state_dtype),
    "--mamba-ssm-cache-dtype": ("mamba_ssm_cache_dtype", _state_dtype),
    "--speculative-config": ("speculative_config", _object),
    "--hf-overrides": ("hf_overrides", _object),
}


def overridden(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with --hf-overrides: a value replaces a value, an object changes the object of that name."""
    found = dict(config)
    for name, value in changes.items():
        below = found.get(name)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        found[name] = overridden(below, value) if both and isinstance(below, Mapping) else value
    return found


def read_environment(environment: Mapping[str, Any]) -> tuple[tuple[int, ...], bool | None]:
    """(layers of each pipeline stage, whether CUDA graphs are estimated); empty and None where nothing is said.

    Raises ServingError for a partition that is no list of numbers, as the engine does.
    """
    partition = environment.get("VLLM_PP_LAYER_PARTITION")
    layers: tuple[int, ...] = ()
    if partition not in (None, ""):
        written = [part.strip() for part in str(partition).split(",")]
        if not all(part.isdecimal() and part.isascii() and int(part) > 0 for part in written):
            raise ServingError(
                "VLLM_PP_LAYER_PARTITION cannot be read",
                where="environment",
                why=f"got {partition!r}",
                remedy="Give the layers of each pipeline stage with commas between them, such as 31,30",
            )
        layers = tuple(int(part) for part in written)
    estimates = environment.get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    return layers, None if estimates in (None, "") else str(estimates).strip().lower() in ("1", "true")
