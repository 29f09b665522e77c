# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The header reader under anything that a file can hold: the header, or one declared error, in bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from math import prod
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.safetensors_header import (
    BITS,
    SafetensorsHeader,
    read_header,
)
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FUZZ = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def checkpoints(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """(header, bytes of data) of a whole file: any dtypes and shapes, any order in the text."""
    end = 0
    header: dict[str, Any] = {}
    for name in draw(
        st.lists(st.text(max_size=6).filter(lambda name: name != "__metadata__"), unique=True, max_size=4)
    ):
        dtype = draw(st.sampled_from(sorted(BITS)))
        shape = draw(st.lists(st.integers(0, 6), max_size=3))
        if prod(shape) * BITS[dtype] % 8:
            shape.append(4)
        size = prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    if draw(st.booleans()):
        header["__metadata__"] = draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2))
    return dict(draw(st.permutations(list(header.items())))), end


def file_of(header: Any, data_bytes: int) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data_bytes)


def read(folder: Path, data: bytes) -> SafetensorsHeader | None:
    """The header, or None for the declared error; any other exception is the test's failure."""
    path = folder / "f.safetensors"
    path.write_bytes(data)
    try:
        return read_header(path)
    except ServingError as error:
        assert error.where == str(path)
        assert error.why
        return None


def is_whole(data: bytes) -> bool:
    """The format's rules once more, for a file that was accepted."""
    length = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8 : 8 + length])
    metadata = tensors.pop("__metadata__", None)
    if metadata is not None and not all(isinstance(value, str) for value in metadata.values()):
        return False
    spans = []
    for info in tensors.values():
        begin, stop = info["data_offsets"]
        numbers = (begin, stop, *info["shape"])
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
            return False
        if prod(info["shape"]) * BITS[info["dtype"]] != (stop - begin) * 8:
            return False
        spans.append((begin, stop))
    ends = [0, *(stop for _begin, stop in sorted(spans))]
    return [begin for begin, _stop in sorted(spans)] == ends[:-1] and 8 + length + ends[-1] == len(data)


@FUZZ
@given(checkpoints())
def test_what_is_whole_is_read(tmp_path: Path, checkpoint: tuple[dict[str, Any], int]) -> None:
    header, data_bytes = checkpoint
    found = read(tmp_path, file_of(header, data_bytes))
    assert found is not None
    assert (sorted(found.names), found.data_bytes) == (sorted(set(header) - {"__metadata__"}), data_bytes)


@FUZZ
@given(st.binary(max_size=400) | JSON.map(lambda value: file_of(value, 0)))
def test_anything_else_is_refused_or_whole(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path, data) is None or is_whole(data)


@FUZZ
@given(checkpoints(), st.data())
def test_one_odd_member(tmp_path: Path, checkpoint: tuple[dict[str, Any], int], data: st.DataObject) -> None:
    header, data_bytes = checkpoint
    names = sorted(set(header) - {"__metadata__"})
    if data.draw(st.booleans()) and names:
        member = data.draw(st.sampled_from(["dtype", "shape", "data_offsets"]))
        odd = JSON | st.lists(st.integers() | st.floats() | st.text(max_size=3) | st.booleans(), min_size=2, max_size=2)
        header[data.draw(st.sampled_from(names))][member] = data.draw(odd)
    else:
        header[data.draw(st.sampled_from([*names, "__metadata__", "new"]))] = data.draw(JSON)
    content = file_of(header, data_bytes)
    assert read(tmp_path, content) is None or is_whole(content)


@FUZZ
@given(checkpoints(), st.data())
def test_one_odd_byte(tmp_path: Path, checkpoint: tuple[dict[str, Any], int], data: st.DataObject) -> None:
    content = bytearray(file_of(*checkpoint))
    place = data.draw(st.integers(0, len(content) - 1))
    change = data.draw(st.sampled_from(["replace", "insert", "delete", "cut"]))
    if change == "replace":
        content[place] = data.draw(st.integers(0, 255))
    elif change == "insert":
        content.insert(place, data.draw(st.integers(0, 255)))
    else:
        del content[place : place + 1 if change == "delete" else len(content)]
    assert read(tmp_path, bytes(content)) is None or is_whole(bytes(content))


def with_shape(shape: str) -> bytes:
    return b'{"t": {"dtype": "U8", "shape": ' + shape.encode() + b', "data_offsets": [0, 1]}}'


@pytest.mark.parametrize(
    "header",
    [
        with_shape('[400000000, "a"]'),
        with_shape(f"[{10**400}, 1.5]"),
        with_shape("[" + ", ".join(["9" * 4000] * 500) + "]"),
        with_shape("[" + ", ".join(["9" * 18] * 100_000) + "]"),
        with_shape("9" * 5000),
        with_shape("[-1, -1]"),
        with_shape("[1.0]"),
        with_shape("[true]"),
        with_shape("{}"),
        with_shape("[" * 100_000),
        b'{"t": {"dtype": "U8", "shape": [1], "data_offsets": [false, true]}}',
        b'{"t": {"dtype": "U8", "shape": [1], "data_offsets": [0.0, 1.0]}}',
        b'{"t": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1], "more": NaN}}',
        b'{"t": {"dtype": "U8", "shape": [1], "data_offsets": [0, Infinity]}}',
        b'{"t": {"dtype": ["U8"], "shape": [1], "data_offsets": [0, 1]}}',
        b'{"t": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "__metadata__": {"a": 1}}',
        b'{"t": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "__metadata__": []}',
    ],
    ids=range(17),
)
def test_hostile_headers_cost_neither_memory_nor_time(tmp_path: Path, header: bytes) -> None:
    tracemalloc.start()
    try:
        assert read(tmp_path, file_of(header, 1)) is None
        assert tracemalloc.get_traced_memory()[1] < 20 * len(header) + 1_000_000
    finally:
        tracemalloc.stop()
