# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""HTTP to the Hub: one GET, redirects followed, the token kept to the origin it is for.

Proxies (HTTP_PROXY, HTTPS_PROXY, NO_PROXY) and certificate bundles (SSL_CERT_FILE) of the environment are honoured.
"""

from __future__ import annotations

import email.message
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Any

from ..errors import ServingError

USER_AGENT = "blackwell.serving"
READ_LIMIT_BYTES = 1 << 28
LONGEST_STALL_S = 86400


class HubAnswer(Exception):
    """An error status. `by_hub` is false when another origin, to which the Hub redirected, gave it."""

    def __init__(self, status: int, headers: Any = None, *, message: str | None = None, by_hub: bool = True) -> None:
        headers = headers if headers is not None else {}
        self.status = status
        self.code: str | None = headers.get("X-Error-Code")
        told = message or headers.get("X-Error-Message")
        self.message: str | None = " ".join(told.split()).rstrip(".") if told else None
        self.retry_after: str | None = headers.get("Retry-After")
        self.rate_limit: str | None = headers.get("RateLimit")
        self.by_hub = by_hub
        super().__init__(" ".join(filter(None, (f"HTTP {status}", self.code, self.message))))


class ConnectionTrouble(Exception):
    """No answer, or one that broke off or does not fit (`answered`); the text says how."""

    def __init__(self, text: str, *, answered: bool = False) -> None:
        super().__init__(text)
        self.answered = answered


def trouble(error: object, *, answered: bool = False, at: str | None = None) -> ConnectionTrouble:
    """The same in words, for an error of the socket or of http.client.

    at: the host that the Hub redirected to, which a firewall may not know
    """
    text = "no byte arrived in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return ConnectionTrouble(f"{at}, to which the Hub redirects: {text}" if at else text, answered=answered)


def origin_of(url: str) -> tuple[str, str, int | None]:
    parts = urllib.parse.urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or default


class _Request(urllib.request.Request):
    """`redirected_to` is the host that the last redirect named, None before there was one."""

    def __init__(self, url: str, headers: dict[str, str], first: _Request | None = None) -> None:
        super().__init__(url, headers=headers, method="GET")
        self.first = first or self
        self.redirected_to: str | None = None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow 301 to 308 with the same headers; the token goes along only to the origin of the endpoint."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if origin_of(req.full_url)[0] == "https" and origin_of(newurl)[0] != "https":
            raise ConnectionTrouble(f"redirect from https to {newurl.split('?')[0]!r} refused")
        onward = _Request(newurl, dict(req.headers), req.first if isinstance(req, _Request) else None)
        onward.first.redirected_to = urllib.parse.urlsplit(newurl).hostname
        token = req.get_header("Authorization")
        if token and origin_of(newurl) == origin_of(req.full_url):
            onward.add_unredirected_header("Authorization", token)
        return onward

    def http_error_308(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage
    ) -> Any:
        # Python 3.10 does not know 308.
        return self.http_error_302(req, fp, code, msg, headers)


class Session:
    """GET requests to one endpoint.

    endpoint:  "https://huggingface.co" or a mirror
    token:     sent as a bearer token to the endpoint's origin only
    stall_s:   seconds without a byte (or without a connection) that count as broken
    """

    def __init__(self, endpoint: str, token: str | None = None, *, stall_s: float = 30.0) -> None:
        self.endpoint = _checked_endpoint(endpoint)
        self.token = _checked_token(token)
        self.stall_s = _checked_stall(stall_s)
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.UnknownHandler(),
            _Redirects(),
        ):
            self._opener.add_handler(handler)

    def get(self, url: str, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
        """The answer, its body unread. Raises HubAnswer for a status of 400 or more, and ConnectionTrouble."""
        # The endpoint's scheme is checked, and the opener knows no file:.
        request = _Request(url, {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **(headers or {})})
        if self.token and origin_of(url) == origin_of(self.endpoint):
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            response: http.client.HTTPResponse = self._opener.open(request, timeout=self.stall_s)
        except urllib.error.HTTPError as error:
            with error:
                by_hub = origin_of(error.url or url) == origin_of(self.endpoint)
                raise HubAnswer(error.code, error.headers, by_hub=by_hub) from None
        except urllib.error.URLError as error:
            raise trouble(error.reason, at=request.redirected_to) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise trouble(error, at=request.redirected_to) from error
        return response

    def read(self, url: str, *, limit: int = READ_LIMIT_BYTES) -> tuple[bytes, email.message.Message]:
        """A whole small body and its headers."""
        with self.get(url) as response:
            try:
                body = response.read(limit + 1)
            except (OSError, http.client.HTTPException) as error:
                raise trouble(error, answered=True) from error
            expected = response.headers.get("Content-Length")
        if len(body) > limit:
            raise ServingError("the Hub's answer is larger than expected", where=url, why=f"more than {limit} bytes")
        if expected is not None and expected.isdigit() and int(expected) != len(body):
            raise ConnectionTrouble(f"the body ended after {len(body)} of {expected} bytes", answered=True)
        return body, response.headers


def _checked_token(token: str | None) -> str | None:
    """Refused without showing it; http.client would show it."""
    if token and not re.fullmatch(r"[!-~]+", token):
        raise ServingError("the token holds characters that no token has", remedy="Set token (or HF_TOKEN) anew")
    return token


def _checked_endpoint(endpoint: str) -> str:
    if not _is_endpoint(endpoint):
        raise ServingError(
            "the endpoint is not an http or https address",
            where=re.sub(r"//.*@", "//...@", endpoint),  # what stands there may be a password
            remedy="Set endpoint (or HF_ENDPOINT) to something like https://huggingface.co",
        )
    return endpoint.rstrip("/")


def _is_endpoint(endpoint: str) -> bool:
    if not endpoint.isprintable() or " " in endpoint:
        return False
    try:
        parts = urllib.parse.urlsplit(endpoint)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not ("@" in parts.netloc or parts.query or parts.fragment)
        )
    except ValueError:  # a port or an IPv6 address that is none
        return False


def _checked_stall(seconds: float) -> float:
    if not 0 < seconds <= LONGEST_STALL_S:  # not a number is out of any range
        raise ServingError(
            "the time without a byte is out of range",
            where=f"{seconds} s",
            remedy=f"Set stall_timeout to more than 0 and at most {LONGEST_STALL_S} seconds",
        )
    return seconds
