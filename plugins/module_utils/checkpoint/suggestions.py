# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Serving options that follow from what the checkpoint is: parsers, and whether its own code is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .json_document import parse_object

# Model types whose output format is one and the same in all their checkpoints; names as in vLLM 0.33's registries.
# A type that is not here may well have parsers: which ones, its files do not tell.
TOOL_CALL_PARSERS = {
    "kimi_k2": "kimi_k2",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "gpt_oss": "openai",
    "minimax_m2": "minimax_m2",
}
REASONING_PARSERS = {
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "gpt_oss": "openai_gptoss",
    "minimax_m2": "minimax_m2",
}
# Kimi-K2 comes with and without thinking under one model type; the chat template tells the two apart.
REASONING_IF_TEMPLATE_THINKS = {"kimi_k2": "kimi_k2"}
THINKING_TAG = b"</think>"
TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
# Files whose auto_map makes transformers run code that the checkpoint brings.
AUTO_MAP_FILES = ("tokenizer_config.json", "processor_config.json", "preprocessor_config.json")


def suggest(config: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """tool_call_parser, reasoning_parser (None: not known from the files) and trust_remote_code."""
    model_type = config.get("model_type")
    kind = model_type if isinstance(model_type, str) else ""
    reasoning = REASONING_PARSERS.get(kind)
    if kind in REASONING_IF_TEMPLATE_THINKS and folder is not None and _template_thinks(folder):
        reasoning = REASONING_IF_TEMPLATE_THINKS[kind]
    return {
        "tool_call_parser": TOOL_CALL_PARSERS.get(kind),
        "reasoning_parser": reasoning,
        "trust_remote_code": bool(config.get("auto_map")) or (folder is not None and _brings_code(folder)),
    }


def remote_code(folder: Path) -> list[dict[str, str]]:
    """Every Python file of the checkpoint with its hash: what trust_remote_code would run."""
    files = (path.relative_to(folder) for path in sorted(folder.rglob("*.py")) if path.is_file())
    return [
        {"path": str(path), "sha256": hashlib.sha256((folder / path).read_bytes()).hexdigest()}
        for path in files
        if path.parts[0] != ".cache"
    ]


def _template_thinks(folder: Path) -> bool:
    return any(THINKING_TAG in (folder / name).read_bytes() for name in TEMPLATE_FILES if (folder / name).is_file())


def _brings_code(folder: Path) -> bool:
    for name in AUTO_MAP_FILES:
        path = folder / name
        if path.is_file() and parse_object(path.read_bytes(), str(path)).value.get("auto_map"):
            return True
    return False
