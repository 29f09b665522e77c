# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import (
    address,
    benchmark,
    counting,
    load,
    speed,
)
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.benchmark import Settings
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.chat import Request
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.load import Recording, Target, opened
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.percentiles import percentile
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.samples import Repetition, Sample
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given
from hypothesis import strategies as st
from simulation.endpoint.bad_server import BadServer, raw, self_signed, whole
from simulation.endpoint.server import ANSWERS, Endpoint, Exchange, delta

REQUEST = Request("kimi", [{"role": "user", "content": counting.PROMPT}], 512, thinking=False)
ROW = ANSWERS[counting.PROMPT][1]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


def measure(endpoint: Endpoint, settings: Settings) -> dict[str, object]:
    return benchmark.measure(Target(address.parse(endpoint.url)), REQUEST, settings)


def test_clock_of_the_decode_rate_excludes_prefill() -> None:
    """Sent at 0, first delta at 20 s, last at 28 s, 257 tokens in 60 deltas: 32 tokens per second, not 9.18."""
    run = speed.summarise(1, [Repetition(28.0, [Sample(20.0, 28.0, 9, 257, 60, True)])], [])
    assert run["decode_tokens_per_s"] == 32.0
    assert run["mean_tpot_ms"] == 31.25
    assert run["mean_ttft_ms"] == 20_000
    assert run["output_throughput"] == 9.1786
    assert run["tokens_per_delta"] == 4.2833
    assert "4.3 tokens arrive per delta" in speed.outcome([run])["notes"][0]


def test_one_delta_has_no_time_per_token() -> None:
    run = speed.summarise(1, [Repetition(1.0, [Sample(0.9, 0.9, 9, 100, 1, True)])], [])
    assert (run["mean_tpot_ms"], run["p90_tpot_ms"], run["decode_tokens_per_s"]) == (None, None, None)


def test_measures_every_concurrency_after_a_warm_up(endpoint: Endpoint) -> None:
    slow_first = iter([0.2])

    def pace(exchange: Exchange) -> bool:
        time.sleep(next(slow_first, 0.02))
        return False

    endpoint.fault = pace
    result = measure(endpoint, Settings(concurrency=[1, 3], repetitions=2, num_prompts=3))
    runs = result["runs"]
    assert isinstance(runs, list)
    assert [run["max_concurrency"] for run in runs] == [1, 3]
    assert [run["completed"] for run in runs] == [6, 6]
    assert [run["total_output_tokens"] for run in runs] == [306, 306]
    assert all(run["correct"] and run["failed_requests"] == 0 for run in runs)
    assert runs[0]["warmup_s"][0] >= 0.2 > runs[0]["mean_e2el_ms"] / 1000
    assert runs[1]["output_throughput"] > runs[0]["output_throughput"]
    assert runs[0]["mean_ttft_ms"] >= 20
    assert runs[0]["median_ttft_ms"] <= runs[0]["p90_ttft_ms"] <= runs[0]["p95_ttft_ms"] <= runs[0]["p99_ttft_ms"]
    assert len([path for path, _headers in endpoint.seen]) == 1 + 6 + 3 + 6


def test_never_more_in_flight_than_asked_for(endpoint: Endpoint) -> None:
    inside, most = [0], [0]

    def count(_exchange: Exchange) -> bool:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return False

    endpoint.fault = count
    measure(endpoint, Settings(concurrency=[4], num_prompts=12, warmup=0, repetitions=1))
    assert 2 <= most[0] <= 4


def test_cut_answer_is_right_as_far_as_it_goes_and_wrong_text_is_said(endpoint: Endpoint) -> None:
    endpoint.fault = lambda exchange: exchange.answer("1 2 3 4 5 6 7 8 9 1", None, "length")
    result = measure(endpoint, Settings(repetitions=1))
    assert isinstance(result["runs"], list)
    assert result["runs"][0]["correct"] is True
    endpoint.fault = lambda exchange: exchange.answer("+" * 200)
    result = measure(endpoint, Settings(repetitions=1))
    assert result["stable"] is False
    assert "invalid" in str(result["notes"])


def test_repetitions_that_differ_are_not_stable() -> None:
    sample = Sample(0.1, 1.0, 9, 100, 100, True)
    run = speed.summarise(1, [Repetition(1.0, [sample]), Repetition(2.0, [sample])], [0.5])
    assert run["spread"] == round(50 / 75, 4)
    assert run["repetitions"] == [100.0, 50.0]
    result = speed.outcome([run])
    assert (result["stable"], "unstable" in result["notes"][0]) == (False, True)


USAGE_LESS: Callable[[Exchange], bool] = lambda e: e.stream(  # noqa: E731
    delta({"content": ROW}), delta({}, "stop"), "data: [DONE]\n\n"
)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda e: e.send(401, '{"error": "Unauthorized"}'), "no request of 1 completed: auth_required"),
        (lambda e: e.send(404, '{"error": {"message": "The model `x` does not exist."}}'), "wrong_model"),
        (lambda e: e.send(307, "", location="http://127.0.0.1:1/"), "redirect"),
        (USAGE_LESS, "no usage counts"),
        (lambda e: e.answer(ROW, usage={"completion_tokens": 10**400}), "usage.completion_tokens is 1000"),
        (lambda e: e.answer(ROW, usage={"completion_tokens": -5}), "usage.completion_tokens is -5"),
        (lambda e: e.answer(ROW, usage={"completion_tokens": 10**6}), "1000000 for an answer of 50 numbers"),
        (lambda e: e.answer(ROW, usage={"completion_tokens": 1}), "1 for an answer of 50 numbers"),
        (lambda e: e.answer(ROW, usage={"completion_tokens": True}), "1 of 1 answers came with no usage counts"),
        (lambda e: e.answer("", usage={"prompt_tokens": 1, "completion_tokens": 0}), "hold no tokens"),
        (lambda e: e.answer("", usage={"prompt_tokens": 1, "completion_tokens": 64}), "hold no tokens"),
    ],
)
def test_nothing_measured_is_a_failure(endpoint: Endpoint, fault: Callable[[Exchange], bool], said: str) -> None:
    endpoint.fault = fault
    with pytest.raises(ServingError, match=said):
        measure(endpoint, Settings(warmup=0, repetitions=1))


def test_nobody_there_is_a_failure(endpoint: Endpoint) -> None:
    gone = Endpoint()
    with gone.running():
        pass
    with pytest.raises(ServingError, match="refused"):
        measure(gone, Settings(warmup=0, repetitions=1))


def test_a_failed_request_fails_unless_allowed(endpoint: Endpoint) -> None:
    endpoint.fault = lambda exchange: exchange.number == 2 and exchange.send(500, "{}")
    settings = Settings(num_prompts=4, warmup=0, repetitions=1)
    with pytest.raises(ServingError, match="1 of 4 requests failed"):
        measure(endpoint, settings)
    endpoint.seen.clear()
    result = measure(endpoint, Settings(num_prompts=4, warmup=0, repetitions=1, min_success_rate=0.5))
    assert isinstance(result["runs"], list)
    assert (result["runs"][0]["completed"], result["runs"][0]["failed_requests"]) == (3, 1)
    assert "min_success_rate allows" in str(result["notes"])


async def recorded(target: Target, requests: int, timeout: float = 5) -> list[str]:
    """The texts, or the words of the errors, of requests sent one after the other."""
    found = []
    async with opened(target) as sender:
        for _number in range(requests):
            try:
                recording = await sender.record(REQUEST, timeout)
                found.append(recording.answer().content)
            except EndpointError as error:
                found.append(str(error))
            await asyncio.sleep(0.05)
    return found


def record(target: Target, requests: int = 1, timeout: float = 5) -> list[str]:
    return asyncio.run(recorded(target, requests, timeout))


def test_the_key_and_the_path_of_a_prefix_are_sent(endpoint: Endpoint) -> None:
    endpoint.api_key = "a key"
    assert record(Target(address.parse(endpoint.url), "a key")) == [ROW]
    assert "404" in record(Target(address.parse(f"{endpoint.url}/prefix"), "a key"))[0]
    assert endpoint.seen[-1][0] == "/prefix/v1/chat/completions"
    assert "a key" not in repr(Target(address.parse(endpoint.url), "a key"))


def test_the_environment_is_not_used(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    endpoint.api_key = "a key"
    assert record(Target(address.parse(endpoint.url), "a key")) == [ROW]


def test_a_failure_says_nothing_of_the_next_request(endpoint: Endpoint) -> None:
    endpoint.fault = lambda exchange: exchange.number == 2 and exchange.stream(delta({"content": "1"}))
    first, second, third = record(Target(address.parse(endpoint.url)), 3)
    assert (first, third) == (ROW, ROW)
    assert "truncated" in second


ONE = (delta({"content": "1"}) + delta({}, "stop") + "data: [DONE]\n\n").encode()


def test_a_connection_that_the_server_dropped_is_opened_again() -> None:
    """A server of HTTP/1.1 that hangs up after each answer without saying so."""
    with BadServer(whole(ONE)).running() as server:
        assert record(Target(address.parse(server.url)), 3) == ["1", "1", "1"]


def test_tls_trusts_the_given_certificate_and_no_other(tmp_path: Path) -> None:
    context, certificate = self_signed(tmp_path)
    with BadServer(whole(ONE), context).running() as server:
        where = address.parse(server.url)
        for verify in (str(certificate), False):
            assert record(Target(where, verify=verify)) == ["1"]
        assert "the TLS connection failed" in record(Target(where))[0]
        assert len(server.requests) == 2


def test_a_silent_server_ends_the_request(endpoint: Endpoint) -> None:
    def silent(_exchange: Exchange) -> bool:
        time.sleep(1)
        return True

    endpoint.fault = silent
    assert "timeout" in record(Target(address.parse(endpoint.url)), timeout=0.2)[0]


def test_an_endless_answer_ends(monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> None:
    monkeypatch.setattr(load, "MAX_BODY_BYTES", 1000)
    endpoint.fault = lambda exchange: exchange.answer("1 " * 2000)
    assert "larger than" in record(Target(address.parse(endpoint.url)))[0]


def test_an_answer_that_breaks_off_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10000\r\n\r\n"
    with BadServer(raw(head + ONE)).running() as server:
        assert "unreachable" in record(Target(address.parse(server.url)))[0]


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"])
def test_what_is_no_http_is_an_error(answer: bytes) -> None:
    with BadServer(raw(answer)).running() as server:
        assert "unreachable" in record(Target(address.parse(server.url)))[0]


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=8))
def test_bytes_may_be_cut_anywhere(noise: bytes, cuts: list[int]) -> None:
    """However an answer is cut into pieces, it reads the same."""
    whole_answer = noise.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n\n" + ONE
    pieces, rest = [], whole_answer
    for size in cuts:
        pieces.append((0.5, rest[:size]))
        rest = rest[size:]
    pieces.append((0.5, rest))
    assert said(Recording(pieces)) == said(Recording([(0.5, whole_answer)]))


def said(recording: Recording) -> str:
    try:
        return recording.answer().content
    except EndpointError as error:
        return str(error)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 100))
def test_percentiles_lie_between_neighbours(samples: list[float], percent: float) -> None:
    value = percentile(samples, percent)
    assert min(samples) <= value <= max(samples) or abs(value - max(samples)) < 1e-6
    assert percentile(samples, 0) == min(samples)
    assert percentile(samples, 100) == max(samples)


def test_percentile_is_numpys() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 99) == pytest.approx(3.97)
