# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which weight files a checkpoint needs, and whether they are whole, without reading their data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.safetensors_header import read_header
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.shards import (
    INDEX,
    count_kv_scales,
    inspect_shards,
)
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError


def safetensors(tensors: dict[str, Any], data_bytes: int, *, header: bytes | None = None) -> bytes:
    text = header if header is not None else json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data_bytes)


def tensor(begin: int, end: int, dtype: str = "U8", shape: list[int] | None = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape if shape is not None else [end - begin], "data_offsets": [begin, end]}


def checkpoint(folder: Path, shards: dict[str, list[str]], *, total_size: int | None = None) -> None:
    """A checkpoint whose shards hold the named tensors, ten bytes each, with its index."""
    for name, tensors in shards.items():
        spans = {item: tensor(10 * number, 10 * number + 10) for number, item in enumerate(tensors)}
        (folder / name).write_bytes(safetensors(spans, 10 * len(tensors)))
    weight_map = {item: name for name, tensors in shards.items() for item in tensors}
    metadata = {} if total_size is None else {"metadata": {"total_size": total_size}}
    (folder / INDEX).write_text(json.dumps({**metadata, "weight_map": weight_map}))


def test_a_whole_header(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {"b": tensor(6, 8, "BF16", [1]), "a": tensor(0, 6, "F4", [3, 4]), "c": tensor(8, 8, "F32", [0])}
    path.write_bytes(safetensors({"__metadata__": {"format": "pt"}, **tensors}, 8))
    header = read_header(path)
    assert (sorted(header.names), header.data_bytes) == (["a", "b", "c"], 8)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (safetensors({"w": tensor(0, 100)}, 40), "tensors end at byte"),
        (safetensors({"w": tensor(0, 100)}, 101), "tensors end at byte"),
        (safetensors({"a": tensor(0, 10), "b": tensor(11, 20)}, 20), "tensor b, bytes 11 to 20"),
        (safetensors({"a": tensor(0, 10), "b": tensor(9, 20)}, 20), "tensor b, bytes 9 to 20"),
        (safetensors({"a": tensor(0, 10, shape=[11])}, 10), "tensor a"),
        (safetensors({"a": tensor(0, 10, "F5")}, 10), "damaged: KeyError: 'F5'"),
        (safetensors({"a": {"dtype": "U8"}}, 0), "damaged: KeyError"),
        (safetensors({"a": 5}, 0), "damaged: TypeError"),
        (safetensors({}, 0, header=b"[]"), "not a JSON object"),
        (safetensors({}, 0, header=b'{"a'), "not JSON"),
        (safetensors({}, 0)[:9], "need 10 bytes and the file has 9"),
        (bytes(4096), "not JSON"),
        (b"\xff" * 64, "would need"),
        (b"", "need 8 bytes and the file has 0"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:11\nsize 4999802720\n", "Git LFS pointer"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    with pytest.raises(ServingError) as caught:
        read_header(path)
    assert why in (caught.value.why or "")
    assert caught.value.where == str(path)


def test_a_whole_checkpoint(tmp_path: Path) -> None:
    checkpoint(tmp_path, {"a.safetensors": ["x", "l.k_scale"], "b.safetensors": ["y", "l.v_scale", "z"]})
    shards = inspect_shards(tmp_path)
    assert (shards.expected, shards.present, shards.missing, shards.corrupt) == (2, 2, [], [])
    assert (shards.tensors, shards.kv_scale_tensors, shards.data_bytes) == (5, 2, 50)
    assert count_kv_scales(tmp_path) == 2


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("model.layers.0.self_attn.k_proj.k_scale", True),
        ("model.layers.0.self_attn.attn.v_scale", True),
        ("model.layers.0.self_attn.kv_scale", True),
        ("model.layers.0.self_attn.v_cache.scale", True),
        ("model.layers.0.mlp.block_scale", False),
        ("model.layers.0.mlp.weight_scale", False),
        ("model.layers.0.self_attn.kv_b_proj.weight", False),
    ],
)
def test_what_a_kv_scale_is_called(tmp_path: Path, name: str, counts: bool) -> None:
    checkpoint(tmp_path, {"a.safetensors": [name]})
    assert count_kv_scales(tmp_path) == inspect_shards(tmp_path).kv_scale_tensors == counts


def test_an_empty_index_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / INDEX).touch()
    assert count_kv_scales(tmp_path) is None


def test_names_that_are_not_n_of_m_and_a_file_that_is_not_in_the_index(tmp_path: Path) -> None:
    names = [f"blk-{number:02}.safetensors" for number in range(65)] + ["rest.safetensors"]
    checkpoint(tmp_path, {name: [name] for name in names}, total_size=660)
    (tmp_path / "blk-31.safetensors").unlink()
    (tmp_path / "consolidated.safetensors").write_bytes(safetensors({}, 0))
    shards = inspect_shards(tmp_path)
    assert (shards.expected, shards.present) == (66, 65)
    assert shards.missing == ["blk-31.safetensors"]
    assert shards.unlisted == ["consolidated.safetensors"]
    assert shards.data_bytes == 660  # what the index states, as it cannot be counted


def test_a_stale_index_and_a_pointer_are_named(tmp_path: Path) -> None:
    checkpoint(tmp_path, {"a.safetensors": ["x"], "b.safetensors": ["y"], "c.safetensors": ["z"]})
    (tmp_path / "a.safetensors").write_bytes(safetensors({"other": tensor(0, 10)}, 10))
    (tmp_path / "b.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    corrupt = {item["path"]: item["why"] for item in inspect_shards(tmp_path).corrupt}
    assert (
        "lacks 1 tensors, for example x and holds beyond the index 1 tensors, for example other"
        in (corrupt["a.safetensors"])
    )
    assert "Git LFS pointer" in corrupt["b.safetensors"]
    assert set(corrupt) == {"a.safetensors", "b.safetensors"}


def test_without_an_index_every_file_counts(tmp_path: Path) -> None:
    assert inspect_shards(tmp_path).data_bytes is None
    assert count_kv_scales(tmp_path) is None
    (tmp_path / "model.safetensors").write_bytes(safetensors({"l.kv_scale": tensor(0, 10)}, 10))
    shards = inspect_shards(tmp_path)
    assert (shards.expected, shards.tensors, shards.data_bytes) == (1, 1, 10)
    assert count_kv_scales(tmp_path) == 1


@pytest.mark.parametrize(
    "index",
    [{}, {"weight_map": []}, {"weight_map": {"a": 5}}, {"weight_map": {"a": "../b.safetensors"}}],
)
def test_an_index_of_another_shape_is_refused(tmp_path: Path, index: dict[str, Any]) -> None:
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(ServingError) as caught:
        inspect_shards(tmp_path)
    assert caught.value.where == f"{tmp_path / INDEX}#/weight_map"
