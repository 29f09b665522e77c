# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint as large as the largest ones, in sparse files: 119 shards of 4.5 GB, 2,400 tensors each, no disk space.

Headers and index are as an NVFP4 export writes them. The published hashes are made up, as nobody hashes 540 GB for a
test; a run that trusts its stamps never learns it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .hub import Hub, Snapshot
from .hub.repository import Entry, Repository

REPOSITORY = "org/large"
SHARDS = 119
EXPERTS_PER_SHARD = 200  # three projections of four tensors each
MANIFEST = ".cache/huggingface/blackwell.serving/manifest.json"
INDEX = "model.safetensors.index.json"


def shard_names() -> list[str]:
    return [f"model-{number:05}-of-{SHARDS:05}.safetensors" for number in range(1, SHARDS + 1)]


def tensors_of(number: int) -> Iterator[tuple[str, str, list[int], int]]:
    """(name, dtype, shape, bytes) of the tensors of one shard: experts of one layer, some 4.5 GB."""
    layer, first = divmod(number * EXPERTS_PER_SHARD, 384)
    for expert in range(first, first + EXPERTS_PER_SHARD):
        for projection in ("down_proj", "gate_proj", "up_proj"):
            name = f"language_model.model.layers.{layer}.mlp.experts.{expert}.{projection}"
            yield f"{name}.input_scale", "F32", [], 4
            yield f"{name}.weight", "U8", [2048, 3264], 2048 * 3264
            yield f"{name}.weight_scale", "F8_E4M3", [2048, 408], 2048 * 408
            yield f"{name}.weight_scale_2", "F32", [], 4


def header_of(number: int) -> tuple[bytes, int]:
    """The first bytes of a shard, and the bytes of the data that follow."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dtype, shape, size in tensors_of(number):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, end


def make_large_checkpoint(folder: Path) -> None:
    """119 sparse shards and their index."""
    folder.mkdir(parents=True)
    weight_map: dict[str, str] = {}
    total = 0
    for number, shard in enumerate(shard_names()):
        header, data_bytes = header_of(number)
        with (folder / shard).open("wb") as stream:
            stream.write(header)
            stream.truncate(len(header) + data_bytes)
        weight_map |= {name: shard for name, *_rest in tensors_of(number)}
        total += data_bytes
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2))
    (folder / "config.json").write_text('{"model_type": "kimi_k25"}\n')


def publish(hub: Hub, folder: Path) -> str:
    """Serve the folder as REPOSITORY, each shard under a made-up hash; -> the commit."""
    entries = {path.name: Entry.of(path.name, path) for path in (folder / INDEX, folder / "config.json")}
    for shard in shard_names():
        path = folder / shard
        made_up = hashlib.sha256(shard.encode()).hexdigest()
        entries[shard] = Entry(shard, path, path.stat().st_size, made_up[:40], made_up, 134)
    repository = Repository(REPOSITORY)
    repository.push(snapshot := Snapshot.from_entries(entries), "main")
    hub.repositories[REPOSITORY] = repository
    return snapshot.commit


def pretend_hashed(dest: Path) -> None:
    """After a run with verify=structure: the manifest as it is after a run that has hashed every byte."""
    path = dest / MANIFEST
    document = json.loads(path.read_bytes())
    for stamp in document["stamps"].values():
        stamp["hashed"] = True
    path.write_text(json.dumps(document, indent=1) + "\n")
