# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small repository to publish, and ways to look at what a download made of it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

REPOSITORY = "org/model"
SHARDS = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]


def safetensors(name: str, data: bytes) -> bytes:
    header = json.dumps({name: {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
    return len(header).to_bytes(8, "little") + header + data


def make_repository(folder: Path, shard_bytes: int = 600_000) -> Path:
    """config.json, an index, three shards of about that size, a file in a folder, an empty file."""
    (folder / "sub").mkdir(parents=True)
    for number, name in enumerate(SHARDS):
        data = hashlib.shake_128(name.encode()).digest(shard_bytes + 100_000 * number)
        (folder / name).write_bytes(safetensors(f"t{number}", data))
    index = {"metadata": {}, "weight_map": {f"t{number}": name for number, name in enumerate(SHARDS)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text('{"model_type": "tiny"}')
    (folder / "sub" / "é #100%.txt").write_text("text")
    (folder / "empty.py").write_text("")
    return folder


def actions(result: dict[str, Any]) -> dict[str, str]:
    return {file["path"]: file["action"] for file in result["files"]}


def state_of(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything below the folder: mode, inode, mtime and bytes."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(root, name)
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(folder))] = (status.st_mode, status.st_ino, status.st_mtime_ns, content)
    return found


def same_files(folder: Path, dest: Path) -> bool:
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return all((dest / path).is_file() and (dest / path).read_bytes() == (folder / path).read_bytes() for path in paths)
