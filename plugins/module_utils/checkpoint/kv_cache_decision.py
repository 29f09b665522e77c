# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which --kv-cache-dtype to pass, and whether the checkpoint's files have to be patched as well.

The flag is preferred: an explicit value means that vLLM does not consult the checkpoint. It does not suffice where

- a compressed-tensors kv_cache_scheme overrides it (attention other than MLA, before 0.22);
- a KV-cache setting keeps vLLM from starting, whatever the flag says (a scheme or an algorithm of a form that it does
  not take), or binds it to the few attention backends with scales per head (strategy attn_head, from 0.17);
- no value of the flag names the model's dtype: float16 before 0.18, or a dtype that no file states.

And a patch alone does not suffice where the architecture turns auto into fp8 by itself (ResolverRules).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..errors import ServingError
from .architecture import stated_dtype
from .documents import Contents, Quantization, interpret
from .edits import model_dtype_edits
from .quantization import CONFIG, weights_block
from .resolver_rules import ResolverRules

AUTO = "auto"
WANTED = ("auto", "model_dtype", "checkpoint")
FLOATS = ("float16", "bfloat16")
SAME = {"fp8_e4m3": "fp8"}


@dataclass(frozen=True)
class Decision:
    """What to do about the KV cache's dtype.

    kv_cache_dtype: the value for --kv-cache-dtype
    must_patch: the files have to be in the state kv_cache=model_dtype of quant_config_patch, else as published
    stored_as: the dtype that the cache then has; None: the model's own, which no file states
    decided_by: the place in the checkpoint (file#pointer) that the reason is about; None where it says nothing
    """

    kv_cache_dtype: str
    must_patch: bool
    stored_as: str | None
    why: str
    decided_by: str | None


def decide(
    contents: Contents,
    rules: ResolverRules,
    *,
    wanted: str = "auto",
    recommended: str | None = None,
    supported: Collection[str] | None = None,
    compute_capability: str | None = None,
) -> Decision:
    """The decision for one checkpoint and one vLLM.

    contents: config.json and hf_quant_config.json as they were published, not as a patch left them
    wanted: auto, what the engine recommends; model_dtype, files that are right by themselves; checkpoint, as published
    recommended: with auto, the KV-cache dtype that the attention probe recommends: a flag's value
    supported: the KV-cache dtypes that some attention backend serves on the card; None if not asked
    compute_capability: of the card, "12.0"; None counts as any
    Raises ServingError where vLLM does not start at all, or serves what is wanted on no backend.
    """
    if compute_capability is not None and not re.fullmatch(r"\d{1,2}\.\d", compute_capability):
        raise ServingError(
            f"{compute_capability!r} is no compute capability",
            where="compute_capability",
            remedy="Write it as gpu_info and nvidia-smi do, for example 12.0",
        )
    quantization = interpret(contents, rules)
    _refuse(quantization)
    own = served_dtype(contents)
    if wanted == "checkpoint":
        return _as_published(quantization, rules, own, supported)
    quantized = recommended if wanted == "auto" and recommended not in (AUTO, *FLOATS) else None
    if quantized is None:
        forced = quantization.auto_on_sm10x if (compute_capability or "10.0").startswith("10.") else None
        flag = _flag_for(own, rules, supported)
        if wanted == "model_dtype":
            return _files_by_themselves(contents, quantization, rules, own, flag, forced)
        return _by_flag(quantization, own, flag, forced)
    return _quantized(quantization, rules, quantized, supported)


def served_dtype(contents: Contents) -> str | None:
    """The dtype in which vLLM serves the model on a card of compute capability 8.0 or more; None if no file states it.

    float32 checkpoints are served in bfloat16.
    """
    dtype = {"half": "float16", "float": "float32"}.get(stated := stated_dtype(contents[CONFIG]) or "", stated)
    return "bfloat16" if dtype == "float32" else dtype or None


def _as_published(
    quantization: Quantization, rules: ResolverRules, own: str | None, supported: Collection[str] | None
) -> Decision:
    dtype = quantization.resolution.dtype
    decided_by = quantization.resolution.decided_by
    refusal = next((item for item in quantization.refusals if not item.chooses_backend), None)
    if refusal is not None:
        raise _error("vLLM does not start with the checkpoint as it was published", refusal.where, refusal.why)
    _refuse_nvfp4_with_mla(dtype, quantization, rules)
    if dtype != AUTO:
        _refuse_unserved(dtype, supported, decided_by)
        return Decision(AUTO, False, dtype, f"as published, the checkpoint asks for {dtype}", decided_by)
    return Decision(AUTO, False, own, "as published, the checkpoint asks for no quantized KV cache", decided_by)


def _files_by_themselves(
    contents: Contents,
    quantization: Quantization,
    rules: ResolverRules,
    own: str | None,
    flag: str,
    forced: str | None,
) -> Decision:
    edited = bool(model_dtype_edits(contents, rules))
    why = (
        "files that are right by themselves are wanted: without its KV-cache settings, auto is the model's dtype"
        if edited
        else "the files ask for no quantized KV cache: auto is the model's dtype"
    )
    if forced is None:
        return Decision(AUTO, edited, own, why, quantization.resolution.decided_by)
    why += f"; but this architecture turns auto into {forced} on compute capability 10.x, so the flag names the dtype"
    return Decision(flag, edited, own if flag != AUTO else forced, why, quantization.resolution.decided_by)


def _by_flag(quantization: Quantization, own: str | None, flag: str, forced: str | None) -> Decision:
    resolution = quantization.resolution
    refusal = next(iter(quantization.refusals), None)
    asks = f"the checkpoint asks for {resolution.dtype}"
    if refusal is not None:
        why = f"--kv-cache-dtype does not suffice: {refusal.why}"
        return Decision(flag, True, own, why, refusal.where)
    if resolution.overrides_flag:
        why = f"{asks}, and this vLLM lets its kv_cache_scheme win over --kv-cache-dtype"
        return Decision(flag, True, own, why, resolution.decided_by)
    if resolution.dtype != AUTO and flag == AUTO:
        why = f"{asks}, and no value of --kv-cache-dtype stands for the model's dtype ({own or 'not stated'})"
        return Decision(AUTO, True, own, why, resolution.decided_by)
    if resolution.dtype != AUTO:
        why = f"{asks}; --kv-cache-dtype {flag} wins over it and leaves the files as they are"
        return Decision(flag, False, own, why, resolution.decided_by)
    if forced is not None:
        why = f"this architecture turns auto into {forced} on compute capability 10.x; --kv-cache-dtype {flag} does not"
        return Decision(flag, False, own if flag != AUTO else forced, why, None)
    why = "the checkpoint asks for no quantized KV cache: auto is the model's dtype"
    return Decision(AUTO, False, own, why, resolution.decided_by)


def _quantized(
    quantization: Quantization, rules: ResolverRules, wanted: str, supported: Collection[str] | None
) -> Decision:
    """A quantized cache by explicit flag."""
    resolution = quantization.resolution
    _refuse_nvfp4_with_mla(wanted, quantization, rules)
    _refuse_unserved(wanted, supported, None)
    _refuse_e5m2(quantization, rules, wanted)
    refusal = next((item for item in quantization.refusals if not item.chooses_backend), None)
    if refusal is not None:
        why = f"vLLM does not start with the checkpoint as it was published: {refusal.why}"
        return Decision(wanted, True, wanted, why, refusal.where)
    if _same(resolution.dtype, wanted):
        why = f"the checkpoint asks for {resolution.dtype}, and the engine serves it on this card"
        return Decision(wanted, False, wanted, why, resolution.decided_by)
    asks = "no quantized KV cache" if resolution.dtype == AUTO else resolution.dtype
    if resolution.overrides_flag:
        why = f"the checkpoint asks for {asks}, and this vLLM lets that win over --kv-cache-dtype"
        return Decision(wanted, True, wanted, why, resolution.decided_by)
    why = f"the checkpoint asks for {asks}; --kv-cache-dtype {wanted} wins over it"
    return Decision(wanted, False, wanted, why, resolution.decided_by)


def _flag_for(own: str | None, rules: ResolverRules, supported: Collection[str] | None) -> str:
    """The flag's value that stands for the model's dtype: its name where this vLLM and a backend take it, else auto."""
    if own is not None and own in rules.float_flags and (supported is None or own in supported):
        return own
    if supported is not None and AUTO not in supported:
        raise _error(
            "no attention backend of this vLLM stores the KV cache in the model's dtype on this card",
            f"{CONFIG}#/dtype",
            f"the dtype is {own or 'not stated'}, and served are {', '.join(sorted(supported)) or 'none'}",
        )
    return AUTO


def _refuse(quantization: Quantization) -> None:
    for refusal in quantization.refusals:
        if not refusal.by_patch:
            raise ServingError(
                "this vLLM does not start with the checkpoint, whatever KV-cache dtype it is given",
                where=refusal.where,
                why=refusal.why,
                remedy="Use another vLLM release, or download the file again (blackwell.serving.hf_shard_download)",
            )


def _refuse_unserved(dtype: str, supported: Collection[str] | None, where: str | None) -> None:
    if supported is not None and not any(_same(dtype, item) for item in supported):
        raise _error(
            f"no attention backend of this vLLM serves a {dtype} KV cache on this card",
            where,
            f"served are {', '.join(sorted(supported)) or 'none'}",
        )


def _refuse_nvfp4_with_mla(dtype: str, quantization: Quantization, rules: ResolverRules) -> None:
    if dtype == "nvfp4" and quantization.use_mla and rules.nvfp4_refused_with_mla:
        where = quantization.resolution.decided_by
        raise _error("this vLLM does not start with an nvfp4 KV cache and MLA", where, "it refuses the two together")


def _refuse_e5m2(quantization: Quantization, rules: ResolverRules, wanted: str) -> None:
    block = weights_block(quantization.blocks)
    if wanted != "fp8_e5m2" or block is None:
        return
    method = block.method(rules)
    if method.startswith(("modelopt", "fp8", "quark")) or quantization.resolution.by_layer:
        raise _error("vLLM takes no fp8_e5m2 KV cache with this checkpoint", block.where, f"its method is {method}")


def _same(left: str, right: str) -> bool:
    return SAME.get(left, left) == SAME.get(right, right)


def _error(what: str, where: str | None, why: str) -> ServingError:
    return ServingError(what, where=where, why=why, remedy="Let the KV-cache dtype be decided (auto) or name another")
