# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A repository as data: files, bytes, the parsed small files. Nothing is downloaded to disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..errors import ServingError
from .api import Api, checked_revision
from .identity import RemoteFile
from .index import INDEX, shards_of_index

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")


def repo_info(api: Api, revision: str, names: Sequence[str]) -> dict[str, Any]:
    """The result of hf_repo_info. A name that the repository does not have is absent from `contents`."""
    resolved = api.resolve(checked_revision(revision))
    files = api.tree(resolved.commit)
    by_path = {file.path: file for file in files}
    contents = {name: parsed_json(api.read(resolved.commit, by_path[name]), name) for name in names if name in by_path}
    index = contents.get(INDEX)
    if index is None and INDEX in by_path:
        index = parsed_json(api.read(resolved.commit, by_path[INDEX]), INDEX)
    shards = shards_of_index(index, INDEX) if index is not None else set()
    absent = sorted(shards - by_path.keys())
    return {
        "changed": False,
        "repo_id": api.repo_id,
        "endpoint": api.session.endpoint,
        "revision": revision,
        "commit": resolved.commit,
        "gated": resolved.gated,
        "files": [{"path": file.path, "size": file.size, **file.identity()} for file in files],
        "weights_bytes": sum(file.size for file in weight_files(files, shards)),
        "total_bytes": sum(file.size for file in files),
        "contents": contents,
        "notes": [f"{INDEX} names files that the repository does not have: {', '.join(absent)}"] if absent else [],
    }


def weight_files(files: Sequence[RemoteFile], shards: set[str]) -> list[RemoteFile]:
    """The files that an engine loads: those of the index; without one, the top folder's files of the first kind there
    is, as vLLM takes them (safetensors before bin before pt)."""
    if shards:
        return [file for file in files if file.path in shards]
    for suffix in WEIGHT_SUFFIXES:
        found = [file for file in files if file.path.endswith(suffix) and "/" not in file.path]
        if found:
            return found
    return []


def parsed_json(body: bytes, name: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ServingError(
            "the file is not JSON", where=name, why=str(error), remedy="Ask only for JSON files in the option files"
        ) from None
