# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Prompts as token ids: what a text or a chat becomes, and what the engine writes after given ids."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import failure
from .client import Client
from .failure import EndpointError

TOKENIZE_PATH = "/tokenize"
COMPLETIONS_PATH = "/v1/completions"


class Untokenized(EndpointError):
    """The server does not tell the token ids of a text or a chat."""


@dataclass
class Completion:
    """tokens, logprobs, top: for each token its text, its log probability, and {text: log probability} of the best
    ones; empty when they were not asked for. cached_tokens: only of servers that tell it in usage."""

    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    tokens: list[str] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[dict[str, float]] = field(default_factory=list)


def lacks(error: EndpointError) -> bool:
    """The server has no such path, or its /tokenize knows no chats: nothing is known of the model, good or bad."""
    return isinstance(error, Untokenized) or (error.status in (404, 405, 501) and error.kind != failure.WRONG_MODEL)


def refuses_logprobs(error: EndpointError) -> bool:
    """The server gives no log probabilities, or not so many."""
    return error.kind == failure.REJECTED and "logprob" in error.message.lower()


def says_nan(error: EndpointError) -> bool:
    """The server could not write its answer: JSON has no NaN. (A server that writes NaN all the same is read.)"""
    return re.search(r"not JSON compliant|\bnan\b", error.message, re.IGNORECASE) is not None


def tokenize_text(client: Client, model: str, text: str, *, timeout: float) -> list[int]:
    """The ids of a text, without anything that a template or tokenizer would add."""
    return _tokenize(client, {"model": model, "prompt": text, "add_special_tokens": False}, timeout)


def tokenize_chat(
    client: Client,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    template: Mapping[str, Any],
    *,
    timeout: float,
) -> list[int]:
    """The ids of a chat with its generation prompt; template: chat_template_kwargs."""
    body: dict[str, Any] = {"model": model, "messages": list(messages), "add_generation_prompt": True}
    if template:
        body["chat_template_kwargs"] = dict(template)
    return _tokenize(client, body, timeout)


def complete(
    client: Client,
    model: str,
    ids: Sequence[int],
    *,
    max_tokens: int,
    timeout: float,
    cache_salt: str,
    logprobs: int | None = None,
) -> Completion:
    """What follows the ids, greedy; prompts with other salts share nothing in the prefix cache.

    logprobs: how many of the best tokens to give at each position. Raises EndpointError.
    """
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(ids),
        "max_tokens": max_tokens,
        "temperature": 0,
        "seed": 0,
        "cache_salt": cache_salt,
    }
    if logprobs is not None:
        body["logprobs"] = logprobs
    return read_completion(client.post_json(COMPLETIONS_PATH, body, timeout=timeout))


def read_completion(payload: Any) -> Completion:
    """The completion in a text_completion object."""
    choices = payload.get("choices") if isinstance(payload, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict) or not isinstance(choice.get("text"), str):
        raise EndpointError(failure.NOT_OPENAI, "the answer holds no choices[0].text")
    completion = Completion(choice["text"], choice.get("finish_reason"))
    usage = payload.get("usage")
    if isinstance(usage, dict):
        completion.prompt_tokens = _integer(usage.get("prompt_tokens"))
        completion.completion_tokens = _integer(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        completion.cached_tokens = _integer(details.get("cached_tokens")) if isinstance(details, dict) else None
    held = choice.get("logprobs")
    if isinstance(held, dict):
        completion.tokens = [str(token) for token in _list(held.get("tokens"))]
        completion.logprobs = [number(value) for value in _list(held.get("token_logprobs"))]
        completion.top = [
            {str(token): number(value) for token, value in best.items()} if isinstance(best, dict) else {}
            for best in _list(held.get("top_logprobs"))
        ]
    return completion


def _tokenize(client: Client, body: dict[str, Any], timeout: float) -> list[int]:
    try:
        payload = client.post_json(TOKENIZE_PATH, body, timeout=timeout)
    except EndpointError as error:
        if error.kind in (failure.NOT_OPENAI, failure.REJECTED):
            raise Untokenized(error.kind, error.message, status=error.status) from error
        raise
    ids = payload.get("tokens") if isinstance(payload, dict) else None
    if not isinstance(ids, list) or not all(_integer(one) is not None for one in ids):
        raise Untokenized(failure.NOT_OPENAI, f"{TOKENIZE_PATH} does not answer with a list of token ids")
    return ids


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> float:
    """NaN for what is no number: some servers write null for it, because JSON has no NaN."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
