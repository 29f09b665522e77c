# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of an endpoint that work on token ids: /tokenize, /v1/completions, and a prefix cache with its counters.

A word is a token. Given to an Endpoint as its fault, it answers these paths and leaves the others alone.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client

from .server import Endpoint, Exchange

BLOCK = 16
_PIECE = re.compile(r"<[^<> ]+>|\n\n|[^\s<]+")


@dataclass
class Prompt:
    """One request to /v1/completions. reused: how many of its ids were found in the prefix cache."""

    ids: list[int]
    text: str
    body: dict[str, Any]
    reused: int
    number: int


@dataclass
class Tokens:
    """answer: the words that follow a prompt. tamper: changes the payload, or answers itself and returns None."""

    answer: Callable[[Prompt], str] = lambda prompt: "Paris" if "capital" in prompt.text else "Hello there"
    tamper: Callable[[Exchange, Prompt, dict[str, Any]], dict[str, Any] | None] = lambda exchange, prompt, payload: (
        payload
    )
    caching: bool = True
    counts: bool = True
    tells_cached: bool = False
    prompts: list[Prompt] = field(default_factory=list)
    _words: list[str] = field(default_factory=list)
    _cache: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    _queries: int = 0
    _hits: int = 0

    def __call__(self, exchange: Exchange) -> bool:
        if exchange.path == "/metrics":
            return exchange.send(200, self.metrics(), "text/plain")
        if exchange.path == "/tokenize":
            return self._tokenize(exchange)
        return self._complete(exchange) if exchange.path == "/v1/completions" else False

    def encode(self, text: str) -> list[int]:
        for word in _PIECE.findall(text):
            if word not in self._words:
                self._words.append(word)
        return [self._words.index(word) for word in _PIECE.findall(text)]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._words[one] for one in ids)

    def metrics(self) -> str:
        if not self.counts:
            return ""
        return (
            f'vllm:cache_config_info{{block_size="{BLOCK}",enable_prefix_caching="{self.caching}",engine="0"}} 1.0\n'
            f'vllm:prefix_cache_queries_total{{engine="0"}} {float(self._queries)}\n'
            f'vllm:prefix_cache_hits_total{{engine="0"}} {float(self._hits)}\n'
        )

    def _tokenize(self, exchange: Exchange) -> bool:
        body = exchange.body
        if "messages" in body:
            thinking = (body.get("chat_template_kwargs") or {}).get("thinking", True)
            said = body["messages"][-1]["content"]
            text = f"<user> {said} <end> <assistant> <think>" + ("" if thinking else " </think>")
        else:
            text = body["prompt"]
        ids = self.encode(text)
        return exchange.send(200, json.dumps({"count": len(ids), "max_model_len": 8192, "tokens": ids}))

    def _complete(self, exchange: Exchange) -> bool:
        ids = exchange.body["prompt"]
        reused = self._look_up(exchange.body.get("cache_salt", ""), ids)
        prompt = Prompt(ids, self.decode(ids), exchange.body, reused, len(self.prompts) + 1)
        self.prompts.append(prompt)
        words = self.answer(prompt).split(" ")
        choice: dict[str, Any] = {"index": 0, "text": " ".join(words), "finish_reason": "stop", "logprobs": None}
        if exchange.body.get("logprobs") is not None:
            choice["logprobs"] = {
                "tokens": words,
                "token_logprobs": [-0.01] * len(words),
                "top_logprobs": [{word: -0.01, "other": -4.6} for word in words],
            }
        usage: dict[str, Any] = {"prompt_tokens": len(ids), "completion_tokens": len(words)}
        if self.tells_cached:
            usage["prompt_tokens_details"] = {"cached_tokens": reused}
        payload = self.tamper(exchange, prompt, {"object": "text_completion", "choices": [choice], "usage": usage})
        return True if payload is None else exchange.send(200, json.dumps(payload))

    def _look_up(self, salt: str, ids: list[int]) -> int:
        """Whole blocks only, and never the last token; what was not found is kept."""
        if not self.caching:
            return 0
        starts = [tuple(ids[: end + BLOCK]) for end in range(0, len(ids) - BLOCK, BLOCK)]
        found = sum((salt, start) in self._cache for start in starts) * BLOCK
        self._cache.update((salt, start) for start in starts)
        self._queries += len(ids)
        self._hits += found
        return found


def context(endpoint: Endpoint, name: str, probe: Any, seed: int = 0, **options: Any) -> Context:
    """What one check works with, after `ready` has been there."""
    metrics = {"max_model_len": endpoint.max_model_len}
    client = Client(address.parse(endpoint.url))
    values: dict[str, Any] = {"model": endpoint.model, "metrics": metrics, "rng": random.Random(seed), **options}
    return Context(client, [], probes={name: probe}, **values)
