# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which values have to change so that a checkpoint no longer asks for a quantized KV cache.

A value becomes null and its key stays: vLLM (0.15 to 0.33) refuses an NVFP4 or MXFP8 block in hf_quant_config.json
that lacks `kv_cache_quant_algo`, and takes null for "not quantized" wherever it looks for the key.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ServingError
from .documents import Contents, Quantization, interpret
from .json_document import split_pointer
from .quantization import Declaration, declarations_in, effective_block
from .resolver_rules import ResolverRules

MODEL_DTYPE = "auto"


@dataclass(frozen=True)
class Edit:
    """One value that changes."""

    pointer: str
    before: Any
    after: Any

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def model_dtype_edits(contents: Contents, rules: ResolverRules) -> dict[str, list[Edit]]:
    """The edits per file after which `--kv-cache-dtype auto` is the model's dtype.

    Every declaration of an 8- or 4-bit float cache goes, whether or not it is the one that counts today: another
    release, or a lost block, would make it count. A value that vLLM does not know stays, unless it has an effect.
    """
    edited: dict[str, Any] = copy.deepcopy(dict(contents))
    edits: dict[str, list[Edit]] = {}

    def drop(declaration: Declaration) -> None:
        edits.setdefault(declaration.file, []).append(Edit(declaration.pointer, declaration.value, None))
        *parents, key = split_pointer(declaration.pointer)
        holder = edited[declaration.file]
        for token in parents:
            holder = holder[token]
        holder[key] = None

    before = interpret(contents, rules)
    _refuse_missing_fields(before, rules)
    for block in before.blocks:
        for declaration in declarations_in(block):
            if declaration.kind in ("fp8", "nvfp4"):
                drop(declaration)
    after = interpret(edited, rules)
    while decisive := _decisive(after):
        drop(decisive)
        after = interpret(edited, rules)
    if after.resolution.dtype != MODEL_DTYPE:
        raise ServingError(
            f"after every edit the engine would still store the KV cache as {after.resolution.dtype}",
            where=after.resolution.decided_by,
            remedy="Pass --kv-cache-dtype to the engine and leave the files as they are",
        )
    return edits


def _decisive(quantization: Quantization) -> Declaration | None:
    """The key that still quantizes the KV cache, or that keeps vLLM from starting: one of no known kind."""
    stumbling = {item.where for item in quantization.refusals if item.by_patch}
    for block in quantization.blocks:
        for declaration in declarations_in(block):
            decides = declaration.where == quantization.resolution.decided_by
            if (decides and quantization.resolution.dtype != MODEL_DTYPE) or any(
                where == declaration.where or where.startswith(f"{declaration.where}/") for where in stumbling
            ):
                return declaration
    return None


def _refuse_missing_fields(quantization: Quantization, rules: ResolverRules) -> None:
    """Refuse a checkpoint that vLLM cannot load because a key was deleted from the block that it reads."""
    block = effective_block(quantization.blocks)
    if block is None or not block.method(rules).startswith("modelopt"):
        return
    missing = block.missing_fields()
    if missing:
        raise ServingError(
            "the quantization block lacks what vLLM demands of it",
            where=f"{block.file}#{block.inner[0]}",
            why=f"{', '.join(missing)} not there, and {block.algo} weights are not loaded without",
            remedy="Download the file again (blackwell.serving.hf_shard_download): a key may be null, but not absent",
        )
