# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP proxy on a loopback port that stands in front of a real server and breaks one thing."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .upstream import Upstream
from .wire import Call, Reply

# Stands between the client and the server: gets the call and the way to the real server, returns what the client gets.
Forward = Callable[[Call], Reply]
Behaviour = Callable[[Call, Forward], Reply]
MAX_REQUEST_BYTES = 8 << 20
MAX_REQUESTS = 5000
SOCKET_TIMEOUT_S = 200.0


def honest(call: Call, forward: Forward) -> Reply:
    """No fault."""
    return forward(call)


class Proxy:
    """One fault in front of one real server. seen: (method, path) of every request; errors: of the proxy itself."""

    def __init__(self, upstream: Upstream, behaviour: Behaviour = honest) -> None:
        self.upstream = upstream
        self.behaviour = behaviour
        self.seen: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join(timeout=5)

    def respond(self, call: Call) -> Reply:
        self.seen.append((call.method, call.path))
        if len(self.seen) > MAX_REQUESTS:
            raise RuntimeError(f"more than {MAX_REQUESTS} requests")
        return self.behaviour(call, self.upstream.forward)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is part of some faults."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = SOCKET_TIMEOUT_S

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            if length > MAX_REQUEST_BYTES:
                self.send_error(413)
                return
            self._answer(json.loads(self.rfile.read(length)))

        def _answer(self, body: dict[str, Any]) -> None:
            try:
                reply = proxy.respond(Call(self.command, self.path, dict(self.headers), body))
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Connection": "close"}.items():
                    self.send_header(name, value)
                self.end_headers()
                for chunk in reply.chunks:
                    self.wfile.write(chunk)
                    self.wfile.flush()
            except ConnectionError:
                raise
            except Exception as error:
                proxy.errors.append(f"{self.path}: {type(error).__name__}: {error}")
                raise

        def log_message(self, *_arguments: Any) -> None:
            """Nothing: a test's output is its result."""

    return Handler
