# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proxy that breaks one thing: honest without a fault, and each fault does what it says and nothing else."""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, chat, failure
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.battery import Report
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from hypothesis import given
from hypothesis import strategies as st
from simulation.endpoint import proxy as proxies
from simulation.endpoint import text_faults, wire
from simulation.endpoint.behaviour import Fault, Setting
from simulation.endpoint.cache_books import CacheBooks, shared
from simulation.endpoint.fault_crowd import cross_talk, cross_talk_tail
from simulation.endpoint.fault_prompts import (
    forgets_middle,
    forgets_turns,
    garbage_above,
    garbage_in_band,
    garbage_on_cache_hit,
)
from simulation.endpoint.fault_transport import redirect, shorter_context, unavailable, wrong_model
from simulation.endpoint.faults import FAULTS
from simulation.endpoint.matrix import Row, Table
from simulation.endpoint.proxy import Behaviour, Proxy, honest
from simulation.endpoint.server import ANSWERS, Endpoint, Exchange
from simulation.endpoint.upstream import Upstream
from simulation.endpoint.wire import Answer, Call

CHECKS = {
    *("ready", "logprobs", "exact_set", "count", "latency", "length_sweep", "degeneration", "multi_turn"),
    *("prefix_cache", "concurrency", "needle", "logprobs_after", "channels", "tool_calls", "vision"),
}
PRODUCT = "What is 17*23?"
TEXT = st.text(st.characters(codec="utf-8"), max_size=60)


def words(exchange: Exchange) -> bool:
    """A tokenizer whose tokens are words, and an answer for whoever asks for the length of what was sent."""
    if exchange.path == "/tokenize":
        said = exchange.body.get("prompt") or " ".join(wire.text(item) for item in exchange.body["messages"])
        return exchange.send(200, json.dumps({"tokens": [zlib.crc32(word.encode()) for word in said.split()]}))
    if exchange.path == "/v1/chat/completions" and exchange.prompt.startswith("Recall"):
        found = re.findall(r"CODE-\w+", json.dumps(exchange.body["messages"]))
        return exchange.answer(" ".join(found) or "nothing")
    return False


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(fault=words).running() as running:
        yield running


def setting(endpoint: Endpoint, seed: int = 1, elsewhere: str = "") -> Setting:
    return Setting(str(seed), Upstream(endpoint.url), elsewhere)


def said(proxy: Proxy, *messages: str, **members: Any) -> str:
    """The content that a client gets through the proxy; messages: the user's turns."""
    turns = [{"role": "user", "content": message} for message in messages]
    body = {"model": "kimi", "messages": turns, "chat_template_kwargs": {"thinking": False}, **members}
    reply = requests.post(proxy.url + wire.CHAT, json=body, timeout=10)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["choices"][0]["message"]["content"])


def test_without_a_fault_every_byte_goes_through(endpoint: Endpoint) -> None:
    body = {"model": "kimi", "messages": [{"role": "user", "content": PRODUCT}], "stream": True}
    with Proxy(Upstream(endpoint.url), honest).running() as proxy:
        for path in ("/v1/models", "/metrics", "/health"):
            direct, through = (requests.get(url + path, timeout=5) for url in (endpoint.url, proxy.url))
            assert (direct.status_code, direct.content) == (through.status_code, through.content)
        for streams in (True, False):
            bodies = [
                requests.post(url + wire.CHAT, json={**body, "stream": streams}, timeout=5).content
                for url in (endpoint.url, proxy.url)
            ]
            assert bodies[0] == bodies[1]
    assert proxy.errors == []


def test_the_key_reaches_the_real_server(endpoint: Endpoint) -> None:
    endpoint.api_key = "sk-right"
    with Proxy(Upstream(endpoint.url), honest).running() as proxy:
        assert requests.get(f"{proxy.url}/v1/models", timeout=5).status_code == 401
        headers = {"Authorization": "Bearer sk-right"}
        assert requests.get(f"{proxy.url}/v1/models", headers=headers, timeout=5).status_code == 200


def test_a_real_server_that_is_gone_is_the_proxys_error() -> None:
    with Proxy(Upstream("http://127.0.0.1:9"), honest).running() as proxy, pytest.raises(requests.ConnectionError):
        requests.get(f"{proxy.url}/v1/models", timeout=5)
    assert "does not answer" in proxy.errors[0]


@given(TEXT, TEXT, st.booleans(), st.lists(TEXT, max_size=2))
def test_an_answer_is_read_as_it_was_written(content: str, reasoning: str, streams: bool, arguments: list[str]) -> None:
    calls = [
        {"id": f"functions.f:{number}", "type": "function", "function": {"name": "f", "arguments": text}}
        for number, text in enumerate(arguments)
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    body = {"stream": streams, "stream_options": {"include_usage": True}}
    call = Call("POST", wire.CHAT, {}, body)
    payload = {"id": "x", "model": "kimi", "choices": [{"index": 0, "message": {"role": "assistant"}}]}
    entries = {"content": [{"token": "a", "logprob": -0.5}] * 3}
    written = wire.write(call, Answer(content, reasoning, calls, "stop", usage, entries, payload))
    again = wire.read(call, written)
    assert (again.content, again.reasoning, again.calls) == (content, reasoning, calls)
    assert (again.finish_reason, again.usage, again.logprobs) == ("stop", usage, entries)


@given(st.text("abc 0123456789", min_size=1, max_size=80), st.integers())
def test_texts_are_broken_as_they_say(text: str, seed: int) -> None:
    rng = random.Random(seed)
    digits = sum(letter.isdigit() for letter in text)
    changed = text_faults.wrong_digit(text, rng)
    assert sum(a != b for a, b in zip(text, changed, strict=True)) == bool(digits)
    assert bool(digits) == (text_faults.miscounted(text, rng) != text)
    assert text_faults.bang(text, rng, 20).endswith("!" * 20)
    salad = text_faults.salad(text, rng)
    assert len(salad.split()) == max(3, len(text.split()))
    leaked = text_faults.leak(text, rng)
    assert any(token in leaked for token in text_faults.SPECIAL_TOKENS)
    looped = text_faults.loop("one two three four", rng, 60).split()
    assert max(looped.count(word) for word in set(looped)) >= 15


def test_salad_is_ordinary_text_to_statistics() -> None:
    salad = text_faults.salad("word " * 350, random.Random(4)).encode()[:2000]
    assert len(salad) / len(zlib.compress(salad)) < 3.5, "a ratio of 4 is where text counts as degenerate"


def test_faults_are_data() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30
    for fault in FAULTS:
        assert fault.finds and fault.finds <= CHECKS, fault.name
        assert fault.case and fault.does, fault.name
    assert {check for fault in FAULTS for check in fault.finds} == CHECKS - {"vision"}


@pytest.mark.parametrize("name", ["word salad", "fluent but wrong", "exclamation marks"])
def test_another_seed_is_another_text(endpoint: Endpoint, name: str) -> None:
    fault = next(item for item in FAULTS if item.name == name)

    def run(seed: int) -> tuple[str, ...]:
        with Proxy(Upstream(endpoint.url), fault.make(setting(endpoint, seed))).running() as proxy:
            return tuple(said(proxy, prompt) for prompt in (PRODUCT, "Count from 1 to 50."))

    assert run(1) == run(1)
    assert len({run(seed) for seed in range(4)}) > 1
    assert "391" not in run(1)


def test_length_faults_act_on_the_servers_own_count(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are tokens here; PRODUCT has three, and the answer does not depend on what stands before it."""
    texts = {number: ("x " * (number - 3)) + PRODUCT for number in (255, 256, 257, 258, 259, 1600)}
    for name, text in texts.items():
        monkeypatch.setitem(ANSWERS, text, ("", "391"))
        assert len(text.split()) == name
    with Proxy(Upstream(endpoint.url), garbage_above(setting(endpoint))).running() as proxy:
        assert said(proxy, PRODUCT) == "391"
        assert said(proxy, texts[1600]) != "391"
    seed = next(seed for seed in range(99) if random.Random(str(seed)).randint(8, 10) == 8)
    with Proxy(Upstream(endpoint.url), garbage_in_band(setting(endpoint, seed))).running() as proxy:
        wrong = [number for number, text in texts.items() if said(proxy, text) != "391"]
    assert wrong == [257, 258]


def test_cache_hits_need_the_same_salt_and_256_tokens(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = " ".join(str(number) for number in range(300))
    for end in "abc":
        monkeypatch.setitem(ANSWERS, f"{prefix} {end}", ("", "391"))
    with Proxy(Upstream(endpoint.url), garbage_on_cache_hit(setting(endpoint))).running() as proxy:
        seen = [
            said(proxy, f"{prefix} a", cache_salt="A"),
            said(proxy, f"{prefix} b", cache_salt="B"),
            said(proxy, f"{prefix} c", cache_salt="A"),
            said(proxy, PRODUCT, cache_salt="A"),
            said(proxy, PRODUCT, cache_salt="A"),
        ]
    assert [text == "391" for text in seen] == [True, True, False, True, True]
    assert (shared([1, 2, 3], [1, 2, 4]), shared([1], [1, 2]), shared([], [1])) == (2, 1, 0)


def test_the_books_of_a_cache_count_whole_blocks(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = " ".join(str(number) for number in range(40))
    for end in "ab":
        monkeypatch.setitem(ANSWERS, f"{prefix} {end}", ("", "391"))
    labels = '{engine="0",model_name="kimi"}'
    endpoint.metrics = lambda: (
        f"vllm:prefix_cache_queries_total{labels} 0.0\nvllm:prefix_cache_hits_total{labels} 0.0\n"
        f'vllm:cache_config_info{{block_size="16",enable_prefix_caching="{own}"}} 1.0\n'
    )
    upstream = Upstream(endpoint.url)
    with Proxy(upstream, CacheBooks(upstream, honest)).running() as proxy:
        own = "False"
        for end, salt in (("a", "A"), ("a", "B"), ("b", "A"), ("b", "A")):
            said(proxy, f"{prefix} {end}", cache_salt=salt)
        told = requests.get(f"{proxy.url}/metrics", timeout=5).text
        own = "True"
        untouched = requests.get(f"{proxy.url}/metrics", timeout=5).text
    assert f"queries_total{labels} {4 * 41}.0" in told
    assert f"hits_total{labels} {2 * 32}.0" in told
    assert 'enable_prefix_caching="True"' in told
    assert f"hits_total{labels} 0.0" in untouched


def test_what_is_forgotten_never_reaches_the_model(endpoint: Endpoint) -> None:
    with Proxy(Upstream(endpoint.url), forgets_turns(setting(endpoint))).running() as proxy:
        assert said(proxy, "The code is CODE-A.", "Recall CODE-B") == "CODE-B"
        assert said(proxy, "Recall CODE-B") == "CODE-B"
    filler = "x " * 400
    with Proxy(Upstream(endpoint.url), forgets_middle(setting(endpoint))).running() as proxy:
        found = said(proxy, f"Recall CODE-A {filler} CODE-B {filler} CODE-C").split()
        assert (found[0], found[-1], "CODE-B" in found) == ("CODE-A", "CODE-C", False)
        assert said(proxy, "Recall CODE-A x CODE-B x CODE-C") == "CODE-A CODE-B CODE-C"


@pytest.mark.parametrize("crowd", [cross_talk, cross_talk_tail])
def test_only_requests_in_flight_together_are_mixed(endpoint: Endpoint, crowd: Any) -> None:
    behaviour: Behaviour = crowd(setting(endpoint))
    with Proxy(Upstream(endpoint.url), behaviour).running() as proxy, ThreadPoolExecutor(2) as pool:
        capital = "What is the capital of France? Answer briefly."
        assert (said(proxy, PRODUCT), said(proxy, capital)) == ("391", "Paris")
        together = list(pool.map(lambda prompt: said(proxy, prompt), (PRODUCT, capital)))
    assert together[0] != "391"
    assert together[1] != "Paris"


def test_the_server_is_another_one(endpoint: Endpoint) -> None:
    def models(behaviour: Behaviour) -> dict[str, Any]:
        with Proxy(Upstream(endpoint.url), behaviour).running() as proxy:
            entry: dict[str, Any] = requests.get(f"{proxy.url}/v1/models", timeout=5).json()["data"][0]
            return entry

    assert models(wrong_model(setting(endpoint)))["id"] != "kimi"
    assert models(shorter_context(setting(endpoint)))["max_model_len"] < 8192
    with Proxy(Upstream(endpoint.url), unavailable(setting(endpoint))).running() as proxy:
        assert requests.post(proxy.url + wire.CHAT, json={}, timeout=5).status_code == 503


@pytest.mark.parametrize(
    ("name", "stream", "kind"),
    [
        ("error in stream", True, failure.STREAM_ERROR),
        ("cut stream", True, failure.STREAM_TRUNCATED),
        ("503", False, failure.SERVER_ERROR),
        ("hang", False, failure.TIMEOUT),
        ("exclamation marks", False, failure.SERVER_ERROR),
        ("NaN when cold", False, failure.SERVER_ERROR),
        ("redirect", False, failure.REDIRECT),
    ],
)
def test_faults_of_the_server_have_the_names_that_the_client_gives(
    endpoint: Endpoint, name: str, stream: bool, kind: str
) -> None:
    fault = next(item for item in FAULTS if item.name == name)
    request = chat.Request("kimi", [{"role": "user", "content": PRODUCT}], 64, extra={"logprobs": True})
    with Proxy(
        Upstream(endpoint.url), fault.make(setting(endpoint, elsewhere="http://127.0.0.1:9"))
    ).running() as proxy:
        client = Client(address.parse(proxy.url))
        with pytest.raises(EndpointError) as caught:
            chat.ask(client, request, timeout=0.5 if name == "hang" else 10, stream=stream)
        assert client.get_json("/v1/models", timeout=5)["data"]
    assert caught.value.kind == kind
    assert ("nan" in caught.value.message) == (kind == failure.SERVER_ERROR and name != "503")


@pytest.mark.parametrize(("name", "finish"), [("empty answers", "stop"), ("only special tokens", "length")])
def test_nothing_is_said_but_tokens_are_counted(endpoint: Endpoint, name: str, finish: str) -> None:
    fault = next(item for item in FAULTS if item.name == name)
    request = chat.Request("kimi", [{"role": "user", "content": PRODUCT}], 64, False)
    with Proxy(Upstream(endpoint.url), fault.make(setting(endpoint))).running() as proxy:
        answer = chat.ask(Client(address.parse(proxy.url)), request, timeout=10)
    assert (answer.content, answer.reasoning, answer.finish_reason) == ("", "", finish)
    assert answer.completion_tokens == (64 if finish == "length" else 2)


def test_the_proxy_is_bounded(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "MAX_REQUESTS", 1)
    monkeypatch.setattr(proxies, "MAX_REQUEST_BYTES", 1000)
    with Proxy(Upstream(endpoint.url), honest).running() as proxy:
        assert requests.post(proxy.url + wire.CHAT, json={"a": "x" * 1000}, timeout=5).status_code == 413
        assert requests.get(f"{proxy.url}/v1/models", timeout=5).status_code == 200
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{proxy.url}/v1/models", timeout=5)
    assert "more than 1 requests" in proxy.errors[0]


def test_the_other_origin_sees_whoever_follows(endpoint: Endpoint) -> None:
    """A control: a client that follows redirects does reach it, so that an empty record means something."""
    with (
        Endpoint().running() as elsewhere,
        Proxy(Upstream(endpoint.url), redirect(setting(endpoint, elsewhere=elsewhere.url))).running() as proxy,
    ):
        requests.post(proxy.url + wire.CHAT, json={}, timeout=5)
        assert [path for path, _headers in elsewhere.seen] == [wire.CHAT]


def test_the_same_request_is_sent_once_unless_the_counters_are_read(endpoint: Endpoint) -> None:
    upstream = Upstream(endpoint.url, remember=True)
    with Proxy(upstream, honest).running() as proxy:
        assert {said(proxy, PRODUCT) for _time in range(3)} == {"391"}
        assert (upstream.forwarded, upstream.remembered) == (1, 2)
        requests.get(f"{proxy.url}/metrics", timeout=5)
        assert {said(proxy, PRODUCT) for _time in range(2)} == {"391"}
    assert (upstream.forwarded, upstream.remembered) == (3, 3)


def test_the_table_knows_what_escapes() -> None:
    def row(fault: str, **marks: str) -> Row:
        return Row(fault, "generating", marks, 0.0, Report("generating", [], {}, []), frozenset({"count"}))

    rows = [
        row("no fault", count="pass", needle="pass", vision="not_run"),
        row("a", count="fail", needle="pass", vision="not_run"),
        row("b", count="inconclusive", needle="fail", vision="not_run"),
        row("c", count="fail", needle="not_run", vision="not_run"),
        row("d", count="pass", needle="inconclusive", vision="not_run"),
    ]
    table = Table(7, ["count", "needle", "vision"], rows)
    assert (table.only("count"), table.only("needle")) == (["a"], ["d"])
    assert [item.is_found for item in table.faulty] == [True, True, True, False]
    assert "seed 7" in str(table)
    assert re.search(r"(?m)^b +\? +X +- ", str(table))


def test_fault_keeps_to_its_kind(endpoint: Endpoint) -> None:
    """Arithmetic only, and nothing else."""
    wrong: Fault = next(item for item in FAULTS if item.name == "fluent but wrong")
    with Proxy(Upstream(endpoint.url), wrong.make(setting(endpoint))).running() as proxy:
        assert re.fullmatch(r"(?!391)\d{3}", said(proxy, PRODUCT))
        assert said(proxy, "Count from 1 to 50.").startswith("1 2 3")
