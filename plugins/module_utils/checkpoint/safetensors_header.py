# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The structure of one safetensors file, checked without reading its data.

Rules of the format (safetensors, README and src/tensor.rs): 8 bytes little-endian header length N <= 100,000,000, N
bytes of a JSON object, then the data; the tensors in order of offset fill the data without a hole or an overlap, each
as long as its shape and dtype say, and the file ends where the last one does. Sizes are unsigned integers of 64 bits.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, NoReturn

from ..errors import ServingError

MAX_HEADER_BYTES = 100_000_000
MAX_SIZE = 2**64 - 1
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(
        ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"),
        8,
    ),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}


@dataclass(frozen=True)
class SafetensorsHeader:
    """names: the tensors' names in file order; data_bytes: their bytes together."""

    names: list[str]
    data_bytes: int


def read_header(path: str | os.PathLike[str]) -> SafetensorsHeader:
    """Read and check the header; a ServingError says in `why` what breaks the format."""
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        start = stream.read(8)
        if start and LFS_POINTER.startswith(start):
            raise _broken(path, "it is a Git LFS pointer, a text of some hundred bytes that stands for the weights")
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > MAX_HEADER_BYTES or 8 + length > size:
            raise _broken(path, f"its header would need {8 + length} bytes and the file has {size}")
        header = stream.read(length)
    try:
        tensors: Any = json.loads(header.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"its header is not JSON: {error}") from error
    if not isinstance(tensors, dict):
        raise _broken(path, "its header is not a JSON object")
    metadata = tensors.pop("__metadata__", None)
    if metadata is not None and not _maps_text_to_text(metadata):
        raise _broken(path, "its __metadata__ does not map text to text")
    data_bytes = _data_bytes(path, tensors)
    if 8 + length + data_bytes != size:
        raise _broken(path, f"its tensors end at byte {8 + length + data_bytes} and the file at {size}")
    return SafetensorsHeader(list(tensors), data_bytes)


def _data_bytes(path: str | os.PathLike[str], tensors: dict[str, Any]) -> int:
    """Where the last tensor ends, after a check that the tensors follow each other without a gap."""
    try:
        end = 0
        for begin, stop, name in sorted(_span(name, info) for name, info in tensors.items()):
            if begin != end or (stop - begin) * 8 != _bits(tensors[name]):
                raise _broken(path, f"the place of tensor {name}, bytes {begin} to {stop}, does not fit")
            end = stop
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(path, f"its header is damaged: {type(error).__name__}: {error}") from error
    return end


def _span(name: str, info: Any) -> tuple[int, int, str]:
    begin, stop = info["data_offsets"]
    return _size(begin), _size(stop), name


def _bits(info: Any) -> int:
    """Of all elements together; the product stays small whatever the numbers in the file are."""
    if not isinstance(info["shape"], list):
        raise TypeError("a shape is not a list")
    bits = BITS[info["dtype"]]
    for dimension in info["shape"]:
        bits *= _size(dimension)
        if bits > 8 * MAX_SIZE:
            raise ValueError("a shape is larger than any file")
    return bits


def _size(number: Any) -> int:
    """JSON's true, 1.0, -1 and "1" are no sizes, although Python would count with them."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError("a size is not an integer")
    if not 0 <= number <= MAX_SIZE:
        raise ValueError("a size is out of range")
    return number


def _maps_text_to_text(metadata: Any) -> bool:
    return isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _broken(path: str | os.PathLike[str], why: str) -> ServingError:
    return ServingError(
        "the file is not a whole safetensors file",
        where=os.fspath(path),
        why=why,
        remedy="Download it again (blackwell.serving.hf_shard_download)",
    )
