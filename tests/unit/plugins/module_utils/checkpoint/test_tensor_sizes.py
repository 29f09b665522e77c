# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of tensors by the headers of safetensors files; None as soon as one cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.tensor_sizes import tensor_sizes


def shard(path: Path, header: Any) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


def tensor(begin: int, end: int) -> dict[str, Any]:
    return {"dtype": "BF16", "shape": [(end - begin) // 2], "data_offsets": [begin, end]}


def test_all_files_together(tmp_path: Path) -> None:
    shard(tmp_path / "model-1.safetensors", {"__metadata__": {"format": "pt"}, "a": tensor(0, 20)})
    shard(tmp_path / "model-2.safetensors", {"b": tensor(0, 6), "c": tensor(6, 8)})
    assert tensor_sizes(tmp_path) == {"a": 20, "b": 6, "c": 2}


@pytest.mark.parametrize("header", [b"", b"{", b"[]", {"a": {}}, {"a": {"data_offsets": [1]}}, {"a": 3}])
def test_a_header_that_cannot_be_read(tmp_path: Path, header: Any) -> None:
    shard(tmp_path / "model.safetensors", header)
    assert tensor_sizes(tmp_path) is None


def test_no_files(tmp_path: Path) -> None:
    assert tensor_sizes(tmp_path) is None
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    assert tensor_sizes(tmp_path) is None
