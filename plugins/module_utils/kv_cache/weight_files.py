# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Whether a folder's weight files can say how large the weights are.

Shards that are not there yet, and Git LFS pointers in their place, would make a model small that is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..checkpoint.json_document import parse_object
from ..checkpoint.safetensors_header import LFS_POINTER
from ..checkpoint.shards import INDEX, read_index
from ..errors import ServingError

_NUMBERED = re.compile(r"(.*-)(\d+)(-of-)(\d+)(\.safetensors)", re.ASCII)
_MOST_SHARDS = 10_000
_POINTER_BYTES = 1024  # a pointer has some hundred


def size_of_files(folder: Path) -> int | None:
    """Bytes of all safetensors files; None where there are none. Raises ServingError where they are not the weights."""
    sizes = {path: path.stat().st_size for path in sorted(folder.glob("*.safetensors")) if path.is_file()}
    missing = _missing(folder, {path.name for path in sizes})
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise _not_whole(folder, f"missing: {missing[0]}{others}")
    for path, size in sizes.items():
        if 0 < size < _POINTER_BYTES and path.read_bytes().startswith(LFS_POINTER):
            raise _not_whole(folder, f"{path.name} is a Git LFS pointer, a text that stands for the weights")
    return sum(sizes.values()) or None


def _missing(folder: Path, names: set[str]) -> list[str]:
    """By the numbers in the names; where these leave gaps, by the index, which is large and not read otherwise."""
    gaps = sorted(_implied(names) - names)
    index = folder / INDEX
    if not gaps or not index.is_file():
        return gaps
    weight_map, _total = read_index(parse_object(index.read_bytes(), str(index)).value, str(index))
    return sorted(set(weight_map.values()) - names)


def _implied(names: Iterable[str]) -> set[str]:
    """model-00002-of-00003.safetensors says that there are two others."""
    found: set[str] = set()
    for start, number, of, total, end in {
        (match[1], len(match[2]), match[3], match[4], match[5]) for match in map(_NUMBERED.fullmatch, names) if match
    }:
        if int(total) <= _MOST_SHARDS:
            found.update(f"{start}{each:0{number}}{of}{total}{end}" for each in range(1, int(total) + 1))
    return found


def _not_whole(folder: Path, why: str) -> ServingError:
    return ServingError(
        "the checkpoint is not whole",
        where=str(folder),
        why=why,
        remedy="Download the rest (blackwell.serving.hf_shard_download), or give weights_bytes",
    )
