# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The books of a prefix cache that the real server does not have.

vLLM on a CPU switches prefix caching off for models with multi-head latent attention ("MLA is enabled on a non-GPU
platform; forcing chunked prefill and prefix caching to be disabled"). The proxy counts what a cache of whole blocks
would have found of the server's own tokens, and says so in /metrics, so that what is asked about a cache can be asked.
"""

from __future__ import annotations

import re
import threading

from .proxy import Behaviour, Forward
from .upstream import Upstream
from .wire import Call, Reply

BLOCK = 16
_OFF = 'enable_prefix_caching="False"'


class CacheBooks:
    """Stands before a behaviour. prompts: (salt, tokens) of everything that was generated from."""

    def __init__(self, upstream: Upstream, behaviour: Behaviour) -> None:
        self._upstream = upstream
        self._behaviour = behaviour
        self._prompts: list[tuple[str, list[int]]] = []
        self._lock = threading.Lock()
        self.queries = self.hits = 0

    def __call__(self, call: Call, forward: Forward) -> Reply:
        reply = self._behaviour(call, forward)
        if call.generates and reply.status == 200:
            self._enter(call)
        if call.path != "/metrics" or reply.status != 200:
            return reply
        return Reply(200, [self.told(reply.read().decode()).encode()], reply.headers)

    def told(self, metrics: str) -> str:
        """The server's metrics with these counters, where its own cache is off."""
        if _OFF not in metrics:
            return metrics
        for name, value in (("queries", self.queries), ("hits", self.hits)):
            metrics = re.sub(rf"(?m)^(vllm:prefix_cache_{name}_total\{{.*\}}) .*$", rf"\g<1> {value}.0", metrics)
        return metrics.replace(_OFF, _OFF.replace("False", "True"))

    def _enter(self, call: Call) -> None:
        tokens = self._upstream.prompt_tokens(call)
        salt = str(call.body.get("cache_salt"))
        with self._lock:
            found = max((shared(tokens, known) for other, known in self._prompts if other == salt), default=0)
            self._prompts.append((salt, tokens))
            self.queries += len(tokens)
            # the last token is always computed
            self.hits += min(found, len(tokens) - 1) // BLOCK * BLOCK


def shared(one: list[int], other: list[int]) -> int:
    """How many tokens two prompts have in common from their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
