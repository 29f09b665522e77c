# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""HTTP to one endpoint: bounded in time and size, without proxies, without redirects."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

try:
    import requests
    import urllib3

    HAS_REQUESTS = True
except ImportError:
    HAS_REQUESTS = False

from . import failure
from .address import Address
from .deadline import ended_at
from .failure import EndpointError

CONNECT_TIMEOUT_S = 5.0
MAX_BODY_BYTES = 16 << 20
HIDDEN = "********"
SHORTEST_HIDDEN = 8
_READ_BYTES = 1 << 16
# Nothing is wrong with the request: a gateway's limit of its rate or time.
_TOO_BUSY = (408, 425, 429)


def hide(text: str, secret: str | None) -> str:
    """The text without the secret that a server says back; before any cut, as a part of it would not be found.

    A short one is a word or a number that honest answers hold, too; Ansible takes it out of what the task says.
    """
    return text.replace(secret, HIDDEN) if secret and len(secret) >= SHORTEST_HIDDEN else text


class Client:
    """A session with the endpoint.

    Nothing of the caller's environment is used: a proxy would answer for a loopback address, and a .netrc would replace
    the key. Redirects are errors, so the key never reaches another origin. Every request has its own connection,
    because a server that closes an idle one would look like a server that failed.
    """

    def __init__(self, address: Address, *, api_key: str | None = None, verify: bool | str = True) -> None:
        self.address = address
        self._verify = verify
        self._api_key = api_key
        self._headers = {"Connection": "close"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def get_json(self, path: str, *, timeout: float) -> Any:
        """The JSON that a GET answers."""
        return _json(self.get_text(path, timeout=timeout))

    def get_text(self, path: str, *, timeout: float) -> str:
        """The body that a GET answers."""
        with self._open("GET", path, None, timeout) as chunks:
            return self.hide(b"".join(chunks).decode(errors="replace"))

    def post_json(self, path: str, body: dict[str, Any], *, timeout: float) -> Any:
        """The JSON that a POST answers within `timeout` seconds, body included."""
        with self._open("POST", path, body, timeout) as chunks:
            return _json(self.hide(b"".join(chunks).decode(errors="replace")))

    def hide(self, text: str) -> str:
        """The text without the key."""
        return hide(text, self._api_key)

    @contextmanager
    def stream(self, path: str, body: dict[str, Any], *, timeout: float) -> Iterator[Iterator[bytes]]:
        """The chunks of the answer as they arrive, `timeout` seconds in all."""
        with self._open("POST", path, body, timeout) as chunks:
            yield chunks

    @contextmanager
    def _open(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> Iterator[Iterator[bytes]]:
        deadline = time.monotonic() + timeout
        with _translated(timeout, deadline), requests.Session() as session, ended_at(deadline, session):
            session.trust_env = False
            # requests reads a Location even where it is not to follow it, and fails for one that is no address
            session.resolve_redirects = lambda *words, **options: iter(())  # type: ignore[method-assign]
            response = session.request(
                method,
                self.address.root + path,
                headers=self._headers,
                json=body,
                verify=self._verify,
                stream=True,
                allow_redirects=False,
                timeout=(min(CONNECT_TIMEOUT_S, timeout), timeout),
            )
            try:
                chunks = _chunks(response, deadline, timeout)
                _raise_for_status(response, chunks, self._api_key)
                yield chunks
            finally:
                response.close()


def _chunks(response: requests.Response, deadline: float, timeout: float) -> Iterator[bytes]:
    """Bytes as they arrive. read1 returns what is there; a plain read would wait until its buffer is full."""
    total = 0
    read1 = getattr(response.raw, "read1", None)
    pieces = iter(lambda: read1(_READ_BYTES, decode_content=True), b"") if read1 else response.iter_content(1)
    for piece in pieces:
        total += len(piece)
        if total > MAX_BODY_BYTES:
            raise EndpointError(failure.TOO_LARGE, f"the answer is larger than {MAX_BODY_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise EndpointError(failure.TIMEOUT, f"the answer did not end within {timeout:.0f} s")
        yield piece
    if time.monotonic() > deadline:
        raise EndpointError(failure.TIMEOUT, f"the answer did not end within {timeout:.0f} s")


@contextmanager
def _translated(timeout: float, deadline: float) -> Iterator[None]:
    """Name what requests and urllib3 raise."""
    try:
        yield
    except (requests.exceptions.SSLError, urllib3.exceptions.SSLError) as error:
        raise EndpointError(failure.TLS, f"the TLS connection failed: {_innermost(error)}") from error
    except (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError) as error:
        raise EndpointError(failure.TIMEOUT, f"no answer within {timeout:.0f} s") from error
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
        if time.monotonic() > deadline:
            raise EndpointError(failure.TIMEOUT, f"no answer within {timeout:.0f} s") from error
        cause = _innermost(error)
        kind = failure.REFUSED if isinstance(cause, ConnectionRefusedError) else failure.UNREACHABLE
        # one line: a server of another protocol is quoted with its own line ends
        raise EndpointError(kind, " ".join(str(cause).split())[:400] or type(cause).__name__) from error


def _innermost(error: BaseException) -> BaseException:
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        inner = getattr(error, "reason", None) or error.__cause__ or error.__context__
        if not isinstance(inner, BaseException) or isinstance(inner, TypeError | AttributeError):
            break
        error = inner
    return error


def _raise_for_status(response: requests.Response, chunks: Iterator[bytes], secret: str | None) -> None:
    if response.status_code != 200:
        raise status_error(response.status_code, b"" if response.is_redirect else b"".join(chunks), secret)


def status_error(status: int, body: bytes, secret: str | None = None) -> EndpointError:
    """What a status other than 200 means; secret: not to be repeated."""
    if 300 <= status < 400:
        return EndpointError(
            failure.REDIRECT,
            "it redirects elsewhere, which is never followed; correct base_url",
            status=status,
        )
    said = error_text(hide(body.decode(errors="replace"), secret))
    message = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    if status in (401, 403):
        kind = failure.AUTH
    elif status == 404 and "model" in said and "does not exist" in said:
        kind = failure.WRONG_MODEL
    elif status in (404, 405) or status < 400:
        kind = failure.NOT_OPENAI
    else:
        kind = failure.SERVER_ERROR if status >= 500 or status in _TOO_BUSY else failure.REJECTED
    return EndpointError(kind, message, status=status)


def error_text(body: str) -> str:
    """The server's own words, at most 400 characters: OpenAI's error object, FastAPI's `detail`, or the bare body."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = body
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    if isinstance(value, dict) and value.get("message"):
        value = value["message"]
    text = value if isinstance(value, str) else json.dumps(value)
    return " ".join(text.split())[:400]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EndpointError(failure.NOT_OPENAI, f"the answer is not JSON: {text[:200]!r}") from error
