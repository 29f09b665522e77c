# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, chat, client, failure
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.endpoint.server import Endpoint, Exchange

MESSAGES = [{"role": "user", "content": "What is 17*23?"}]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


def connect(url: str, **options: str) -> Client:
    return Client(address.parse(url), **options)


def failing(endpoint: Endpoint, path: str = "/v1/models", timeout: float = 5.0) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        connect(endpoint.url).get_json(path, timeout=timeout)
    return caught.value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("https://models.example/kimi/v1", "https://models.example:443/kimi"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_addresses(base_url: str, root: str) -> None:
    assert address.parse(base_url).root == root


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://me:secret@host:1/v1",
        "http://h:1?a=b",
        "http://[::1",
        "http://a..b:80",
        f"http://{'a' * 70}:80",
        "http://127.0.0.1:80/\x1b[31m",
        "http://127.0.0.1:80/a b",
    ],
)
def test_addresses_that_are_none(base_url: str) -> None:
    with pytest.raises(ServingError, match="base_url") as caught:
        address.parse(base_url)
    assert "secret" not in str(caught.value)


def test_local_addresses_are_known() -> None:
    assert address.parse("http://localhost:1").is_local
    assert address.parse("http://0.0.0.0:1").is_local
    assert not address.parse("http://192.0.2.1:1").is_local


def test_environment_is_not_used(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert connect(endpoint.url).get_json("/v1/models", timeout=5)["data"][0]["id"] == "kimi"


def test_key_is_sent_and_its_lack_is_told(endpoint: Endpoint) -> None:
    endpoint.api_key = "sk-right"
    assert failing(endpoint).kind == failure.AUTH
    assert connect(endpoint.url, api_key="sk-right").get_json("/v1/models", timeout=5)["data"]


def test_redirect_is_an_error_and_the_key_goes_nowhere(endpoint: Endpoint) -> None:
    with Endpoint().running() as other:

        def redirect(exchange: Exchange) -> bool:
            return exchange.send(307, "", Location=f"{other.url}/v1/models")

        endpoint.fault = redirect
        with pytest.raises(EndpointError, match="never followed") as caught:
            connect(endpoint.url, api_key="sk-secret").get_json("/v1/models", timeout=5)
        assert caught.value.kind == failure.REDIRECT
        assert other.seen == []


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (400, '{"error": {"message": "No user query found in messages."}}', failure.REJECTED, "No user query"),
        (404, '{"error": {"message": "The model `kimi` does not exist."}}', failure.WRONG_MODEL, "does not exist"),
        (404, '{"detail": "Not Found"}', failure.NOT_OPENAI, "Not Found"),
        (500, '{"error": {"message": "Out of range float values: nan"}}', failure.SERVER_ERROR, "nan"),
        (503, "", failure.SERVER_ERROR, "HTTP 503"),
        (200, "<html>nginx</html>", failure.NOT_OPENAI, "not JSON"),
        (204, "", failure.NOT_OPENAI, "204"),
        (429, '{"detail": "slow down"}', failure.SERVER_ERROR, "HTTP 429: slow down"),
        (500, '{"detail": "\\u001b[31mred\\u0007"}', failure.SERVER_ERROR, "HTTP 500:  [31mred "),
    ],
)
def test_answers_that_are_failures(endpoint: Endpoint, status: int, body: str, kind: str, said: str) -> None:
    endpoint.fault = lambda exchange: exchange.send(status, body)
    error = failing(endpoint)
    assert error.kind == kind
    assert said in error.message


def test_nobody_listens() -> None:
    with pytest.raises(EndpointError, match="refused") as caught:
        connect(f"http://127.0.0.1:{free_port()}").get_json("/v1/models", timeout=5)
    assert caught.value.kind == failure.REFUSED


def test_no_tls_where_tls_is_expected(endpoint: Endpoint) -> None:
    with pytest.raises(EndpointError) as caught:
        connect(endpoint.url.replace("http:", "https:")).get_json("/v1/models", timeout=5)
    assert caught.value.kind == failure.TLS


def test_a_server_that_hangs_is_left(endpoint: Endpoint) -> None:
    gate = threading.Event()
    endpoint.fault = lambda exchange: gate.wait(5)
    began = time.monotonic()
    assert failing(endpoint, timeout=0.2).kind == failure.TIMEOUT
    assert time.monotonic() - began < 2
    gate.set()


def test_a_stream_that_never_ends_is_left(endpoint: Endpoint) -> None:
    def drip(exchange: Exchange) -> bool:
        exchange.handler.send_response(200)
        exchange.handler.end_headers()
        for _ping in range(200):
            exchange.handler.wfile.write(b": ping\n\n")
            exchange.handler.wfile.flush()
            time.sleep(0.02)
        return True

    endpoint.fault = drip
    began = time.monotonic()
    with pytest.raises(EndpointError, match="did not end within") as caught:
        chat.ask(connect(endpoint.url), chat.Request("kimi", MESSAGES, 8), timeout=0.3, stream=True)
    assert caught.value.kind == failure.TIMEOUT
    assert time.monotonic() - began < 2


def test_an_answer_without_end_is_left(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_BODY_BYTES", 1000)
    endpoint.fault = lambda exchange: exchange.send(200, "x" * 5000)
    assert failing(endpoint).kind == failure.TOO_LARGE


def test_connection_that_breaks_inside_a_stream(endpoint: Endpoint) -> None:
    endpoint.fault = lambda exchange: exchange.stream('data: {"choices": [{"delta": {"content": "3"}}]}\n\n')
    with pytest.raises(EndpointError) as caught:
        chat.ask(connect(endpoint.url), chat.Request("kimi", MESSAGES, 8), timeout=5, stream=True)
    assert caught.value.kind == failure.STREAM_TRUNCATED


@pytest.mark.parametrize("stream", [True, False])
def test_right_answer_streamed_and_not(endpoint: Endpoint, stream: bool) -> None:
    answer = chat.ask(connect(endpoint.url), chat.Request("kimi", MESSAGES, 64, True), timeout=5, stream=stream)
    assert (answer.content, answer.reasoning, answer.reasoning_field) == ("391", "17*23=391.", "reasoning")
    assert answer.completion_tokens == 3
    assert (answer.first_token_s is not None) == stream


def test_budget_is_raised_once(endpoint: Endpoint) -> None:
    def hungry(exchange: Exchange) -> bool:
        spent = exchange.body["max_tokens"] < 2048
        return exchange.answer(None, "Hmm", "length") if spent else exchange.answer("391", "Hmm")

    endpoint.fault = hungry
    tries = chat.ask_within_budget(connect(endpoint.url), chat.Request("kimi", MESSAGES, 10), timeout=5)
    assert [answer.content for answer in tries] == ["", "391"]


def test_a_short_key_is_no_reason_to_change_what_was_answered() -> None:
    assert client.hide("the key is s3cr3t-key-1, of 50", "s3cr3t-key-1") == "the key is ********, of 50"
    assert client.hide("48, 49, 50", "50") == "48, 49, 50"
    assert client.hide("nothing", None) == "nothing"
