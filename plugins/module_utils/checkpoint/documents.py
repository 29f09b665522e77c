# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The two files of a checkpoint that say how it is quantized, and what the engine makes of them together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ServingError
from .architecture import text_config_of, uses_mla
from .json_document import JsonDocument, kind_of, parse_object
from .quantization import (
    CONFIG,
    HF_QUANT_CONFIG,
    Block,
    Declaration,
    Resolution,
    all_declarations,
    blocks_of,
    resolve,
)
from .refusals import Refusal, refusals
from .resolver_rules import ResolverRules

Contents = Mapping[str, Mapping[str, Any]]
FILES = (CONFIG, HF_QUANT_CONFIG)


def read_documents(folder: Path) -> dict[str, JsonDocument]:
    """config.json and, where it exists, hf_quant_config.json, by file name; a folder without the first is refused."""
    documents = {
        name: parse_object(_read(folder / name), str(folder / name)) for name in FILES if (folder / name).exists()
    }
    if CONFIG not in documents:
        raise ServingError(
            "the folder is no checkpoint",
            where=str(folder),
            why="it holds no config.json" if folder.is_dir() else "it does not exist",
            remedy="Download the model first (blackwell.serving.hf_shard_download), or correct the option path",
        )
    return documents


def _read(path: Path) -> bytes:
    """The bytes of a regular file; a pipe would never end."""
    if not path.is_file():
        raise ServingError("it is no file", where=str(path), remedy="Download the file again in its place")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ServingError(
            "the file cannot be read",
            where=str(path),
            why=error.strerror,
            remedy="Run the task as a user who may read it (become)",
        ) from error


def holds_checkpoint(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


@contextlib.contextmanager
def places_below(folder: Path) -> Iterator[None]:
    """Let an error that names one of the two files name the folder as well."""
    try:
        yield
    except ServingError as error:
        if error.where is None or not error.where.startswith((CONFIG, HF_QUANT_CONFIG)):
            raise
        raise ServingError(
            error.what, where=f"{folder}/{error.where}", why=error.why, remedy=error.remedy, facts=error.facts
        ) from error


def checked_contents(contents: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The same two files given as data (hf_repo_info's contents); a file that is null there does not exist."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in FILES:
        value = contents.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise ServingError(f"the file holds {kind_of(value)} where an object is expected", where=f"{name}#")
        if value is not None:
            found[name] = value
    if CONFIG not in found:
        raise ServingError(
            "the checkpoint's config.json is not among the contents",
            where="contents",
            remedy="Pass what blackwell.serving.hf_repo_info returned",
        )
    return found


@dataclass(frozen=True)
class Quantization:
    """What one state of the two files means to one vLLM release.

    auto_on_sm10x: what the architecture makes of `auto` on compute capability 10.x, where it does
    """

    blocks: list[Block]
    use_mla: bool
    resolution: Resolution
    refusals: list[Refusal]
    auto_on_sm10x: str | None

    @property
    def declarations(self) -> list[Declaration]:
        """Every key that says something about the KV cache, in the order of the blocks."""
        return [item for block in self.blocks for item in all_declarations(block)]


def interpret(contents: Contents, rules: ResolverRules) -> Quantization:
    config = contents[CONFIG]
    blocks = blocks_of(config, contents.get(HF_QUANT_CONFIG))
    text = text_config_of(config)[1]
    use_mla = uses_mla(text)
    return Quantization(
        blocks,
        use_mla,
        resolve(blocks, rules, use_mla=use_mla),
        refusals(blocks, rules, use_mla=use_mla),
        _auto_on_sm10x(config, text, rules),
    )


def _auto_on_sm10x(config: Mapping[str, Any], text: Mapping[str, Any], rules: ResolverRules) -> str | None:
    """What the architecture makes of `auto` on compute capability 10.x, whatever the files say; None for most."""
    names = config.get("architectures")
    for name in names if isinstance(names, list) else []:
        default = rules.auto_by_architecture.get(name) if isinstance(name, str) else None
        if default is not None and (not default.sparse_only or text.get("index_topk") is not None):
            return default.dtype
    return None
