# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The weight files of a checkpoint: which ones there should be, which are whole, and what they hold."""

from __future__ import annotations

import math
import mmap
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ServingError
from .json_document import kind_of, parse_object
from .safetensors_header import read_header

INDEX = "model.safetensors.index.json"
KV_SCALE_SUFFIXES = (".k_scale", ".v_scale", ".kv_scale", ".k_cache.scale", ".v_cache.scale")
# Such a name as a key of JSON text. The literal stands first, and the first look back is the cheapest refusal: an index
# of 30 MB is searched in milliseconds.
KV_SCALE_KEY = re.compile(
    rb'scale"(?<=[kve][_.]scale")(?:(?<=\.[kv]_scale")|(?<=\.kv_scale")|(?<=\.[kv]_cache\.scale"))'
)


@dataclass(frozen=True)
class Shards:
    """The safetensors files at the top of a checkpoint.

    expected: how many files the index names; without an index, how many there are
    present: how many of these exist
    missing, unlisted: file names that the index has and the folder lacks, and the other way round
    corrupt: [{path, why}] of files that are not whole, or that disagree with the index
    tensors, kv_scale_tensors: how many tensors the index, or the files, name; of these KV-cache scales
    data_bytes: bytes of all tensors together, or what the index states while files are missing; None if unknown
    """

    expected: int
    present: int
    missing: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    corrupt: list[dict[str, str]] = field(default_factory=list)
    tensors: int = 0
    kv_scale_tensors: int = 0
    data_bytes: int | None = None


def inspect_shards(folder: Path) -> Shards:
    """Compare the index with the folder and read the header of every shard."""
    on_disk = sorted(path.name for path in folder.glob("*.safetensors"))
    index_path = folder / INDEX
    if not index_path.is_file():
        return _inspect(folder, on_disk, on_disk, None, None)
    weight_map, total_size = read_index(parse_object(index_path.read_bytes(), str(index_path)).value, str(index_path))
    return _inspect(folder, on_disk, sorted(set(weight_map.values())), weight_map, total_size)


def read_index(index: Mapping[str, Any], name: str = INDEX) -> tuple[dict[str, str], int | None]:
    """The index's weight_map, tensor to file, and its total size in bytes where it states one."""
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise ServingError(
            f"the index holds {kind_of(weight_map)} where an object of file names is expected",
            where=f"{name}#/weight_map",
            remedy="Download the file again (blackwell.serving.hf_shard_download)",
        )
    outside = next((file for file in weight_map.values() if "/" in file or file in ("", ".", "..")), None)
    if outside is not None:
        raise ServingError(f"the index names {outside!r}, which is no file name", where=f"{name}#/weight_map")
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(total, float):
        total = int(total) if math.isfinite(total) else None
    return weight_map, total if isinstance(total, int) and not isinstance(total, bool) else None


def is_kv_scale(tensor: str) -> bool:
    return tensor.endswith(KV_SCALE_SUFFIXES)


def count_kv_scales(folder: Path) -> int | None:
    """How many KV scales the weights hold; None where nothing tells.

    The index is searched, not parsed: it may have 30 MB, and this is asked on every run of a patch.
    """
    try:
        with open(folder / INDEX, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return sum(1 for _match in KV_SCALE_KEY.finditer(text))
    except ValueError:
        return None  # an empty file cannot be mapped
    except FileNotFoundError:
        shards = inspect_shards(folder)
        return shards.kv_scale_tensors if shards.present and not shards.corrupt else None


def _inspect(
    folder: Path,
    on_disk: list[str],
    expected: list[str],
    weight_map: Mapping[str, str] | None,
    total_size: int | None,
) -> Shards:
    present = [name for name in expected if (folder / name).exists()]
    listed: dict[str, set[str]] = {name: set() for name in expected}
    for tensor, name in (weight_map or {}).items():
        listed[name].add(tensor)
    corrupt: list[dict[str, str]] = []
    found: list[str] = []
    data_bytes = 0
    for name in present:
        try:
            header = read_header(folder / name)
        except ServingError as error:
            corrupt.append({"path": name, "why": error.why or error.what})
            continue
        found += header.names
        data_bytes += header.data_bytes
        if weight_map is not None and set(header.names) != listed[name]:
            corrupt.append({"path": name, "why": _disagreement(set(header.names), listed[name])})
    complete = len(present) == len(expected) and not corrupt
    tensors: Iterable[str] = weight_map if weight_map is not None else found
    return Shards(
        expected=len(expected),
        present=len(present),
        missing=[name for name in expected if name not in present],
        unlisted=[name for name in on_disk if name not in listed],
        corrupt=corrupt,
        tensors=len(list(tensors)),
        kv_scale_tensors=sum(map(is_kv_scale, tensors)),
        data_bytes=data_bytes if complete and expected else total_size,
    )


def _disagreement(there: set[str], listed: set[str]) -> str:
    parts = []
    for names, what in ((listed - there, "lacks"), (there - listed, "holds beyond the index")):
        if names:
            parts.append(f"{what} {len(names)} tensors, for example {min(names)}")
    return "it " + " and ".join(parts)
