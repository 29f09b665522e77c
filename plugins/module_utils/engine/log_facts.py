# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How far a start of vLLM has come and what it decided, read from its log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .log_lines import LogLine

GIB = 1 << 30
STAGES = ("starting", "loading_weights", "compiling", "capturing_graphs", "listening")

_STAGE_MARKS = (
    (re.compile(r"Starting to load model|Loading safetensors checkpoint shards|Loading weights took"), 1),
    (
        re.compile(
            r"Model loading took|KV cache size: |Dynamo bytecode transform|torch\.compile took|Compiling a graph"
        ),
        2,
    ),
    (re.compile(r"Capturing CUDA graphs|Profiling CUDA graph memory|Graph capturing finished"), 3),
    (re.compile(r"Application startup complete|Uvicorn running on"), 4),
)
_PROGRESS = re.compile(
    r"^\s*(?P<label>\S.*?):\s+(?P<percent>\d+)%(?: Completed)? ?\|.*?(?P<done>\d+)/(?P<total>\d+) \["
)
_TOKENS = re.compile(r"\b(?:GPU|[A-Z]+)(?: \+ host)? KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
_AVAILABLE = re.compile(r"Available KV cache memory: ([\d.]+) GiB")
# kv_cache_memory_bytes, and the two forms of the CPU backend
_RESERVED = re.compile(
    r"reserved ([\d.]+) GiB memory for KV Cache|(?:Explicitly|Auto) set \(([\d.]+)/[\d.]+\) GiB for KV"
)
_WEIGHTS = re.compile(r"Model loading took ([\d.]+) GiB")
_GRAPHS = re.compile(r"Graph capturing finished in [\d.]+ secs?, took ([\d.]+) GiB")
_GRAPHS_ESTIMATED = re.compile(r"Estimated CUDA graph memory: ([\d.]+) GiB")
_ATTENTION = re.compile(
    r"^Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]+)(?: attention)? backend(?:\.$| out of| \(selected|$)"
)
_MOE = re.compile(r"^Using '?([\w ]+?)'?(?: \w+)? MoE backend\b")
_LINEAR = re.compile(r"^Using ([\w.\-]+) for (?:\w+ GEMM|mixed-precision linear|\w+LinearMethod|CompressedTensors\w+)")
_RELEASE = re.compile(r"Initializing a V\d LLM engine \(v([^)\s]+)\)")

_MEMORY_LINES = (
    ("available", _AVAILABLE),
    ("available", _RESERVED),
    ("weights", _WEIGHTS),
    ("graphs", _GRAPHS),
    ("estimated", _GRAPHS_ESTIMATED),
)


@dataclass
class LogFacts:
    """kv_cache sizes in bytes per card, from GiB printed with two decimals (10.7 MB coarse); None = not printed."""

    stage: str = "starting"
    progress: dict[str, Any] | None = None
    kv_cache: dict[str, Any] = field(default_factory=dict)
    attention_backend: str | None = None
    moe_backend: str | None = None
    linear_backend: str | None = None
    release: str | None = None


def read_facts(lines: Iterable[LogLine]) -> LogFacts:
    """Read one invocation's log, oldest line first.

    Numbers are those of the last line that prints them, per process; over the workers of a tensor-parallel engine the
    smallest available memory and the largest weights and graphs count, because those bind.
    """
    facts = LogFacts()
    rank = 0
    tokens: int | None = None
    max_model_len: int | None = None
    concurrency: float | None = None
    memory: dict[str, dict[str, float]] = {"available": {}, "weights": {}, "graphs": {}, "estimated": {}}
    for line in lines:
        text = line.text
        for mark, reached in _STAGE_MARKS:
            if reached > rank and mark.search(text):
                rank, facts.progress = reached, None
        if match := _PROGRESS.match(text):
            facts.progress = {
                "what": match["label"],
                "done": int(match["done"]),
                "total": int(match["total"]),
                "percent": int(match["percent"]),
            }
        if match := _TOKENS.search(text):
            tokens, max_model_len, concurrency = _number(match[1]), None, None
        if match := _CONCURRENCY.search(text):
            max_model_len, concurrency = _number(match[1]), float(match[2])
        for name, pattern in _MEMORY_LINES:
            if match := pattern.search(text):
                memory[name][line.process] = float(match[match.lastindex or 1])
        facts.attention_backend = facts.attention_backend or _first(_ATTENTION, text)
        facts.moe_backend = facts.moe_backend or _first(_MOE, text)
        facts.linear_backend = facts.linear_backend or _first(_LINEAR, text)
        facts.release = _first(_RELEASE, text) or facts.release
    facts.stage = STAGES[rank]
    if facts.stage == "listening":
        facts.progress = None
    facts.kv_cache = {
        "tokens": tokens,
        "max_model_len": max_model_len,
        "concurrency": concurrency,
        "inconsistent": _inconsistent(tokens, max_model_len, concurrency),
        "available_bytes": _bytes(min(memory["available"].values(), default=None)),
        "weights_bytes": _bytes(max(memory["weights"].values(), default=None)),
        "cuda_graph_bytes": _bytes(max(memory["graphs"].values(), default=None)),
        "cuda_graph_estimated_bytes": _bytes(max(memory["estimated"].values(), default=None)),
    }
    return facts


def _inconsistent(tokens: int | None, max_model_len: int | None, concurrency: float | None) -> bool:
    """Hybrid models of older releases print a token count that is not concurrency x length; both are kept."""
    if not tokens or not max_model_len or concurrency is None:
        return False
    return abs(tokens / max_model_len - concurrency) > 0.006 + 0.02 * concurrency


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else round(gib * GIB)
