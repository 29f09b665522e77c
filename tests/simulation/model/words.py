# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words and wordings that conversations.py puts together, and what is drawn at random from them."""

from __future__ import annotations

import random


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CODE_WORDS = _words(
    "HERON FALCON SPARROW OSPREY PELICAN MAGPIE ROBIN SWALLOW CURLEW PLOVER RAVEN EAGLE FINCH STORK KESTREL LAPWING "
    "PUFFIN GANNET PETREL LINNET AMBER AZURE CORAL CRIMSON INDIGO IVORY MAROON OLIVE SCARLET VIOLET"
)
GIVE_CODE_WORD = (
    "The code word is {word}. Please remember it.",
    "The code word is {word}. Remember it.",
    "Remember this code word: {word}.",
    "Remember this code word: {word}. Reply with OK.",
    "The code word is {word}. Please remember it. Reply with OK.",
    "Please remember the code word {word}.",
    "Our code word is {word}. Keep it in mind.",
)
HIDE_CODE_WORD = (
    "The code word is {word}.",
    "The secret code word is {word}.",
    "Remember: the code word is {word}.",
    "The secret code is {word}.",
    "The code word is {word}. Please remember it.",
    "The code word is {word}. Please remember it.",
)
ASK_CODE_WORD = (
    "What is the code word?",
    "What was the code word?",
    "What was the code word? Reply with the word only.",
    "What is the code word? Reply with the word only.",
    "What is the code word? Reply with only the code word.",
    "Tell me the code word.",
    "Which code word did I give you?",
    "What code word did I ask you to remember? Reply with it only.",
    "What is the secret code? Answer with the code only.",
)
PADDING_WORDS = _words("the of and with over under north river stone light paper table word lorem ipsum 0 1 7 . ,")
OTHER_WORDS = _words(
    "a about after all also an any are as at back be because but by can come could day do even find first for from "
    "garden get give go good green have he her here him his house how I if in into it its just know like little long "
    "look make man many me more my new no not now on one only or other our out people say see she small so some "
    "street summer take tell than that their them then there these they thing think this time to tree two up us use "
    "very want water way we well what when which who will window winter work would year you your is was were has had "
    "amber apple bridge bottle candle castle cloud copper dust engine feather field forest glass hammer harbor island "
    "kettle ladder lantern lemon letter market meadow mirror morning mountain needle ocean orange pencil pepper "
    "pillow pocket rain road salt sand ship silver smoke snow south east west spoon spring station sugar thread "
    "thunder valley village wheel wind wood wool yellow blue red black white"
)
CITIES = _words(
    "Oslo Paris Berlin Madrid Rome Vienna Lisbon Tokyo Athens Cairo Delhi Dublin Geneva Hamburg Helsinki Lima London "
    "Lyon Milan Montreal Munich Nairobi Naples Prague Quito Riga Seoul Sofia Stockholm Sydney Toronto Turin Warsaw "
    "Zurich"
)
ASK_WEATHER = (
    "What is the weather in {city}?",
    "What is the weather in {city}? Use the tool.",
    "What is the weather like in {city}?",
    "What is the weather in {city} right now?",
    "What is the weather in {city} right now? Use the tool.",
    "How is the weather in {city}?",
    "Use the tool to get the weather in {city}.",
)
SKIES = _words("sunny cloudy rainy windy clear foggy snowy stormy hail")
SYLLABLES = _words("ba be bo da di do fa fe ga go ha he ka ki ko la le li lo ma me mi mo na ne no pa pe po ra re ri ro")
SYLLABLES += _words("sa se si so ta te ti to va ve vi wa we za ze zo an ar el en er in is on or ur th st ch")


def invented_word(rng: random.Random) -> str:
    """A word that nobody has seen: what is copied must not be what was learnt by heart."""
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3)))


def code_word(rng: random.Random) -> str:
    """Mostly one of the thirty; else two of them, an invented word, or a number."""
    kind = rng.random()
    if kind < 0.65:
        return rng.choice(CODE_WORDS)
    if kind < 0.8:
        return "-".join(rng.sample(CODE_WORDS, 2))
    if kind < 0.9:
        return invented_word(rng).upper()
    return str(rng.randrange(100, 10000))


def city(rng: random.Random) -> str:
    return rng.choice(CITIES) if rng.random() < 0.85 else invented_word(rng).title()


def filler(rng: random.Random, count: int) -> str:
    """``count`` words in random order, which mean nothing; half the time of PADDING_WORDS alone."""
    words = PADDING_WORDS
    if rng.random() < 0.4:
        words = (*words, *rng.sample(OTHER_WORDS, rng.randint(5, len(OTHER_WORDS))))
    return " ".join(rng.choices(words, k=count))
