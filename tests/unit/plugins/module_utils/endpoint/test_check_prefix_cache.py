# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import metrics
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import prefix_cache
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.endpoint.server import Endpoint, Exchange
from simulation.endpoint.tokens import Prompt, Tokens, context

SENTENCE = "The capital of France is Paris."


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().running() as running:
        yield running


def prepared(endpoint: Endpoint, tokens: Tokens | None, **section: Any) -> Context:
    endpoint.fault = tokens
    return context(endpoint, "prefix_cache", prefix_cache.read(section, "questions.prefix_cache"))


def run(endpoint: Endpoint, tokens: Tokens | None, **section: Any) -> Check:
    return prefix_cache.run(prepared(endpoint, tokens, **section))


def answers(cold: str, again: str, cold_again: str, **options: Any) -> Tokens:
    return Tokens(answer=lambda prompt: (cold, again, cold_again)[prompt.number - 1], **options)


@pytest.mark.parametrize("tells_cached", [True, False])
def test_cold_hit_and_cold_again_are_right(endpoint: Endpoint, tells_cached: bool) -> None:
    tokens = answers(SENTENCE, SENTENCE, SENTENCE, tells_cached=tells_cached)
    check = run(endpoint, tokens)
    assert (check.status, check.value, check.threshold) == ("pass", 3, 3)
    assert check.evidence == [
        f"cold, 0 tokens from the cache: {SENTENCE!r}",
        f"again, 592 tokens from the cache: {SENTENCE!r}",
        f"cold under another cache_salt, 0 tokens from the cache: {SENTENCE!r}",
    ]
    first, second, third = tokens.prompts
    assert len(first.ids) == 600
    assert first.ids == second.ids == third.ids
    assert [prompt.reused for prompt in tokens.prompts] == [0, 592, 0]


def test_garbage_on_the_hit_only(endpoint: Endpoint) -> None:
    check = run(endpoint, Tokens(answer=lambda prompt: "olvas qua" if prompt.reused >= 256 else SENTENCE))
    assert (check.status, check.value, check.threshold) == ("fail", 2, 3)
    assert check.evidence == [r"expected /(?i)\bparis\b/", "again, 592 tokens from the cache: 'olvas qua'"]


def test_another_word_on_the_hit(endpoint: Endpoint) -> None:
    check = run(endpoint, answers("Rome", "Oslo", "Rome"), expect="Rome|Oslo")
    assert check.status == "fail"
    assert check.evidence[0] == "the answers are different words: 'Rome', 'Oslo', 'Rome'"


@pytest.mark.parametrize(
    ("again", "status"),
    [
        (f"{SENTENCE} {' '.join('abcdefghijk')}", "inconclusive"),
        ("Paris it is.", "inconclusive"),
    ],
)
def test_other_words_around_the_answer(endpoint: Endpoint, again: str, status: str) -> None:
    check = run(endpoint, answers(SENTENCE, again, SENTENCE))
    assert (check.status, check.value) == (status, 3)
    assert check.evidence[0] == "cold and again differ within the first 16 tokens"


def test_late_tokens_may_differ(endpoint: Endpoint) -> None:
    long = f"{SENTENCE} {' '.join('abcdefghij')}"
    assert run(endpoint, answers(f"{long} end", f"{long} other end", f"{long} end")).status == "pass"


def test_two_cold_answers_that_differ(endpoint: Endpoint) -> None:
    check = run(endpoint, answers(SENTENCE, SENTENCE, "Paris it is."))
    assert check.status == "inconclusive"
    assert "cold and cold under another cache_salt differ" in check.evidence[0]


def test_a_cache_that_is_off(endpoint: Endpoint) -> None:
    tokens = Tokens(caching=False)
    check = run(endpoint, tokens)
    assert check.status == "not_run"
    assert "switched off" in check.evidence[0]
    assert tokens.prompts == []


def test_a_hit_that_cannot_be_told(endpoint: Endpoint) -> None:
    assert run(endpoint, Tokens(counts=False)).status == "not_run"
    check = run(endpoint, Tokens(counts=False, answer=lambda prompt: "qua"))
    assert (check.status, check.value) == ("fail", 0)
    assert run(endpoint, Tokens(counts=False, tells_cached=True)).status == "pass"


def test_a_hit_that_did_not_happen(endpoint: Endpoint) -> None:
    def forget(_exchange: Exchange, _prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any]:
        tokens._cache.clear()
        return payload

    tokens = Tokens(tamper=forget)
    check = run(endpoint, tokens)
    assert check.status == "inconclusive"
    assert check.evidence[0] == "the cache was not hit: 0 of 600 tokens"


@pytest.mark.parametrize(("others", "status"), [(292, "pass"), (293, "inconclusive")])
def test_hits_of_others_are_not_ours(endpoint: Endpoint, others: int, status: str) -> None:
    """Others' prompts are counted too; in the worst case all their tokens were hits, and ours none."""

    def busy(_exchange: Exchange, _prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any]:
        tokens._queries += others
        return payload

    tokens = Tokens(tamper=busy)
    assert run(endpoint, tokens).status == status


@pytest.mark.parametrize("counters", [(5, 6), (5, None), (None, 6)])
def test_counters_that_stand_still(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, counters: tuple[int | None, int | None]
) -> None:
    monkeypatch.setattr(prefix_cache, "_COUNTER_WAIT_S", 0.0)
    monkeypatch.setattr(metrics, "counters", lambda _text: metrics.Counters(*counters))
    check = run(endpoint, Tokens())
    assert check.status == "not_run"
    assert "cannot be told" in check.evidence[0]


def test_an_error_on_the_hit(endpoint: Endpoint) -> None:
    def tamper(exchange: Exchange, prompt: Prompt, payload: dict[str, Any]) -> dict[str, Any] | None:
        if not prompt.reused:
            return payload
        exchange.send(500, '{"error": {"message": "about Paris"}}')
        return None

    check = run(endpoint, Tokens(tamper=tamper))
    assert (check.status, check.value) == ("fail", 2)
    assert "again: server_error: HTTP 500: about Paris" in check.evidence


def test_a_server_without_tokenize(endpoint: Endpoint) -> None:
    assert run(endpoint, None).status == "not_run"


@pytest.mark.parametrize(("prompt_tokens", "said"), [(9000, "max_model_len 8192"), (5, "cannot hold the instruction")])
def test_a_prompt_that_does_not_fit(endpoint: Endpoint, prompt_tokens: int, said: str) -> None:
    check = run(endpoint, Tokens(), prompt_tokens=prompt_tokens)
    assert check.status == "not_run"
    assert said in check.evidence[0]


@pytest.mark.parametrize(("max_model_len", "status"), [(632, "pass"), (631, "not_run")])
def test_a_prompt_that_just_fits(endpoint: Endpoint, max_model_len: int, status: str) -> None:
    endpoint.max_model_len = max_model_len
    assert run(endpoint, Tokens()).status == status


def test_an_engine_that_is_gone_ends_it(endpoint: Endpoint) -> None:
    def tamper(exchange: Exchange, _prompt: Prompt, _payload: dict[str, Any]) -> None:
        exchange.send(503, "")

    with pytest.raises(EndpointError, match="503"):
        run(endpoint, Tokens(tamper=tamper))


@pytest.mark.parametrize("key", ["prompt_tokens", "max_tokens"])
def test_sections_that_are_not_usable(key: str) -> None:
    with pytest.raises(ServingError, match=f"prefix_cache.{key}"):
        prefix_cache.read({key: 0}, "questions.prefix_cache")


@pytest.mark.parametrize("read", [prefix_cache.read])
def test_the_default_section_is_usable(read: Callable[[Any, str], prefix_cache.Probe]) -> None:
    assert read({}, "questions.prefix_cache").expect.search(SENTENCE)
