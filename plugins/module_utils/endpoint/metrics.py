# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The engine's own counters, from /metrics: whether it works while a request seems to hang."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .client import Client
from .failure import EndpointError

PATH = "/metrics"
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{.*\})?\s+(?P<value>[^\s]+)")


@dataclass(frozen=True)
class Work:
    """running: requests in the batch; generated: tokens since the start. None where the server does not tell."""

    running: float | None
    generated: float | None


def read_work(client: Client, *, timeout: float = 10.0) -> Work | None:
    """The counters now, summed over engines; None when they cannot be read."""
    try:
        text = client.get_text(PATH, timeout=timeout)
    except EndpointError:
        return None
    sums = parse(text)
    return Work(sums.get("vllm:num_requests_running"), sums.get("vllm:generation_tokens_total"))


def parse(text: str) -> dict[str, float]:
    """{metric: sum over its label sets} of the Prometheus text format; lines that are no sample are skipped."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if match := _SAMPLE.match(line):
            try:
                value = float(match["value"])
            except ValueError:
                continue
            sums[match["name"]] = sums.get(match["name"], 0.0) + value
    return sums
