# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An endpoint that knows a few answers, and breaks on demand.

`fault` is called with each exchange before the right answer is given; it returns True when it has answered itself.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWERS = {
    "What is the capital of France? Answer briefly.": ("Simple fact.", "Paris"),
    "What is 17*23?": ("17*23=391.", "391"),
    "Count from 1 to 50.": ("Just count.", " ".join(str(number) for number in range(1, 51))),
}
QUESTIONS: list[dict[str, Any]] = [
    {"name": "capital", "prompt": "What is the capital of France? Answer briefly.", "expect": "^Paris$"},
    {"name": "product", "prompt": "What is 17*23?", "expect": "^391$", "thinking": True},
]


@dataclass
class Exchange:
    """One request, and the ways to answer it."""

    handler: BaseHTTPRequestHandler
    path: str
    number: int
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        messages: list[dict[str, Any]] = self.body.get("messages") or [{"content": ""}]
        return str(messages[-1]["content"])

    @property
    def thinking(self) -> bool:
        return (self.body.get("chat_template_kwargs") or {}).get("thinking", True) is not False

    def send(self, status: int, text: str | bytes, kind: str = "application/json", **headers: str) -> bool:
        data = text.encode() if isinstance(text, str) else text
        self.handler.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(data)
        return True

    def stream(self, *pieces: str) -> bool:
        """Each piece is written and flushed as it is; the connection is closed after the last."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        self.handler.end_headers()
        for piece in pieces:
            self.handler.wfile.write(piece.encode())
            self.handler.wfile.flush()
        return True

    def answer(self, content: str | None, reasoning: str | None = None, finish: str = "stop", **more: Any) -> bool:
        """A complete answer, streamed when that was asked for. more: field (of the reasoning), usage."""
        name = more.get("field", "reasoning")
        tokens = len((content or "").split()) + len((reasoning or "").split()) + 1
        usage = more.get("usage", {"prompt_tokens": 12, "completion_tokens": tokens})
        if not self.body.get("stream"):
            message = {"role": "assistant", "content": content, name: reasoning}
            choices = [{"index": 0, "message": message, "finish_reason": finish}]
            return self.send(200, json.dumps({"choices": choices, "usage": usage}))
        pieces = [delta({"role": "assistant", "content": ""})]
        pieces += [delta({name: word}) for word in _words(reasoning)]
        pieces += [delta({"content": word}) for word in _words(content)]
        pieces += [delta({}, finish), f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n", "data: [DONE]\n\n"]
        return self.stream(*pieces)


def delta(values: dict[str, Any], finish: str | None = None) -> str:
    """One event of a stream."""
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': values, 'finish_reason': finish}]})}\n\n"


def _words(text: str | None) -> list[str]:
    return [word if number == 0 else f" {word}" for number, word in enumerate((text or "").split(" ")) if word]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away early is what some tests are about."""
        if not isinstance(sys.exc_info()[1], ConnectionError | ValueError):
            super().handle_error(request, client_address)


Fault = Callable[[Exchange], bool]


@dataclass
class Endpoint:
    """A running server. seen: (path, headers) of every request."""

    model: str = "kimi"
    max_model_len: int = 8192
    api_key: str | None = None
    fault: Fault | None = None
    metrics: Callable[[], str] = lambda: ""
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[Endpoint]:
        server = _Server(("127.0.0.1", self.port), self._handler())
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join(timeout=5)

    def _respond(self, exchange: Exchange) -> None:
        self.seen.append((exchange.path, dict(exchange.handler.headers)))
        exchange.number = sum(1 for path, _headers in self.seen if path == exchange.path)
        if self.fault and self.fault(exchange):
            return
        given = exchange.handler.headers.get("Authorization")
        if exchange.path == "/metrics":
            exchange.send(200, self.metrics(), "text/plain")
        elif self.api_key and given != f"Bearer {self.api_key}":
            exchange.send(401, '{"error": "Unauthorized"}')
        elif exchange.path == "/v1/models":
            entry = {"id": self.model, "object": "model", "max_model_len": self.max_model_len}
            exchange.send(200, json.dumps({"object": "list", "data": [entry]}))
        elif exchange.path != "/v1/chat/completions":
            exchange.send(404, '{"detail": "Not Found"}')
        elif exchange.body.get("model") != self.model:
            exchange.send(404, json.dumps({"error": {"message": "The model `x` does not exist.", "code": 404}}))
        else:
            reasoning, content = ANSWERS.get(exchange.prompt, ("I do not know.", "I do not know."))
            exchange.answer(content, reasoning if exchange.thinking else None)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                endpoint._respond(Exchange(self, self.path, 0))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                endpoint._respond(Exchange(self, self.path, 0, json.loads(body)))

            def log_message(self, *_arguments: Any) -> None:
                """Nothing: a test's output is its result."""

        return Handler
