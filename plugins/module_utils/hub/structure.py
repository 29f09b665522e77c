# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Whether index, shards and headers say the same: every tensor of the index is in its shard, and no other one is.

The bytes of a shard may be exactly those that the Hub publishes and still not fit the index beside them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import ServingError
from .index import INDEX


class Header(Protocol):
    """Of one safetensors file: its tensors' names, and their bytes together."""

    @property
    def names(self) -> list[str]: ...

    @property
    def data_bytes(self) -> int: ...


# Of a set of names, how many they are and the sum of their hashes: a checkpoint has hundreds of thousands.
Outline = tuple[int, int]


@dataclass
class Structure:
    """Reads each header once. `read_header` raises a ServingError for a file that is not whole."""

    dest: Path
    read_header: Callable[[Path], Header]
    _outlines: dict[str, Outline] = field(default_factory=dict)
    _data_bytes: dict[str, int] = field(default_factory=dict)

    def look(self, path: str) -> None:
        """Read and check the header of a shard; raises a ServingError."""
        header = self.read_header(self.dest / path)
        self._outlines[path] = len(header.names), sum(map(hash, header.names))
        self._data_bytes[path] = header.data_bytes

    def refuse_disagreement(self, shards: list[str], notes: list[str], *, indexed: bool) -> None:
        """Read the shards (paths; all on disk) and compare them with the index.

        indexed: the index is of this commit and is wanted; any other one that may be on disk says nothing about it
        """
        broken: list[dict[str, str]] = []
        for path in shards:
            if path not in self._outlines:
                try:
                    self.look(path)
                except ServingError as error:
                    broken.append({"path": path, "why": error.why or error.what})
        if indexed:
            broken += self._against_index(shards, notes)
        if broken:
            raise ServingError(
                "shards and index disagree" if indexed else "shards are not whole",
                where=str(self.dest),
                why="; ".join(f"{entry['path']}: {entry['why']}" for entry in broken[:5]),
                remedy="The repository publishes it so: ask the publisher, choose another revision, or exclude it",
                facts={"disagreements": broken},
            )

    def _against_index(self, shards: list[str], notes: list[str]) -> list[dict[str, str]]:
        index = json.loads((self.dest / INDEX).read_bytes())
        weight_map: dict[str, str] = index["weight_map"]
        sums = dict.fromkeys(weight_map.values(), 0)
        for tensor, path in weight_map.items():
            sums[path] += hash(tensor)
        listed = {path: (count, sums[path]) for path, count in Counter(weight_map.values()).items()}
        self._note_total(index, listed, notes)
        unlisted = sorted(path for path in shards if path not in listed and "/" not in path)
        if unlisted:
            notes.append(f"weights of the repository that its index does not name: {', '.join(unlisted)}")
        left_out = sorted(listed.keys() - set(shards))
        if left_out:
            notes.append(f"include or exclude leaves out shards of the index: {', '.join(left_out)}")
        differing = [
            path for path in shards if path in listed and self._outlines.get(path, listed[path]) != listed[path]
        ]
        return [{"path": path, "why": self._difference(path, weight_map)} for path in differing]

    def _note_total(self, index: dict[str, Any], listed: dict[str, Outline], notes: list[str]) -> None:
        """Some exporters count differently, so that another sum is no error."""
        metadata = index.get("metadata")
        stated = metadata.get("total_size") if isinstance(metadata, dict) else None
        if stated is not None and listed.keys() <= self._data_bytes.keys():
            found = sum(self._data_bytes[path] for path in listed)
            if stated != found:
                notes.append(f"{INDEX} states a total_size of {stated} bytes and the tensors have {found}")

    def _difference(self, path: str, weight_map: dict[str, str]) -> str:
        there = set(self.read_header(self.dest / path).names)
        listed = {tensor for tensor, file in weight_map.items() if file == path}
        parts = [
            f"{what} {len(names)} tensors, for example {min(names)}"
            for names, what in ((listed - there, "lacks"), (there - listed, "holds beyond the index"))
            if names
        ]
        return "it " + " and ".join(parts)
