# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words and wordings that conversations.py puts together."""

from __future__ import annotations

CODE_WORDS = (
    "HERON",
    "FALCON",
    "SPARROW",
    "OSPREY",
    "PELICAN",
    "MAGPIE",
    "ROBIN",
    "SWALLOW",
    "CURLEW",
    "PLOVER",
    "RAVEN",
    "EAGLE",
    "FINCH",
    "STORK",
    "KESTREL",
    "LAPWING",
    "PUFFIN",
    "GANNET",
    "PETREL",
    "LINNET",
    "AMBER",
    "AZURE",
    "CORAL",
    "CRIMSON",
    "INDIGO",
    "IVORY",
    "MAROON",
    "OLIVE",
    "SCARLET",
    "VIOLET",
)

GIVE_CODE_WORD = (
    "The code word is {word}. Please remember it.",
    "The code word is {word}. Remember it.",
    "Remember this code word: {word}.",
    "Remember this code word: {word}. Reply with OK.",
    "Please remember the code word {word}.",
    "Our code word is {word}. Keep it in mind.",
)
ASK_CODE_WORD = (
    "What is the code word?",
    "What was the code word?",
    "What was the code word? Reply with the word only.",
    "What is the code word? Reply with only the code word.",
    "Tell me the code word.",
    "Which code word did I give you?",
    "What code word did I ask you to remember? Reply with it only.",
)
PADDING_WORDS = (
    "the",
    "of",
    "and",
    "with",
    "over",
    "under",
    "north",
    "river",
    "stone",
    "light",
    "paper",
    "table",
    "word",
    "lorem",
    "ipsum",
    "0",
    "1",
    "7",
    ".",
    ",",
)
CITIES = ("Oslo", "Paris", "Berlin", "Madrid", "Rome", "Vienna", "Lisbon", "Tokyo")
ASK_WEATHER = (
    "What is the weather in {city}?",
    "What is the weather in {city}? Use the tool.",
    "What is the weather like in {city}?",
    "What is the weather in {city} right now?",
    "How is the weather in {city}?",
    "Use the tool to get the weather in {city}.",
)
DEGREES = (2, 5, 7, 11, 14, 16, 19, 22, 25, 28)
SKIES = ("sunny", "cloudy", "rainy", "windy")
