# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request and its reply as bytes, and the generated answer in it as text that a fault can change.

Every shape is vLLM's own: an answer is written into the very payload that the real server sent.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_PIECE = re.compile(r"\s*\S+|\s+")


@dataclass
class Call:
    """What the client sends. body: the JSON of a POST."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def generates(self) -> bool:
        return self.path in (CHAT, COMPLETIONS)

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages") or ())

    @property
    def asks_logprobs(self) -> bool:
        return self.generates and self.body.get("logprobs") not in (None, False)

    @property
    def thinks(self) -> bool:
        return (self.body.get("chat_template_kwargs") or {}).get("thinking", True) is not False

    @property
    def said(self) -> str:
        """The user's last words, or the raw prompt."""
        users = [text(message) for message in self.messages if message.get("role") == "user"]
        return users[-1] if users else str(self.body.get("prompt") or "")

    def changed(self, **members: Any) -> Call:
        """The same call with other members in its body."""
        return Call(self.method, self.path, dict(self.headers), {**copy.deepcopy(self.body), **members})


@dataclass
class Reply:
    """What the client gets. chunks are sent as they come; length None closes the connection after the last one."""

    status: int
    chunks: Iterable[bytes]
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})

    def read(self) -> bytes:
        """All of it; may be asked for again."""
        whole = b"".join(self.chunks)
        self.chunks = [whole]
        return whole


@dataclass
class Answer:
    """What was generated. calls: OpenAI's tool_calls; logprobs: the choice's member as it is."""

    content: str
    reasoning: str
    calls: list[dict[str, Any]]
    finish_reason: str | None
    usage: dict[str, Any]
    logprobs: Any
    payload: dict[str, Any]


def text(message: dict[str, Any]) -> str:
    """The text of one message, its parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    return str(content or "")


def as_json(status: int, value: Any) -> Reply:
    return Reply(status, [json.dumps(value).encode()])


def error(status: int, message: str, kind: str) -> Reply:
    """OpenAI's error object, as vLLM writes it."""
    return as_json(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})


def read(call: Call, reply: Reply) -> Answer:
    """The answer in a reply of status 200."""
    body = reply.read()
    if not call.streams:
        payload = json.loads(body)
        choice = payload["choices"][0]
        message = choice.get("message") or {"content": choice.get("text")}
        said = message.get("content") or "", message.get("reasoning") or ""
        calls = message.get("tool_calls") or []
        return Answer(*said, calls, choice["finish_reason"], payload["usage"], choice.get("logprobs"), payload)
    answer = Answer("", "", [], None, {}, None, {})
    for event in events(body):
        answer.payload = answer.payload or event
        answer.usage = event.get("usage") or answer.usage
        for choice in event.get("choices") or ():
            _read_delta(answer, choice)
    return answer


def events(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON of each event but the last, [DONE]."""
    for line in body.decode().splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _read_delta(answer: Answer, choice: dict[str, Any]) -> None:
    delta = choice.get("delta") or {"content": choice.get("text")}
    answer.content += delta.get("content") or ""
    answer.reasoning += delta.get("reasoning") or ""
    answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
    for piece in delta.get("tool_calls") or ():
        function = piece.get("function") or {}
        if piece["index"] == len(answer.calls):
            answer.calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call = answer.calls[piece["index"]]
        call["id"] += piece.get("id") or ""
        for name in ("name", "arguments"):
            call["function"][name] += function.get(name) or ""
    entries = (choice.get("logprobs") or {}).get("content")
    if entries:
        answer.logprobs = {"content": [*((answer.logprobs or {}).get("content") or ()), *entries]}


def write(call: Call, answer: Answer) -> Reply:
    """The reply that says this, streamed when the client asked for a stream."""
    if call.streams:
        return Reply(200, _stream(call, answer), {"Content-Type": "text/event-stream; charset=utf-8"})
    payload = copy.deepcopy(answer.payload)
    choice = payload["choices"][0]
    if call.path == CHAT:
        choice["message"] |= {"content": answer.content or None, "reasoning": answer.reasoning or None}
        choice["message"]["tool_calls"] = answer.calls
    else:
        choice["text"] = answer.content
    choice |= {"finish_reason": answer.finish_reason, "logprobs": answer.logprobs}
    return as_json(200, {**payload, "usage": answer.usage})


def _stream(call: Call, answer: Answer) -> Iterator[bytes]:
    head = {name: value for name, value in answer.payload.items() if name not in ("choices", "usage")}
    entries = iter((answer.logprobs or {}).get("content") or ())

    def event(delta: dict[str, Any], finish: str | None = None, logprobs: Any = None) -> bytes:
        member = {"delta": delta} if call.path == CHAT else {"text": delta.get("content") or ""}
        return sent({**head, "choices": [{"index": 0, **member, "logprobs": logprobs, "finish_reason": finish}]})

    if call.path == CHAT:
        yield event({"role": "assistant", "content": ""})
    for name, value in (("reasoning", answer.reasoning), ("content", answer.content)):
        for piece in _PIECE.findall(value):
            entry = next(entries, None)
            yield event({name: piece}, None, entry and {"content": [entry]})
    for index, item in enumerate(answer.calls):
        yield event({"tool_calls": [{"index": index, **item}]})
    rest = list(entries)
    yield event({}, answer.finish_reason, {"content": rest} if rest else None)
    if (call.body.get("stream_options") or {}).get("include_usage"):
        yield sent({**head, "choices": [], "usage": answer.usage})
    yield b"data: [DONE]\n\n"


def sent(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"
