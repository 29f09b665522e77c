# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that break the protocol: each is one state of the ladder and one message, in bounded time and memory."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import (
    address,
    battery,
    client,
    readiness,
    verdict,
)
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import read_sections
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from simulation.endpoint.bad_server import (
    BadServer,
    Respond,
    drip,
    flood,
    raw,
    self_signed,
    silent,
    whole,
)

KEY = "sk-canary-0123456789"
LIMIT_S = 1.2
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MODELS = whole(b'{"object": "list", "data": [{"id": "kimi", "max_model_len": 8192}]}')
SECTIONS = read_sections({})


def bomb(layers: int) -> bytes:
    """512 MiB of zeros, compressed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _mebibyte in range(512)) + packer.flush()
    return packed if layers == 1 else gzip.compress(packed, 9)


SERVERS: dict[str, tuple[Respond, str, str]] = {
    "401": (whole(b'{"error": "Unauthorized"}', "401 Unauthorized"), "auth_required", "401"),
    "403": (whole(b"{}", "403 Forbidden"), "auth_required", "403"),
    "wrong path": (whole(b'{"detail": "Not Found"}', "404 Not Found"), "listening", "Not Found"),
    "a page": (whole(b"<html>nginx</html>"), "listening", "not JSON"),
    "nothing, closed": (raw(b""), "no_response", ""),
    "another protocol": (raw(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), "no_response", ""),
    "TLS alert": (raw(b"\x15\x03\x01\x00\x02\x02\x50"), "no_response", ""),
    "silence": (silent, "no_response", "within"),
    "bytes for ever": (flood(OK + b"\r\n"), "listening", "larger than"),
    "a body byte by byte": (drip(OK + b"\r\n"), "no_response", "within"),
    "a header byte by byte": (drip(OK + b"X: "), "no_response", "within"),
    "a chunk's size byte by byte": (drip(OK + b"Transfer-Encoding: chunked\r\n\r\n5;"), "no_response", "within"),
    "headers for ever": (flood(OK + b"X: "), "no_response", ""),
    "many headers": (raw(OK + b"Y: z\r\n" * 500 + b"\r\n{}"), "no_response", ""),
    "interim answers for ever": (flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), "no_response", ""),
    "a huge body": (flood(OK + b"Content-Length: 10737418240\r\n\r\n"), "listening", "larger than"),
    "a huge body that never comes": (drip(OK + b"Content-Length: 10737418240\r\n\r\n", b""), "no_response", "within"),
    "less than announced": (raw(OK + b"Content-Length: 50\r\n\r\n{}"), "no_response", ""),
    "two lengths": (raw(OK + b"Content-Length: 5, 6\r\n\r\n{}"), "no_response", ""),
    "a gzip bomb": (whole(bomb(1), "200 OK", "Content-Encoding: gzip"), "listening", "larger than"),
    "a bomb in a bomb": (whole(bomb(2), "200 OK", "Content-Encoding: gzip, gzip"), "listening", "larger than"),
    "no gzip": (whole(b"{}", "200 OK", "Content-Encoding: gzip"), "no_response", ""),
    "a status that is none": (raw(b"HTTP/1.1 20x OK\r\n\r\n{}"), "no_response", ""),
    "an unknown status": (raw(b"HTTP/1.1 999 Odd\r\n\r\n{}"), "listening", "999"),
    "deep JSON": (whole(b"[" * 300_000), "listening", "not JSON"),
    "deep JSON as an error": (whole(b"[" * 300_000, "500 Internal Server Error"), "listening", "500"),
    "a number too long": (whole(b'{"data": ' + b"9" * 50_000 + b"}"), "listening", "not JSON"),
    "no text": (whole(b"\xff\xfe\x00{}"), "listening", "not JSON"),
    "a redirect": (whole(b"", "307 Temporary Redirect", "Location: http://127.0.0.1:9/"), "listening", "redirects"),
    "a redirect to itself": (whole(b"", "302 Found", "Location: /v1/models"), "listening", "redirects"),
    "a redirect to nowhere": (whole(b"", "308 Permanent Redirect", "Location: http://[bad"), "listening", "redirects"),
    "a redirect without a place": (whole(b"", "301 Moved Permanently"), "listening", "redirects"),
    "no list": (whole(b'"models"'), "listening", "list of models"),
    "null": (whole(b"null"), "listening", "list of models"),
    "no models": (whole(b'{"data": []}'), "wrong_model", "none"),
    "models without a name": (whole(b'{"data": [1, null, {}, {"id": ""}]}'), "wrong_model", "none"),
}
GENERATIONS = {
    **{name: (respond, "generation_failed", said) for name, (respond, _state, said) in SERVERS.items()},
    "401": (SERVERS["401"][0], "auth_required", "401"),
    "403": (SERVERS["403"][0], "auth_required", "403"),
    "no list": (SERVERS["no list"][0], "generation_failed", "choices"),
    "null": (SERVERS["null"][0], "generation_failed", "choices"),
    "no models": (SERVERS["no models"][0], "generation_failed", "choices"),
    "models without a name": (SERVERS["models without a name"][0], "generation_failed", "choices"),
    "another model": (
        whole(b'{"error": {"message": "The model `kimi` does not exist."}}', "404 Not Found"),
        "wrong_model",
        "does not exist",
    ),
}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits of time and size, so that a busy machine reaches the one that a test is about."""
    monkeypatch.setattr(readiness, "_PROBE_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(client, "MAX_BODY_BYTES", 2 << 20)


def examine(url: str, **options: Any) -> battery.Report:
    context = Context(
        Client(address.parse(url), api_key=KEY, **options),
        SECTIONS["exact_set"],
        SECTIONS,
        request_timeout=LIMIT_S,
        deadline=time.monotonic() + 20,
    )
    plan = battery.Plan(readiness.Limits(0, 0, 5, 0.05), model="kimi", warmup_timeout=LIMIT_S)
    return battery.examine(context, plan)


def check(report: battery.Report, state: str, said: str) -> None:
    """One state, one message of one line, and the key in none of it."""
    assert report.state == state
    assert state in verdict.LADDER
    assert report.problem is not None
    message = str(report.problem)
    assert said in message
    assert "\n" not in message
    assert len(message) < 1500
    assert [item.name for item in report.checks] == list(battery.NAMES)
    assert {item.status for item in report.checks[1:]} == {"not_run"}
    assert KEY not in json.dumps([report.as_result(), message])


@pytest.mark.parametrize("name", SERVERS)
def test_no_endpoint_at_all(name: str) -> None:
    respond, state, said = SERVERS[name]
    began = time.monotonic()
    tracemalloc.start()
    with BadServer(respond).running() as server:
        check(examine(server.url), state, said)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.monotonic() - began < LIMIT_S + 10
    assert peak < 32 << 20
    assert len(server.requests) == 1, "what will not heal is asked once"


@pytest.mark.parametrize("name", GENERATIONS)
def test_no_generation(name: str) -> None:
    respond, state, said = GENERATIONS[name]

    def either(connection: Any, request: bytes) -> bytes:
        if request.startswith(b"GET /v1/models "):
            return MODELS(connection, request)
        return respond(connection, request) if request.startswith(b"POST ") else b"HTTP/1.1 404 Not Found\r\n\r\n"

    began = time.monotonic()
    with BadServer(either).running() as server:
        check(examine(server.url), state, said)
    assert time.monotonic() - began < LIMIT_S + 10


def test_nobody_listens() -> None:
    with BadServer(silent).running() as server:
        pass
    check(examine(server.url), "no_response", "refused")


@pytest.mark.parametrize(
    ("name", "days", "trusted", "said"),
    [
        ("127.0.0.1", 1, False, "self-signed"),
        ("127.0.0.1", -1, True, "expired"),
        ("other.example", 1, True, "127.0.0.1"),
    ],
)
def test_certificates_that_prove_nothing(tmp_path: Path, name: str, days: int, trusted: bool, said: str) -> None:
    tls, file = self_signed(tmp_path, name, days)
    with BadServer(MODELS, tls).running() as server:
        report = examine(server.url, verify=str(file) if trusted else True)
    check(report, "no_response", said)
    assert "ca_path" in str(report.problem)
    assert server.requests in ([], [b""]), "the key is sent to nobody who has not proven who he is"


def test_a_certificate_that_is_trusted_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control; and what the environment trusts does not count."""
    tls, file = self_signed(tmp_path)
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(variable, str(file))
    with BadServer(MODELS, tls).running() as server:
        check(examine(server.url), "no_response", "self-signed")
        check(examine(server.url, verify=str(file)), "generation_failed", "choices")
    assert any(f"Bearer {KEY}".encode() in request for request in server.requests)


def test_plain_http_on_a_tls_port_and_tls_on_a_plain_one(tmp_path: Path) -> None:
    tls, _file = self_signed(tmp_path)
    with BadServer(MODELS, tls).running() as server:
        check(examine(server.url.replace("https:", "http:")), "no_response", "")
    with BadServer(MODELS).running() as server:
        check(examine(server.url.replace("http:", "https:")), "no_response", "TLS")


def test_a_handshake_that_never_ends_is_left() -> None:
    began = time.monotonic()
    with BadServer(silent).running() as server:
        check(examine(server.url.replace("http:", "https:")), "no_response", "within")
    assert time.monotonic() - began < LIMIT_S + 10


@pytest.mark.parametrize(
    "variable", ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
)
def test_no_proxy_of_the_environment_sees_a_request(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with BadServer(whole(b"{}")).running() as proxy, BadServer(whole(b"{}")).running() as server:
        monkeypatch.setenv(variable, proxy.url)
        check(examine(server.url), "listening", "list of models")
        examine("http://models.example:8000")
    assert proxy.requests == []
    assert len(server.requests) == 1


def test_no_netrc_gives_or_replaces_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password of-the-netrc\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    with BadServer(whole(b"{}")).running() as server:
        examine(server.url)
        Client(address.parse(server.url)).get_json("/v1/models", timeout=5)
    with_key, without = server.requests
    assert f"Bearer {KEY}".encode() in with_key
    assert b"Basic" not in with_key
    assert b"authorization" not in without.lower()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_key_never_reaches_another_origin(status: int) -> None:
    with BadServer(whole(b"{}")).running() as other:
        answer = whole(b"", f"{status} Elsewhere", f"Location: {other.url}/v1/models")
        with BadServer(answer).running() as server:
            check(examine(server.url), "listening", "never followed")
        assert f"Bearer {KEY}".encode() in server.requests[0]
    assert other.requests == []
