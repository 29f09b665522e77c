# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real server behind the proxy: its replies, and its own count of tokens."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from .wire import CHAT, Call, Reply

TIMEOUT_S = 180.0
MAX_REPLY_BYTES = 32 << 20
_PASSED_ON = ("Authorization", "Content-Type", "Accept")
# What decides how a prompt is made of messages; the rest of a request does not change its tokens.
_TEMPLATE = ("messages", "tools", "chat_template_kwargs")


class Upstream:
    """A real server. With `remember`, the same request is sent to it once: greedy answers do not change between the
    runs of a matrix. What comes after a reading of the server's counters always goes to it, because they measure it."""

    def __init__(self, url: str, key: str | None = None, *, remember: bool = False) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "", address.port or 80
        self._key = key
        self._remember = remember
        self._known: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self._lock = threading.Lock()
        self._measured = False
        self._served: tuple[str, int] | None = None
        self.forwarded = self.remembered = 0

    def knows(self, call: Call) -> bool:
        """Whether the reply is remembered."""
        with self._lock:
            return _memory(call) in self._known

    def forward(self, call: Call) -> Reply:
        """The real server's reply to a call."""
        memory = _memory(call)
        if call.path == "/metrics":
            self._measured = True
        if not self._remember or call.method != "POST":
            return self._send(call)
        with self._lock:
            known = None if call.generates and self._measured else self._known.get(memory)
            self._measured = self._measured and not call.generates
        if known is None:
            reply = self._send(call)
            reply.chunks = self._recorded(memory, reply, reply.chunks)
            return reply
        with self._lock:
            self.remembered += 1
        return Reply(known[0], [known[1]], dict(known[2]))

    def _recorded(self, memory: str, reply: Reply, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks as they come; what came to its end is remembered."""
        seen = []
        for chunk in chunks:
            seen.append(chunk)
            yield chunk
        if reply.status == 200:
            with self._lock:
                self._known[memory] = (reply.status, b"".join(seen), reply.headers)

    def served(self) -> tuple[str, int]:
        """The name of the first served model, and its context length in tokens."""
        if self._served is None:
            entry = self._ask("/v1/models", {})["data"][0]
            self._served = str(entry["id"]), int(entry["max_model_len"])
        return self._served

    def prompt_tokens(self, call: Call) -> list[int]:
        """The prompt of a generation as the server's own tokenizer and chat template make it."""
        prompt = call.body.get("prompt")
        if call.path != CHAT and isinstance(prompt, list):
            return [int(token) for token in prompt]
        if call.path == CHAT:
            asked = {name: call.body[name] for name in _TEMPLATE if name in call.body}
        else:
            asked = {"prompt": prompt}
        return list(self._ask("/tokenize", {"model": call.body.get("model"), **asked})["tokens"])

    def cut(self, model: str, text: str, tokens: int) -> int:
        """How many characters of the text its first tokens make."""
        asked = {"model": model, "prompt": text, "add_special_tokens": False}
        known = self._ask("/tokenize", asked)["tokens"]
        if len(known) <= tokens:
            return len(text)
        head: str = self._ask("/detokenize", {"model": model, "tokens": known[:tokens]})["prompt"]
        return len(head)

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        reply = self.forward(Call("POST" if body else "GET", path, headers, body))
        if reply.status != 200:
            raise RuntimeError(f"{path} of the real server says {reply.status}: {reply.read()[:300]!r}")
        found: dict[str, Any] = json.loads(reply.read())
        return found

    def _send(self, call: Call) -> Reply:
        with self._lock:
            self.forwarded += 1
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        headers = {name: call.headers[name] for name in _PASSED_ON if name in call.headers}
        body = json.dumps(call.body).encode() if call.method == "POST" else None
        try:
            connection.request(call.method, call.path, body, {**headers, "Connection": "close"})
            response = connection.getresponse()
        except OSError as error:
            connection.close()
            raise RuntimeError(f"the real server does not answer: {error}") from error
        kind = response.headers.get("Content-Type", "application/json")
        return Reply(response.status, _chunks(connection, response), {"Content-Type": kind})


def _memory(call: Call) -> str:
    return json.dumps([call.path, call.headers.get("Authorization"), call.body], sort_keys=True)


def _chunks(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[bytes]:
    total = 0
    try:
        while piece := response.read1(1 << 16):
            total += len(piece)
            if total > MAX_REPLY_BYTES:
                raise RuntimeError(f"the real server sent more than {MAX_REPLY_BYTES >> 20} MiB")
            yield piece
    finally:
        connection.close()
