# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The address of an endpoint; standard library only, because it is asked before a virtual environment is entered."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..errors import ServingError


@dataclass(frozen=True)
class Address:
    """root: scheme, host and port without a path (`http://127.0.0.1:8000`), or with the prefix of a reverse proxy."""

    root: str
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """The host is this machine: one of its addresses can be bound here."""
        try:
            for family, _kind, _protocol, _name, address in socket.getaddrinfo(self.host, 0, type=socket.SOCK_STREAM):
                if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
                    return True
                with socket.socket(family, socket.SOCK_STREAM) as probe:
                    probe.bind(address)
                return True
        except (OSError, UnicodeError):
            pass
        return False

    def is_listening(self, timeout: float = 3.0) -> bool:
        """Whether a TCP connection is accepted; vLLM binds its port early but accepts only after the engine is up."""
        try:
            with socket.create_connection((self.host, self.port), timeout=timeout):
                return True
        except OSError:
            return False


def parse(base_url: str) -> Address:
    """Accepts the server's root or its `/v1`; raises ServingError for anything that is no HTTP address."""
    try:
        url = urlsplit(base_url.strip())
        port = url.port or {"http": 80, "https": 443}.get(url.scheme, 0)
        (url.hostname or "").encode("idna")
    except ValueError as error:  # also UnicodeError, for a label that is empty or too long
        raise _no_address("base_url") from error
    unclear = url.username is not None or url.query or url.fragment
    if not url.hostname or not port or unclear or not _is_one_word(base_url.strip()):
        raise _no_address(url.hostname or "base_url")
    path = url.path.rstrip("/").removesuffix("/v1").rstrip("/")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return Address(f"{url.scheme}://{host}:{port}{path}", url.hostname, port)


def _is_one_word(text: str) -> bool:
    return text.isprintable() and " " not in text


def _no_address(where: str) -> ServingError:
    return ServingError(
        "base_url is not the address of an endpoint",
        where=where if _is_one_word(where) else "base_url",
        why="it needs http or https, a host and a valid port, and may hold no user, password or query",
        remedy="Give the server's root, for example http://127.0.0.1:8000",
    )
