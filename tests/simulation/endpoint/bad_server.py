# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that break the protocol itself: bytes on a socket, whatever they are."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# Gets the connection and the request's bytes; what it returns is sent, and the connection is closed.
Respond = Callable[[socket.socket, bytes], bytes]
LIFE_S = 10.0


class BadServer:
    """requests: every request that arrived, head and body."""

    def __init__(self, respond: Respond, tls: ssl.SSLContext | None = None) -> None:
        self._respond = respond
        self._tls = tls
        self.requests: list[bytes] = []
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[BadServer]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{listening.getsockname()[1]}"
            threading.Thread(target=self._accept, args=[listening], daemon=True).start()
            yield self
            listening.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _address = listening.accept()
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(LIFE_S)
        with suppress(OSError), connection:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            request = _read(connection)
            self.requests.append(request)
            connection.sendall(self._respond(connection, request))
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _read(connection: socket.socket) -> bytes:
    request = b""
    while b"\r\n\r\n" not in request:
        piece = connection.recv(1 << 16)
        if not piece:
            return request
        request += piece
        if request.startswith(b"\x16"):  # a TLS client's first word, which a server without TLS cannot read
            return request
    head, _blank, body = request.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def whole(body: bytes = b"", status: str = "200 OK", *headers: str) -> Respond:
    """One complete answer."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    answer = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    return lambda _connection, _request: answer


def raw(answer: bytes) -> Respond:
    return lambda _connection, _request: answer


def drip(first: bytes, again: bytes = b"x", pause: float = 0.1) -> Respond:
    """The first bytes at once, then a byte at a time, for as long as the client stays."""

    def respond(connection: socket.socket, _request: bytes) -> bytes:
        connection.sendall(first)
        deadline = time.monotonic() + LIFE_S
        while time.monotonic() < deadline:
            connection.sendall(again)
            time.sleep(pause)
        return b""

    return respond


def flood(first: bytes, again: bytes = b"x" * (1 << 16)) -> Respond:
    """The first bytes, then bytes for ever, as fast as the client takes them."""
    return drip(first, again, 0.0)


def silent(_connection: socket.socket, _request: bytes) -> bytes:
    time.sleep(LIFE_S)
    return b""


def self_signed(folder: Path, name: str = "127.0.0.1", days: int = 1) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context, and the file with its certificate; days: of validity, less than 0 for an expired one."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    try:
        alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=10))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = folder / "key.pem"
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    return context, file
