# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest is read back as it was written, and nothing else is taken for one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub.identity import RemoteFile, hash_file, hasher_for
from ansible_collections.blackwell.serving.plugins.module_utils.hub.index import shards_of_index
from ansible_collections.blackwell.serving.plugins.module_utils.hub.manifest import Manifest, Stamp
from hypothesis import given, settings
from hypothesis import strategies as st

HEX40 = st.text("0123456789abcdef", min_size=40, max_size=40)
HEX64 = st.text("0123456789abcdef", min_size=64, max_size=64)
PATHS = st.text("abc/_.é ", min_size=1, max_size=12).filter(
    lambda path: not any(part in ("", ".", "..") for part in path.split("/"))
)
STAMPS = st.builds(Stamp, st.integers(0), st.integers(), st.integers(0), HEX64, st.booleans(), st.booleans())
FILES = st.dictionaries(PATHS, st.tuples(st.integers(0, 2**63), HEX40, st.none() | HEX64, st.booleans()), max_size=4)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=50)
@given(FILES, st.dictionaries(PATHS, STAMPS, max_size=3), st.dictionaries(PATHS, STAMPS, max_size=3), HEX40)
def test_written_and_read(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, tuple[int, str, str | None, bool]],
    stamps: dict[str, Stamp],
    former: dict[str, Stamp],
    commit: str,
) -> None:
    dest = tmp_path_factory.mktemp("dest")
    tree = {path: RemoteFile(path, *values) for path, values in files.items()}
    manifest = Manifest("org/model", "main", commit, tree, stamps, former)
    Manifest.path(dest).parent.mkdir(parents=True)
    manifest.save(dest)
    assert Manifest.load(dest) == manifest


@settings(deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_no_manifest(data: bytes) -> None:
    assert Manifest.parse(data) is None


GOOD: dict[str, Any] = {
    "format": 1,
    "repo_id": "org/model",
    "revision": "main",
    "commit": "0" * 40,
    "files": {"a": {"size": 1, "git_sha1": "1" * 40}},
    "stamps": {"a": {"size": 1, "mtime_ns": 2, "inode": 3, "content_id": "1" * 40, "hashed": True}},
    "former": {},
}


@settings(deadline=None)
@given(st.sampled_from(sorted(GOOD)), JSON)
def test_a_manifest_with_one_odd_member_is_read_or_refused_but_never_half_read(key: str, value: Any) -> None:
    assert Manifest.parse(json.dumps(GOOD).encode()) is not None
    manifest = Manifest.parse(json.dumps({**GOOD, key: value}).encode())
    assert manifest is None or (len(manifest.commit) == 40 and isinstance(manifest.files, dict))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"commit": "main"},
        {"files": {"../a": GOOD["files"]["a"]}},
        {"stamps": {"../a": GOOD["stamps"]["a"]}},
        {"stamps": {"a": {**GOOD["stamps"]["a"], "more": 1}}},
        {"stamps": {"a": {**GOOD["stamps"]["a"], "size": "1"}}},
    ],
)
def test_what_is_refused(change: dict[str, Any]) -> None:
    assert Manifest.parse(json.dumps({**GOOD, **change}).encode()) is None


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=3_000))
def test_hashes_are_those_of_git_and_of_sha256(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("file") / "f"
    path.write_bytes(data)
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    sha256 = hashlib.sha256(data).hexdigest()
    for file in (RemoteFile("f", len(data), blob), RemoteFile("f", len(data), "0" * 40, sha256)):
        assert hash_file(path, hasher_for(file)).is_content_of(file)
        path.write_bytes(data + b"x")
        assert not hash_file(path, hasher_for(file)).is_content_of(file)
        path.write_bytes(data)


def test_the_shards_of_an_index() -> None:
    assert shards_of_index({"weight_map": {"a": "1", "b": "2", "c": "1"}}, "index") == {"1", "2"}


@pytest.mark.parametrize("index", [None, [], {}, {"weight_map": {}}, {"weight_map": []}, {"weight_map": {"a": "../1"}}])
def test_an_index_that_is_none(index: Any) -> None:
    with pytest.raises(ServingError):
        shards_of_index(index, "index")


@settings(deadline=None)
@given(JSON)
def test_an_index_is_read_or_refused(index: Any) -> None:
    try:
        shards = shards_of_index(index, "index")
    except ServingError:
        return
    assert shards


def test_a_missing_manifest(tmp_path: Path) -> None:
    assert Manifest.load(tmp_path) is None
