# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How many bytes each tensor of a checkpoint has, by the headers of its safetensors files."""

from __future__ import annotations

import json
from pathlib import Path

from .safetensors_header import MAX_HEADER_BYTES


def tensor_sizes(folder: Path) -> dict[str, int] | None:
    """{tensor: bytes} of all safetensors files in the folder, or None where one of them has no readable header.

    Whether the files are whole is another question (shards.inspect_shards asks it); here a header is enough.
    """
    sizes: dict[str, int] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as stream:
                length = int.from_bytes(stream.read(8), "little")
                if not 0 < length <= MAX_HEADER_BYTES:
                    return None
                tensors = json.loads(stream.read(length))
            for name, tensor in tensors.items():
                if name != "__metadata__":
                    begin, end = tensor["data_offsets"]
                    sizes[name] = int(end) - int(begin)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
    return sizes or None
