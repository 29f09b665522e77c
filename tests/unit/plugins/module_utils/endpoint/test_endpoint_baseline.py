# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import address, baseline, comparison
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.baseline import Outcome, Subject
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.chat import Request
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.client import Client
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.comparison import Limits, compare
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.fingerprint import (
    PROMPTS,
    Fingerprint,
    Observation,
    observe,
)
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given
from hypothesis import strategies as st
from simulation.endpoint.server import Endpoint, Exchange

LIMITS = Limits(0.2, 2.0, 0.5)
ENGINE = {"version": "0.32.0", "kv_cache_dtype": "auto"}
NEWER = {"version": "0.33.0", "kv_cache_dtype": "auto"}


def answer(*tokens: tuple[str, float], top: dict[str, float] | None = None, prompt: str = "p") -> Fingerprint:
    """Tokens with their log probabilities; top: what else was likely at the last token."""
    tops = [{token: logprob} for token, logprob in tokens]
    tops[-1] |= top or {}
    return Fingerprint(
        prompt, [token for token, _logprob in tokens], [logprob for _token, logprob in tokens], tops, "stop"
    )


def observed(*answers: Fingerprint, rate: float = 50.0) -> Observation:
    return Observation(list(answers), rate)


def test_equal_answers_are_equal() -> None:
    one = answer(("1", -0.1), (" 2", -0.2))
    found = compare([one], 50.0, observed(one), LIMITS)
    assert (found["verdict"], found["equal_answers"], found["answers"]) == ("equal", 1, 1)
    assert (found["mean_logprob_distance"], found["max_shift"], found["compared_tokens"]) == (0.0, 0.0, 2)
    assert found["first_difference"] is None


def test_a_choice_that_was_nearly_even_may_turn() -> None:
    old = answer(("A", -0.1), (" b", -0.70), top={" c": -0.72})
    new = answer(("A", -0.2), (" c", -0.69), top={" b": -0.74})
    found = compare([old], 50.0, observed(new), LIMITS)
    assert found["verdict"] == "close"
    assert found["max_shift"] == pytest.approx(0.07)
    assert found["mean_logprob_distance"] == pytest.approx(0.1)
    assert found["first_difference"] == {"prompt": "p", "position": 1, "baseline": " b", "now": " c", "shift": 0.07}


def test_a_choice_that_was_clear_may_not_turn() -> None:
    old = answer(("A", -0.01), (" b", -0.01), top={" c": -5.0})
    new = answer(("A", -0.01), (" z", -0.1), top={" b": -4.0})
    found = compare([old], 50.0, observed(new), LIMITS)
    assert found["verdict"] == "different"
    # " z" is not among the baseline's top: at least 4.99 there, 3.9 here
    assert found["max_shift"] == pytest.approx(4.99 + 3.9)
    assert found["exceeded"] == ["max_shift is 8.89, allowed is 2"]


def test_log_probabilities_far_apart_on_the_same_text_are_different() -> None:
    found = compare([answer(("A", -0.1))], 50.0, observed(answer(("A", -0.9))), LIMITS)
    assert (found["verdict"], found["equal_answers"]) == ("different", 1)
    assert "mean_logprob_distance is 0.8, allowed is 0.2" in found["exceeded"]


def test_a_slower_engine_is_different() -> None:
    one = answer(("A", -0.1))
    found = compare([one], 50.0, observed(one, rate=20.0), LIMITS)
    assert (found["speed_ratio"], found["verdict"]) == (0.4, "different")


def test_an_answer_that_goes_on_is_not_equal() -> None:
    short, long = answer(("A", -0.1)), answer(("A", -0.1), (" b", -0.1))
    found = compare([short], 50.0, observed(long), LIMITS)
    assert (found["equal_answers"], found["verdict"], found["first_difference"]["shift"]) == (0, "close", None)


TOKENS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(-20, 0)), min_size=1, max_size=8)


@given(TOKENS, TOKENS)
def test_the_distance_is_symmetric_and_nothing_for_itself(old: list[Any], new: list[Any]) -> None:
    one, other = answer(*old), answer(*new)
    there = compare([one], 1.0, observed(other, rate=1.0), LIMITS)
    back = compare([other], 1.0, observed(one, rate=1.0), LIMITS)
    for name in ("equal_answers", "compared_tokens", "mean_logprob_distance", "max_logprob_distance"):
        assert there[name] == back[name]
    assert there["max_shift"] == pytest.approx(back["max_shift"], abs=1e-4)
    itself = compare([one], 1.0, observed(one, rate=1.0), LIMITS)
    assert (itself["verdict"], itself["max_shift"], itself["max_logprob_distance"]) == ("equal", 0.0, 0.0)


def subject(engine: dict[str, Any], checkpoint: str = "c1", question: str = "q1") -> Subject:
    return Subject(checkpoint, engine, {"prompts": question})


def first(engine: dict[str, Any] | None = None) -> dict[str, Any]:
    outcome = baseline.judge(None, subject(engine or ENGINE), LIMITS, lambda: observed(answer(("A", -0.1))), at="t0")
    assert (outcome.verdict, outcome.reason) == ("new", "there was no baseline")
    return outcome.content


def judge(content: dict[str, Any], *, logprob: float, accept: bool = False, asked: Subject | None = None) -> Outcome:
    return baseline.judge(
        content,
        asked or subject(NEWER),
        LIMITS,
        lambda: observed(answer(("A", logprob))),
        at="t1",
        accept=accept,
    )


def test_what_was_compared_is_not_asked_again() -> None:
    content = first()
    known = baseline.known(content, subject(ENGINE))
    assert known is not None
    assert (known.verdict, known.comparison) == ("equal", None)
    assert baseline.known(content, subject(NEWER)) is None
    outcome = judge(content, logprob=-0.15)
    assert (outcome.verdict, outcome.content["engine"]) == ("equal", ENGINE)
    known = baseline.known(outcome.content, subject(NEWER))
    assert known is not None
    assert known.comparison == outcome.comparison
    assert known.content is outcome.content


def test_a_different_engine_is_kept_only_when_accepted() -> None:
    content = first()
    outcome = judge(content, logprob=-3.0)
    assert outcome.verdict == "different"
    assert outcome.content is content
    accepted = judge(content, logprob=-3.0, accept=True)
    assert (accepted.verdict, accepted.content["engine"], accepted.content["compared"]) == ("accepted", NEWER, [])
    assert baseline.known(accepted.content, subject(NEWER)) is not None


@pytest.mark.parametrize(
    ("checkpoint", "question", "said"), [("c2", "q1", "another checkpoint"), ("c1", "q2", "other questions")]
)
def test_another_checkpoint_or_other_questions_make_a_new_baseline(checkpoint: str, question: str, said: str) -> None:
    content = first()
    outcome = judge(content, logprob=-3.0, asked=subject(NEWER, checkpoint, question))
    assert (outcome.verdict, outcome.content["engine"]) == ("new", NEWER)
    assert said in outcome.reason
    assert baseline.known(content, subject(ENGINE, checkpoint, question)) is None


def test_the_list_of_comparisons_is_bounded() -> None:
    content = first()
    for number in range(30):
        engine = {"version": str(number)}
        content = baseline.judge(
            content, subject(engine), LIMITS, lambda: observed(answer(("A", -0.1))), at="t"
        ).content
    assert len(content["compared"]) == 20
    assert content["compared"][-1]["engine"] == {"version": "29"}


def test_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    assert baseline.load(path) is None
    content = first()
    path.write_text(baseline.text_of(content))
    assert baseline.load(path) == content
    assert [Fingerprint(**one) for one in content["answers"]] == [answer(("A", -0.1))]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "schema_version"),
        ('{"schema_version": 2}', "schema_version"),
        ('{"schema_version": 1, "answers": [{}]}', "no answers"),
        ('{"schema_version": 1, "answers": [], "compared": [], "tokens_per_s": 0}', "no answers"),
    ],
)
def test_a_file_that_is_no_baseline_is_left_as_it_is(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(ServingError, match=said):
        baseline.load(path)
    assert path.read_text() == text


ONE = {"tokens": ["A"], "logprobs": [-0.1], "top": [{}], "prompt": "p", "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"answers": [{**ONE, "tokens": 5}]}, "no answers"),
        ({"answers": [{**ONE, "logprobs": ["x"]}]}, "no answers"),
        ({"answers": [{**ONE, "logprobs": []}]}, "no answers"),
        ({"answers": [{**ONE, "top": [5]}]}, "no answers"),
        ({"compared": [{}]}, "cannot be read"),
        ({"compared": [5]}, "cannot be read"),
        ({"tokens_per_s": "fast"}, "no tokens_per_s"),
        ({"tokens_per_s": -1}, "no tokens_per_s"),
        ({"engine": None}, "no engine"),
        ({"at": None}, "no at"),
    ],
)
def test_a_file_that_somebody_edited_is_named(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    path = tmp_path / "baseline.json"
    held = {name: value for name, value in {**first(), **changed}.items() if value is not None}
    path.write_text(json.dumps(held))
    with pytest.raises(ServingError, match=said):
        baseline.load(path)


def test_a_file_of_brackets_is_no_baseline(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ServingError, match="no JSON"):
        baseline.load(path)


def test_half_a_surrogate_pair_can_be_written() -> None:
    body = completion({"content": [{**entry(-0.1), "token": "\ud800"}]})
    with Endpoint(fault=lambda exchange: exchange.send(200, body)).running() as endpoint:
        found = observe(Client(address.parse(endpoint.url)), [request("a")], timeout=5)
    content = baseline.judge(None, subject({}), Limits(1, 1, 0), lambda: found, at="now").content
    assert "?" in baseline.text_of(content).encode().decode()


def request(prompt: str) -> Request:
    return Request("kimi", [{"role": "user", "content": prompt}], 8, False, extra={"logprobs": True})


def completion(content: Any) -> str:
    message = {"role": "assistant", "content": "x"}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": content}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


def entry(logprob: Any, **more: Any) -> dict[str, Any]:
    return {"token": "x", "logprob": logprob, "top_logprobs": [{"token": "x", "logprob": logprob}], **more}


def test_asks_every_prompt_and_the_first_one_twice() -> None:
    bodies = []

    def answer_all(exchange: Exchange) -> bool:
        bodies.append(exchange.body)
        return exchange.send(200, completion({"content": [entry(-0.25), entry(-1)]}))

    with Endpoint(fault=answer_all).running() as endpoint:
        found = observe(Client(address.parse(endpoint.url)), [request("a"), request("b")], timeout=5)
    assert [body["messages"][0]["content"] for body in bodies] == ["a", "a", "b"]
    assert all(body["logprobs"] is True and body["temperature"] == 0 for body in bodies)
    assert [one.prompt for one in found.answers] == ["a", "b"]
    assert found.answers[0].logprobs == [-0.25, -1.0]
    assert found.answers[0].top == [{"x": -0.25}, {"x": -1.0}]
    assert found.tokens_per_s > 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (completion(None), "gives no log probabilities"),
        (completion({"content": []}), "gives no log probabilities"),
        (completion({"content": [entry(float("nan"))]}), "nan is no finite number"),
        (completion({"content": [entry(None)]}), "None is no finite number"),
        (completion({"content": [entry(10**400)]}), "too large"),
        (completion({"content": [{"token": "x"}]}), "logprob"),
        ("no JSON", "not JSON"),
    ],
)
def test_unusable_log_probabilities_are_an_error(body: str, said: str) -> None:
    serving = Endpoint(fault=lambda exchange: exchange.send(200, body)).running()
    with serving as endpoint, pytest.raises(ServingError, match=said):
        observe(Client(address.parse(endpoint.url)), [request("a")], timeout=5)


def test_the_prompts_are_several_and_short_enough() -> None:
    assert len(set(PROMPTS)) == len(PROMPTS) == 12
    assert 2000 < max(len(prompt.encode()) for prompt in PROMPTS) < 3500
    assert comparison.DIFFERENT == "different"
