# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The engine's own counters, from /metrics: does it work while a request seems to hang, and what has it reused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from .client import Client
from .failure import EndpointError

PATH = "/metrics"
# By preference. vLLM 0.9 and older say gpu_; SGLang counts under its own name. prometheus_client appends _total.
_PREFIX_HITS = ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits", "sglang:cached_tokens")
_PREFIX_QUERIES = ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "sglang:prompt_tokens")
_PREEMPTIONS = ("vllm:num_preemptions", "sglang:num_retracted_reqs")
# Only with VLLM_COMPUTE_NANS_IN_LOGITS=1
_CORRUPTED = ("vllm:corrupted_requests",)
_PREFIX_CACHING = re.compile(r'^vllm:cache_config_info\{.*\benable_prefix_caching="(?P<value>\w+)"', re.MULTILINE)
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{.*\})?\s+(?P<value>[^\s]+)")


@dataclass(frozen=True)
class Work:
    """running: requests in the batch; generated: tokens since the start. None where the server does not tell."""

    running: float | None
    generated: float | None


@dataclass(frozen=True)
class Counters:
    """Sums since the engine's start; None where the server does not count it.

    prefix_hits, prefix_queries: prompt tokens found in the prefix cache, and looked for
    preemptions: requests that lost their blocks and were computed again
    corrupted: requests with NaN among their logits
    prefix_caching: whether the engine says that its prefix cache is on
    """

    prefix_hits: float | None = None
    prefix_queries: float | None = None
    preemptions: float | None = None
    corrupted: float | None = None
    prefix_caching: bool | None = None


def read_work(client: Client, *, timeout: float = 10.0) -> Work | None:
    """The counters now, summed over engines; None when they cannot be read."""
    try:
        text = client.get_text(PATH, timeout=timeout)
    except EndpointError:
        return None
    sums = parse(text)
    return Work(sums.get("vllm:num_requests_running"), sums.get("vllm:generation_tokens_total"))


def read_counters(client: Client, *, timeout: float = 10.0) -> Counters | None:
    """The counters now; None when they cannot be read."""
    try:
        text = client.get_text(PATH, timeout=timeout)
    except EndpointError:
        return None
    return counters(text)


def counters(text: str) -> Counters:
    """The counters in the Prometheus text format, whatever release wrote it."""
    sums = parse(text)
    caching = _PREFIX_CACHING.search(text)
    return Counters(
        _first(sums, _PREFIX_HITS),
        _first(sums, _PREFIX_QUERIES),
        _first(sums, _PREEMPTIONS),
        _first(sums, _CORRUPTED),
        caching["value"] == "True" if caching else None,
    )


def _first(sums: dict[str, float], names: tuple[str, ...]) -> float | None:
    for name in names:
        for written in (f"{name}_total", name):
            if written in sums:
                return sums[written]
    return None


def parse(text: str) -> dict[str, float]:
    """{metric: sum over its label sets} of the Prometheus text format; lines that are no sample are skipped."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if match := _SAMPLE.match(line):
            try:
                value = float(match["value"])
            except ValueError:
                continue
            if not math.isfinite(value):  # the format knows NaN and Inf; no counter of requests or tokens is that
                continue
            sums[match["name"]] = sums.get(match["name"], 0.0) + value
    return sums
