# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of weight files: nothing, all of them, or a refusal where they are not the weights yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.weight_files import size_of_files

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 4977222960\n"


def shards(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(b"\0" * 100)
    return folder


def index(folder: Path, *names: str) -> None:
    weight_map = {f"tensor{number}": name for number, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_all_files_count(tmp_path: Path) -> None:
    assert size_of_files(tmp_path) is None
    names = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    shards(tmp_path, "model-mtp.safetensors", *names)
    (tmp_path / "model-old.safetensors").mkdir()
    assert size_of_files(tmp_path) == 400


def test_a_shard_that_is_not_there_yet(tmp_path: Path) -> None:
    shards(tmp_path, "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors")
    with pytest.raises(ServingError, match="not whole") as caught:
        size_of_files(tmp_path)
    assert caught.value.why == "missing: model-00002-of-00003.safetensors"
    assert "weights_bytes" in str(caught.value.remedy)


def test_the_index_knows_better_than_the_numbers(tmp_path: Path) -> None:
    """A pruned repository has gaps in its numbers, and nothing is missing."""
    there = ("model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors")
    index(shards(tmp_path, *there), *there)
    assert size_of_files(tmp_path) == 200
    index(tmp_path, *there, "model-00002-of-00003.safetensors")
    with pytest.raises(ServingError, match="not whole"):
        size_of_files(tmp_path)


def test_a_pointer_in_the_place_of_the_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(POINTER)
    with pytest.raises(ServingError, match="Git LFS pointer"):
        size_of_files(tmp_path)


def test_a_link_to_nothing(tmp_path: Path) -> None:
    shards(tmp_path, "model-00001-of-00002.safetensors")
    (tmp_path / "model-00002-of-00002.safetensors").symlink_to(tmp_path / "blob")
    with pytest.raises(ServingError, match="00002-of-00002"):
        size_of_files(tmp_path)


@pytest.mark.parametrize("name", ["model-1-of-99999999999.safetensors", "model-00000-of-00000.safetensors"])
def test_numbers_that_no_checkpoint_has(name: str, tmp_path: Path) -> None:
    assert size_of_files(shards(tmp_path, name)) == 100
