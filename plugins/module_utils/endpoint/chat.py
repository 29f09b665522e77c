# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""One chat completion: the request, and the answer with its channels apart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import failure
from .client import Client, error_text
from .failure import EndpointError
from .stream import events
from .tool_calls import CallAssembler, ToolCall, read_calls

PATH = "/v1/chat/completions"
# vLLM says `reasoning`; its releases before 0.16, SGLang and Moonshot say `reasoning_content`.
_REASONING_FIELDS = ("reasoning", "reasoning_content")
# No request has more tokens, and larger numbers are beyond arithmetic with seconds.
_MAX_TOKENS = 1 << 32
_SHOWN_DIGITS = 20


@dataclass(frozen=True)
class Request:
    """thinking None sends no switch; thinking_parameter is its name in chat_template_kwargs.

    extra: further members of the body, such as tools, cache_salt or logprobs
    """

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int
    thinking: bool | None = None
    thinking_parameter: str = "thinking"
    extra: Mapping[str, Any] = field(default_factory=dict)

    def body(self, *, stream: bool) -> dict[str, Any]:
        """Greedy, with a fixed seed, so that the same question has the same answer."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": self.messages,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "seed": 0,
            "stream": stream,
            **self.extra,
        }
        if stream:
            body["stream_options"] = {"include_usage": True}
        if self.thinking is not None:
            # a JSON boolean: the string "false" switches thinking on in some templates
            body["chat_template_kwargs"] = {self.thinking_parameter: self.thinking}
        return body


@dataclass
class Answer:
    """Times in seconds after the request was sent. first_token_s, last_token_s and deltas only of a stream.

    logprobs: one {token, logprob, top_logprobs: [{token, logprob}]} for each token, where they were asked for
    retry_error: why the question could not be asked again with more tokens, where it was tried in vain
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    reasoning_field: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    first_token_s: float | None = None
    last_token_s: float | None = None
    deltas: int = 0
    retry_error: str | None = None

    def as_message(self, *, with_reasoning: bool = False) -> dict[str, Any]:
        """The answer as a client sends it back in the history, its reasoning under the name it came with."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if with_reasoning and self.reasoning:
            message["reasoning" if self.reasoning_field in (None, "both") else self.reasoning_field] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [call.as_sent() for call in self.tool_calls]
        return message

    @property
    def spent_budget(self) -> bool:
        """All tokens went into reasoning: the question, not the server, gave too few."""
        return self.finish_reason == "length" and not self.content.strip() and bool(self.reasoning.strip())


def ask(client: Client, request: Request, *, timeout: float, stream: bool = False) -> Answer:
    """Ask once; raises EndpointError for anything that is no complete answer."""
    started = time.monotonic()
    if not stream:
        answer = read_completion(client.post_json(PATH, request.body(stream=False), timeout=timeout))
        answer.seconds = time.monotonic() - started
        return answer
    with client.stream(PATH, request.body(stream=True), timeout=timeout) as chunks:
        answer = read_stream((time.monotonic() - started, client.hide(data)) for data in events(chunks))
    answer.seconds = time.monotonic() - started
    return answer


def ask_within_budget(client: Client, request: Request, *, timeout: float, stream: bool = False) -> list[Answer]:
    """Ask, and once more with four times the tokens when thinking ate them all; both tries are returned.

    Where so many tokens are refused (they exceed the context) or take too long, the first try is all there is.
    """
    first = ask(client, request, timeout=timeout, stream=stream)
    if not first.spent_budget:
        return [first]
    larger = replace(request, max_tokens=max(4 * request.max_tokens, 2048))
    try:
        return [first, ask(client, larger, timeout=timeout, stream=stream)]
    except EndpointError as error:
        if error.kind not in (failure.REJECTED, failure.TIMEOUT):
            raise
        first.retry_error = str(error)
        return [first]


def read_completion(payload: Any) -> Answer:
    """The answer in a chat.completion object."""
    choice = _choice(payload)
    message = choice.get("message") if choice else None
    if not isinstance(message, dict) or not isinstance(message.get("content") or "", str):
        raise EndpointError(failure.NOT_OPENAI, "the answer holds no choices[0].message with text")
    answer = Answer(content=message.get("content") or "", finish_reason=(choice or {}).get("finish_reason"))
    answer.reasoning, answer.reasoning_field = _reasoning(message)
    answer.tool_calls = read_calls(message)
    answer.logprobs = _logprobs(choice)
    _read_usage(answer, payload)
    return answer


def read_stream(timed: Iterable[tuple[float, str]]) -> Answer:
    """The answer in the events of a stream, each with the time of its arrival.

    A stream can fail after its status was sent: an error object, or an end without finish_reason and [DONE].
    """
    answer = Answer()
    calls = CallAssembler()
    done = False
    for at, data in timed:
        if data.strip() == "[DONE]":
            done = True
            break
        try:
            payload = json.loads(data)
        except (ValueError, RecursionError) as error:  # the latter for thousands of open brackets
            raise EndpointError(failure.STREAM_ERROR, f"an event is not JSON: {data[:200]!r}") from error
        if isinstance(payload, dict) and payload.get("error"):
            raise EndpointError(failure.STREAM_ERROR, error_text(data))
        _read_usage(answer, payload)
        if (choice := _choice(payload)) is not None:
            _read_delta(answer, calls, choice, at)
    answer.tool_calls = calls.calls
    if not done or answer.finish_reason is None:
        missing = "[DONE]" if not done else "finish_reason"
        raise EndpointError(failure.STREAM_TRUNCATED, f"the stream ended without {missing}")
    return answer


def _read_delta(answer: Answer, calls: CallAssembler, choice: dict[str, Any], at: float) -> None:
    delta = choice.get("delta") or {}
    content = delta.get("content") or "" if isinstance(delta, dict) else None
    if not isinstance(content, str):
        raise EndpointError(failure.STREAM_ERROR, f"a delta holds no text: {json.dumps(delta)[:200]}")
    calls.add(delta)
    answer.logprobs += _logprobs(choice)
    reasoning, name = _reasoning(delta)
    answer.content += content
    answer.reasoning += reasoning
    answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
    answer.reasoning_field = answer.reasoning_field or name
    if content or reasoning or delta.get("tool_calls"):
        answer.deltas += 1
        answer.first_token_s = at if answer.first_token_s is None else answer.first_token_s
    if answer.first_token_s is not None:
        # the last event of a choice may hold no text: the stop token is counted in completion_tokens too
        answer.last_token_s = at


def _choice(payload: Any) -> dict[str, Any] | None:
    choices = payload.get("choices") if isinstance(payload, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _logprobs(choice: dict[str, Any] | None) -> list[dict[str, Any]]:
    held = (choice or {}).get("logprobs")
    entries = held.get("content") if isinstance(held, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _reasoning(message: dict[str, Any]) -> tuple[str, str | None]:
    """The reasoning and the field that held it; both fields with the same text count once."""
    texts = {name: message[name] for name in _REASONING_FIELDS if isinstance(message.get(name), str)}
    filled = [name for name, text in texts.items() if text]
    if not filled:
        return "", None
    return texts[filled[0]], "both" if len(filled) == 2 else filled[0]


def _read_usage(answer: Answer, payload: Any) -> None:
    usage = payload.get("usage") if isinstance(payload, dict) else None
    if isinstance(usage, dict):
        for name in ("prompt_tokens", "completion_tokens"):
            value = usage.get(name)
            if not isinstance(value, int) or isinstance(value, bool):
                continue
            if not 0 <= value <= _MAX_TOKENS:
                said = str(value)[:_SHOWN_DIGITS]
                raise EndpointError(failure.NOT_OPENAI, f"usage.{name} is {said}, which is no number of tokens")
            setattr(answer, name, value)
