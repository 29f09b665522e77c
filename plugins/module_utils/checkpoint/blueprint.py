# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Everything that checkpoint_info tells about a checkpoint, from its folder or from its two JSON files as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .architecture import describe
from .documents import Contents, Quantization, checked_contents, interpret, places_below, read_documents
from .patch_notes import notes_on
from .quantization import CONFIG, Block, weights_block
from .resolver_rules import ResolverRules
from .shards import Shards, inspect_shards, is_kv_scale, read_index
from .suggestions import remote_code, suggest


def blueprint_of_folder(folder: Path, rules: ResolverRules) -> dict[str, Any]:
    """The blueprint of a checkpoint on this host. Damaged or missing shards are reported, not refused."""
    documents = read_documents(folder)
    with places_below(folder):
        shards = inspect_shards(folder)
        known_scales = None if shards.tensors == 0 else shards.kv_scale_tensors
        contents = {name: document.value for name, document in documents.items()}
        result = _blueprint(contents, rules, known_scales)
    result["weights_bytes"] = shards.data_bytes
    result["shards"] = _shard_report(shards)
    result["suggested"] = suggest(contents[CONFIG], folder)
    result["remote_code"] = remote_code(folder)
    if shards.missing or shards.corrupt:
        result["notes"].append(
            f"the checkpoint is not whole: {len(shards.missing)} shards missing, {len(shards.corrupt)} corrupt"
        )
    return result


def blueprint_of_data(
    config: Mapping[str, Any],
    hf_quant_config: Mapping[str, Any] | None,
    index: Mapping[str, Any] | None,
    rules: ResolverRules,
) -> dict[str, Any]:
    """The blueprint from the files' contents, before anything is downloaded; what only weights tell is None."""
    contents = checked_contents({"config.json": config, "hf_quant_config.json": hf_quant_config})
    weight_map, total_size = read_index(index) if index is not None else ({}, None)
    scales = None if index is None else sum(map(is_kv_scale, weight_map))
    result = _blueprint(contents, rules, scales)
    result["weights_bytes"] = total_size
    result["shards"] = None
    result["suggested"] = suggest(config, None)
    result["remote_code"] = []
    return result


def _blueprint(contents: Contents, rules: ResolverRules, scale_tensors: int | None) -> dict[str, Any]:
    quantization = interpret(contents, rules)
    result = asdict(describe(contents[CONFIG]))
    result["quantization"] = _quantization_report(quantization, rules, scale_tensors)
    result["notes"] = notes_on(quantization, rules, scale_tensors)
    if result["attention"] == "unknown":
        result["notes"].append(
            f"model type {result['text_model_type']} has a latent or compressed cache that vLLM 0.33 does not know as "
            "MLA: no KV budget can be trusted"
        )
    return result


def _quantization_report(quantization: Quantization, rules: ResolverRules, scale_tensors: int | None) -> dict[str, Any]:
    block = weights_block(quantization.blocks)
    return {
        "method": (block.method(rules) or None) if block is not None else None,
        "algo": block.algo if block is not None else None,
        "group_size": _group_size(block) if block is not None else None,
        "kv_cache": _kv_cache_report(quantization, scale_tensors),
        "refusals": [
            {"where": item.where, "why": item.why, "by_patch": item.by_patch} for item in quantization.refusals
        ],
    }


def _group_size(block: Block) -> int | None:
    inner = block.inner[1]
    groups = inner.get("config_groups")
    candidates = [inner, *(groups.values() if isinstance(groups, Mapping) else ())]
    for candidate in candidates:
        weights = candidate.get("weights") if isinstance(candidate, Mapping) else None
        for holder in (candidate, weights):
            size = holder.get("group_size") if isinstance(holder, Mapping) else None
            if isinstance(size, int) and not isinstance(size, bool):
                return size
    return None


def _kv_cache_report(quantization: Quantization, scale_tensors: int | None) -> dict[str, Any]:
    declared = quantization.declarations
    decided_by = quantization.resolution.decided_by
    told = next(
        (item for item in declared if item.where == decided_by),
        next((item for item in declared if item.kind != "none"), declared[0] if declared else None),
    )
    return {
        "declared": told.value if told is not None else None,
        "where": told.where if told is not None else None,
        "wins": told is not None and told.where == decided_by,
        "has_scales": None if scale_tensors is None else scale_tensors > 0,
        "scale_tensors": scale_tensors,
        "auto_resolves_to": quantization.resolution.dtype,
        "decided_by": decided_by,
        "overrides_flag": quantization.resolution.overrides_flag,
        "declarations": [
            {"where": item.where, "declared": item.value, "kind": item.kind, "wins": item.where == decided_by}
            for item in declared
        ],
    }


def _shard_report(shards: Shards) -> dict[str, Any]:
    report = asdict(shards)
    del report["data_bytes"], report["kv_scale_tensors"]
    return report
