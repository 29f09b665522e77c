# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint import fields, filler
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.raw import Untokenized
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given, settings
from hypothesis import strategies as st

ASKED = "What is the capital of France?"


def bytes_of(said: str) -> list[int]:
    """A tokenizer of single bytes, with a template around."""
    return [300, 301, *said.encode(), 302, 303, 304]


def words_of(said: str) -> list[int]:
    """A tokenizer of words, without a template."""
    return [hash(word) for word in re.findall(r"\n\n|\S+", said)]


def frame(tokenize: Callable[[str], list[int]] = bytes_of, seed: int = 0, longest: int = 900) -> filler.Frame:
    return filler.frame(tokenize, random.Random(seed), filler.WORDS, ASKED, longest)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 900))
def test_prompts_have_exactly_so_many_tokens(seed: int, tokens: int) -> None:
    found = frame(seed=seed)
    prompt = found.prompt(tokens, random.Random(seed))
    assert len(prompt) == tokens
    assert not {300, 301, 302, 303, 304} & set(found.filler)
    end = [*(filler.JOIN + ASKED).encode(), 302, 303, 304]
    assert prompt[-len(end) :] == end[-tokens:]
    if tokens >= found.smallest:
        assert prompt[:2] == [300, 301]
        assert set(bytes(prompt[2 : -len(end)]).decode()) <= set(" ".join(filler.WORDS))


def test_the_frame_is_what_both_chats_share() -> None:
    found = frame(words_of)
    assert found.prefix == []
    assert found.suffix == words_of(f"{filler.JOIN}{ASKED}")
    assert len(found.filler) >= 900
    assert found.smallest == 7


def test_texts_are_random_and_repeatable() -> None:
    assert filler.text(random.Random(1), filler.WORDS, 20) == filler.text(random.Random(1), filler.WORDS, 20)
    assert filler.text(random.Random(1), filler.WORDS, 20) != filler.text(random.Random(2), filler.WORDS, 20)
    rng = random.Random(3)
    assert len({filler.salt(rng) for _prompt in range(100)}) == 100
    found = frame()
    # two prompts of one length do not share the beginning of their filler
    assert found.prompt(500, random.Random(1))[:60] != found.prompt(500, random.Random(2))[:60]


def test_a_tokenizer_that_joins_words_gets_more_of_them() -> None:
    calls = []

    def joins(said: str) -> list[int]:
        calls.append(said)
        ids = words_of(said)
        return [hash(tuple(ids[at : at + 2])) for at in range(0, len(ids) - 7, 2)] + ids[-7:]

    assert len(frame(joins).filler) >= 900
    assert len(calls) > 2


@pytest.mark.parametrize(
    ("tokenize", "said"),
    [(lambda said: [len(said)], "do not end with"), (lambda said: [*words_of(said)[:20], 1], "token ids only")],
)
def test_a_tokenizer_without_a_frame(tokenize: Callable[[str], list[int]], said: str) -> None:
    with pytest.raises(Untokenized, match=said):
        frame(tokenize)


def test_no_word_of_the_filler_is_in_the_default_questions() -> None:
    assert len(set(filler.WORDS)) == len(filler.WORDS) > 90
    assert not {"paris", "france", "capital", "code", "secret"} & set(filler.WORDS)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: fields.pattern("(", "x.expect"), "x.expect is not usable: it is no regular expression"),
        (lambda: fields.pattern(".*", "x.expect"), "matches an empty answer"),
        (lambda: fields.positive(0, "x.max_tokens"), "0 is not positive"),
        (lambda: fields.integers([], "x.lengths"), "positive integers"),
        (lambda: fields.integers([1, True], "x.lengths"), "positive integers"),
        (lambda: fields.integers([1, "2"], "x.lengths"), "positive integers"),
        (lambda: fields.texts([], "x.codes"), "at least one text"),
        (lambda: fields.texts(["a", "a"], "x.filler", least=2), "at least 2 different texts"),
        (lambda: fields.texts(["a", " "], "x.filler", least=2), "none of them empty"),
        (lambda: fields.texts(["a", 7], "x.filler", least=2), "at least 2 different texts"),
    ],
)
def test_members_that_are_not_usable(read: Callable[[], object], said: str) -> None:
    with pytest.raises(ServingError, match=re.escape(said).replace(": it", ".*it")):
        read()


def test_usable_members() -> None:
    assert fields.pattern("^Paris$", "x").search("Paris")
    assert fields.positive(3, "x") == 3
    assert fields.integers([3, 1], "x") == (3, 1)
    assert fields.texts(["b", "a"], "x", least=2) == ("b", "a")
