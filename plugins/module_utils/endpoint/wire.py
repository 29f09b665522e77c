# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""HTTP over one connection that stays open, with as little between the clock and the wire as can be."""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from . import failure
from .address import Address
from .client import CONNECT_TIMEOUT_S, MAX_BODY_BYTES, Client, status_error
from .failure import EndpointError

_READ_BYTES = 1 << 16


class Connection(Client):
    """A client for one thread. `requests` takes a millisecond for each request, which a benchmark would report as the
    server's; and a client in production keeps its connection open, as vLLM's own benchmark does.

    Like its base it uses no proxy, follows no redirect and gives the key to this origin alone.
    """

    def __init__(self, address: Address, *, api_key: str | None = None, verify: bool | str = True) -> None:
        super().__init__(address, api_key=api_key, verify=verify)
        url = urlsplit(address.root)
        self._prefix = url.path
        self._has_answered = False
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        if url.scheme == "https":
            context = _context(verify)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                address.host, address.port, timeout=CONNECT_TIMEOUT_S, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_TIMEOUT_S)

    def open(self) -> None:
        """Connect anew ahead of the first request, so that no request's time holds it: an idle one may be closed."""
        self._connection.close()
        self._has_answered = False
        with _translated(CONNECT_TIMEOUT_S):
            self._connection.connect()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _open(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> Iterator[Iterator[bytes]]:
        deadline = time.monotonic() + timeout
        done = False
        try:
            with _translated(timeout):
                # what a new connection of TLS has to be read is no end, but the server's session tickets
                if self._connection.sock is None or (self._has_answered and _is_closed(self._connection.sock)):
                    self._has_answered = False
                    self._connection.close()
                    self._connection.timeout = min(CONNECT_TIMEOUT_S, timeout)
                    self._connection.connect()
                self._connection.sock.settimeout(timeout)
                data = None if body is None else json.dumps(body).encode()
                self._connection.request(method, self._prefix + path, data, self._headers)
                response = self._connection.getresponse()
                chunks = _chunks(response, deadline, timeout)
                if response.status != 200:
                    raise status_error(response.status, b"".join(chunks))
                yield chunks
                for _rest in chunks:
                    pass
            done = self._has_answered = True
        finally:
            if not done:  # what is left of this answer must not be taken for the next one's
                self._connection.close()


def _is_closed(connection: socket.socket) -> bool:
    """Whether the server has hung up since the last answer: then there is something to read, its end."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _context(verify: bool | str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
    if verify is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _chunks(response: http.client.HTTPResponse, deadline: float, timeout: float) -> Iterator[bytes]:
    total = 0
    while piece := response.read1(_READ_BYTES):
        total += len(piece)
        if total > MAX_BODY_BYTES:
            raise EndpointError(failure.TOO_LARGE, f"the answer is larger than {MAX_BODY_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise EndpointError(failure.TIMEOUT, f"the answer did not end within {timeout:.0f} s")
        yield piece


@contextmanager
def _translated(timeout: float) -> Iterator[None]:
    """Name what http.client, ssl and the socket raise."""
    try:
        yield
    except TimeoutError as error:
        raise EndpointError(failure.TIMEOUT, f"no answer within {timeout:.0f} s") from error
    except ssl.SSLError as error:
        raise EndpointError(failure.TLS, f"the TLS connection failed: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        kind = failure.REFUSED if isinstance(error, ConnectionRefusedError) else failure.UNREACHABLE
        raise EndpointError(kind, str(error) or type(error).__name__) from error
