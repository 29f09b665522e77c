# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Streamed requests in one event loop, as clients in production and vLLM's own benchmark send them.

A thread for each request would take processor time from the server where both share the cores, and would be measured.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

try:
    import aiohttp

    HAS_AIOHTTP = True
except ImportError:
    HAS_AIOHTTP = False

from . import chat, failure
from .address import Address
from .chat import Answer, Request
from .client import CONNECT_TIMEOUT_S, MAX_BODY_BYTES, hide, status_error
from .failure import EndpointError
from .stream import EventDecoder


@dataclass(frozen=True)
class Target:
    """verify: whether the certificate must be valid, or the file with the certificates to trust."""

    address: Address
    api_key: str | None = field(default=None, repr=False)
    verify: bool | str = True


@dataclass(frozen=True)
class Recording:
    """The bytes of a streamed answer as they came, each with the seconds since the request was sent.

    They are read when the clock has stopped: reading costs the machine time too.
    """

    pieces: list[tuple[float, bytes]]
    secret: str | None = field(default=None, repr=False)

    def answer(self) -> Answer:
        """Raises EndpointError for what is no complete answer."""
        decoder = EventDecoder()
        timed = ((at, data) for at, piece in self.pieces for data in decoder.feed(piece))
        return chat.read_stream((at, hide(data, self.secret)) for at, data in timed)


class Sender:
    """Sends requests over connections that stay open, as many as are in flight.

    Nothing of the caller's environment is used, no redirect is followed, and the key goes to this origin alone.
    """

    def __init__(self, session: aiohttp.ClientSession, target: Target) -> None:
        self._session = session
        self._url = target.address.root + chat.PATH
        self._secret = target.api_key

    async def record(self, request: Request, timeout: float) -> Recording:
        """The whole answer within `timeout` seconds, unread; raises EndpointError."""
        await asyncio.sleep(0)  # a connection that the server has closed meanwhile is put away
        body = request.body(stream=True)
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=min(CONNECT_TIMEOUT_S, timeout))
        started = time.monotonic()
        async with _translated(timeout):
            answering = self._session.post(self._url, json=body, allow_redirects=False, timeout=limits)
            async with answering as response:
                pieces = [(at - started, piece) async for at, piece in _pieces(response)]
        if response.status != 200:
            raise status_error(response.status, b"".join(piece for _at, piece in pieces), self._secret)
        return Recording(pieces, self._secret)


@asynccontextmanager
async def opened(target: Target) -> AsyncIterator[Sender]:
    """A sender to the target."""
    headers = {"Accept-Encoding": "identity"}
    if target.api_key:
        headers["Authorization"] = f"Bearer {target.api_key}"
    connector = aiohttp.TCPConnector(limit=0, ssl=_trust(target.verify))
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=jar, trust_env=False) as session:
        yield Sender(session, target)


def _trust(verify: bool | str) -> ssl.SSLContext | bool:
    return ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[float, bytes]]:
    """Bytes as they arrive, with the time."""
    total = 0
    async for piece in response.content.iter_any():
        at = time.monotonic()
        total += len(piece)
        if total > MAX_BODY_BYTES:
            raise EndpointError(failure.TOO_LARGE, f"the answer is larger than {MAX_BODY_BYTES >> 20} MiB")
        yield at, piece


@asynccontextmanager
async def _translated(timeout: float) -> AsyncIterator[None]:
    """Name what aiohttp raises."""
    try:
        yield
    except asyncio.TimeoutError as error:
        raise EndpointError(failure.TIMEOUT, f"no answer within {timeout:.0f} s") from error
    except aiohttp.ClientSSLError as error:
        raise EndpointError(failure.TLS, f"the TLS connection failed: {error}") from error
    except (aiohttp.ClientError, OSError) as error:
        refused = isinstance(getattr(error, "os_error", error), ConnectionRefusedError)
        kind = failure.REFUSED if refused else failure.UNREACHABLE
        raise EndpointError(kind, " ".join(str(error).split())[:400] or type(error).__name__) from error
