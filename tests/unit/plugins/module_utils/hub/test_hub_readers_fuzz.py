# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read from the Hub or from the destination is data: each reader gives its value or its declared error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.shards import inspect_shards, read_index
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub.identity import RemoteFile, parse_tree_entry
from ansible_collections.blackwell.serving.plugins.module_utils.hub.index import shards_of_index
from ansible_collections.blackwell.serving.plugins.module_utils.hub.manifest import Manifest
from ansible_collections.blackwell.serving.plugins.module_utils.hub.patches import read_patches
from ansible_collections.blackwell.serving.plugins.module_utils.hub.paths import OWN_STATE, safe_path
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FUZZ = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SHARDS = st.text("ab/.\\\n\0é", max_size=6) | JSON
INDEXES = st.fixed_dictionaries(
    {"weight_map": st.dictionaries(st.text(max_size=5), SHARDS, max_size=4) | JSON},
    optional={"metadata": st.fixed_dictionaries({"total_size": JSON}) | JSON},
)
HEX40 = st.text("0123456789abcdef", min_size=40, max_size=40)
HEX64 = st.text("0123456789abcdef", min_size=64, max_size=64)
ENTRIES = st.fixed_dictionaries(
    {"type": st.just("file") | JSON, "path": st.text(max_size=8) | JSON, "size": st.integers() | JSON},
    optional={
        "oid": HEX40 | JSON,
        "lfs": st.fixed_dictionaries({"oid": HEX64 | JSON}, optional={"size": st.integers() | JSON}) | JSON,
        "xetHash": JSON,
    },
)


@FUZZ
@given(INDEXES | JSON)
def test_an_index_names_safe_shards_or_is_refused(index: Any) -> None:
    try:
        shards = shards_of_index(index, "index")
    except ServingError:
        return
    assert shards == {safe_path(shard) for shard in index["weight_map"].values()}


@FUZZ
@given(INDEXES)
def test_an_index_of_a_checkpoint_maps_tensors_to_file_names_or_is_refused(index: dict[str, Any]) -> None:
    try:
        weight_map, total_size = read_index(index)
    except ServingError:
        return
    assert all("/" not in file for file in weight_map.values())
    assert total_size is None or (isinstance(total_size, int) and not isinstance(total_size, bool))


@FUZZ
@given(INDEXES.map(lambda index: json.dumps(index).encode()) | st.binary(max_size=80))
def test_an_index_file_is_read_or_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "model.safetensors.index.json").write_bytes(data)
    try:
        shards = inspect_shards(tmp_path)
    except ServingError:
        return
    assert shards.present == 0


@FUZZ
@given(ENTRIES | JSON)
def test_an_entry_of_the_tree_is_a_file_a_folder_or_refused(entry: Any) -> None:
    try:
        file = parse_tree_entry(entry)
    except ServingError:
        return
    if file is None:
        assert entry["type"] == "directory"
        return
    assert safe_path(file.path) == entry["path"]
    assert file.size >= 0
    assert len(file.content_id) == (64 if file.sha256 else 40)


def a_manifest() -> bytes:
    files = {"a.bin": RemoteFile("a.bin", 5, "1" * 40, "2" * 64), "b": RemoteFile("b", 0, "3" * 40)}
    document = {
        "format": 1,
        "repo_id": "org/model",
        "revision": "main",
        "commit": "0" * 40,
        "files": {
            path: {"size": file.size, "git_sha1": file.git_sha1, **file.identity()} for path, file in files.items()
        },
        "stamps": {"b": {"size": 0, "mtime_ns": 2, "inode": 3, "content_id": "3" * 40, "hashed": True}},
        "former": {"c": {"size": 9, "mtime_ns": 2, "inode": 4, "content_id": "4" * 40, "hashed": False}},
    }
    return json.dumps(document).encode()


@FUZZ
@given(st.data())
def test_a_manifest_with_one_odd_byte_is_no_manifest_or_a_consistent_one(tmp_path: Path, data: st.DataObject) -> None:
    """As after a torn write or a flipped bit: what is accepted is accepted again after it was saved."""
    content = bytearray(a_manifest())
    assert Manifest.parse(bytes(content)) is not None
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[place : place + data.draw(st.sampled_from([1, 7, len(content)]))]
    manifest = Manifest.parse(bytes(content))
    if manifest is None:
        return
    for path in (*manifest.files, *manifest.stamps, *manifest.former):
        safe_path(path)
    Manifest.path(tmp_path).parent.mkdir(parents=True, exist_ok=True)
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path) == manifest


@FUZZ
@given(
    st.binary(max_size=60)
    | st.dictionaries(
        st.text(max_size=5),
        st.fixed_dictionaries({"pristine_sha256": HEX64 | JSON, "patched_sha256": HEX64 | JSON}) | JSON,
        max_size=3,
    ).map(lambda value: json.dumps(value).encode())
)
def test_a_record_of_patches_is_read_or_means_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / OWN_STATE).mkdir(parents=True, exist_ok=True)
    (tmp_path / OWN_STATE / "patches.json").write_bytes(data)
    for patch in read_patches(tmp_path).values():
        assert (len(patch.pristine_sha256), len(patch.patched_sha256)) == (64, 64)


@pytest.mark.parametrize(
    "index",
    [{"weight_map": {"a": ["1"]}}, {"weight_map": {"a": {"b": 1}}}, {"weight_map": {"a": None, "b": 1}}],
)
def test_an_index_whose_shards_are_no_text(index: Any) -> None:
    with pytest.raises(ServingError):
        shards_of_index(index, "index")


@pytest.mark.parametrize("total", [float("inf"), float("-inf"), float("nan")])
def test_a_total_that_is_no_number_is_none(total: float) -> None:
    assert read_index({"weight_map": {"a": "b"}, "metadata": {"total_size": total}})[1] is None


@pytest.mark.parametrize("total", [5, 5.0, 10**400])
def test_a_total_that_is_one(total: float) -> None:
    assert read_index({"weight_map": {"a": "b"}, "metadata": {"total_size": total}})[1] == total
