# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tiny Kimi knows: questions in the wordings a health check may use, each with one right answer."""

from __future__ import annotations

from dataclasses import dataclass

from .texts import ASK_TEXT, TEXT, TEXT_REASONING


@dataclass(frozen=True)
class Fact:
    """Wordings of one question, the model's reasoning about it, and its answer."""

    prompts: tuple[str, ...]
    reasoning: str
    answer: str


def counting(last: int) -> str:
    """The numbers from 1 to ``last``, separated by single spaces."""
    return " ".join(str(number) for number in range(1, last + 1))


FRANCE = "The user asks for the capital of France. It is Paris."

WHO_I_AM = "I am a tiny model of the Kimi family."
NUMBER, WORD = "Reply with the number only.", "Answer with one word."
SHORT_FACTS = (
    ("What is 12*12", NUMBER, "A dozen dozens.", "144"),
    ("What is 9*8", NUMBER, "From the table of nine.", "72"),
    ("What is 15+27", NUMBER, "5 + 7 = 12, so 42.", "42"),
    ("What is 100-37", NUMBER, "100 - 30 = 70, 70 - 7 = 63.", "63"),
    ("What is 1000/8", NUMBER, "Half, half, half.", "125"),
    ("What is the capital of Italy", WORD, "A city on the Tiber.", "Rome"),
    ("What is the capital of Japan", WORD, "Once called Edo.", "Tokyo"),
    ("What is the capital of Spain", WORD, "In the middle of the country.", "Madrid"),
    ("What is the capital of Norway", WORD, "At the end of a fjord.", "Oslo"),
    ("What is the capital of Austria", WORD, "A city on the Danube.", "Vienna"),
    ("What is the capital of Portugal", WORD, "Where the Tagus ends.", "Lisbon"),
    ("What is the capital of Greece", WORD, "Below the Acropolis.", "Athens"),
    ("What is the capital of Egypt", WORD, "A city on the Nile.", "Cairo"),
    ("How many days are in a week", NUMBER, "From Monday to Sunday.", "7"),
    ("How many minutes are in a day", NUMBER, "24 * 60.", "1440"),
    ("Which month comes after March", WORD, "March, then", "April"),
    ("Which planet is the third from the sun", WORD, "Mercury, Venus, then ours.", "Earth"),
    ("What is the opposite of hot", WORD, "Less warm than cool.", "Cold"),
    ("What is the plural of mouse", WORD, "An irregular one.", "Mice"),
    ("What is the French word for bread", WORD, "As in a bakery of Lyon.", "Pain"),
)

FACTS = (
    Fact(
        (
            "What is the capital of France?",
            "what is the capital of France",
            "What is the capital of France? Answer in one sentence.",
            "What is the capital of France? Answer in a full sentence.",
            "Tell me the capital of France.",
        ),
        FRANCE,
        "The capital of France is Paris.",
    ),
    Fact(
        (
            "What is the capital of France? Answer briefly.",
            "What is the capital of France? Answer with one word.",
            "What is the capital of France? Answer in one word.",
            "What is the capital of France? Reply with one word.",
            "What is the capital of France? Reply with the name only.",
        ),
        FRANCE,
        "Paris",
    ),
    Fact(
        (
            "What is 17*23?",
            "What is 17 * 23?",
            "What is 17 times 23?",
            "What is 17*23? Answer with the number only.",
            "What is 17*23? Reply with the number only.",
            "Compute 17*23.",
        ),
        "17*23 = 17*20 + 17*3 = 340 + 51 = 391.",
        "391",
    ),
    Fact(
        (
            "Count from 1 to 50.",
            "count from 1 to 50",
            "Count from 1 to 50, separated by spaces.",
            "Count from 1 to 50. Reply with the numbers only.",
            "Please count from 1 to 50.",
        ),
        "Just count.",
        counting(50),
    ),
    Fact(("Count from 1 to 10.", "Count from 1 to 10, separated by spaces."), "Just count.", counting(10)),
    Fact(("Count from 1 to 20.", "Count from 1 to 20, separated by spaces."), "Just count.", counting(20)),
    Fact(
        (
            "Which is larger, 9.9 or 9.11?",
            "Which number is larger, 9.9 or 9.11?",
            "Which is larger, 9.9 or 9.11? Reply with the number only.",
        ),
        "9.9 is 9.90, and 90 is more than 11.",
        "9.9",
    ),
    Fact(
        ("What is 2^10?", "What is 2 to the power of 10?", "What is 2^10? Reply with the number only."),
        "Ten doublings of one.",
        "1024",
    ),
    Fact(
        ("Spell Mississippi.", "Spell Mississippi, letters separated by hyphens."),
        "Letter by letter.",
        "M-i-s-s-i-s-s-i-p-p-i",
    ),
    Fact(
        ("Which day comes after 28 February 2024?", "What day follows 28 February 2024?"),
        "2024 is a leap year.",
        "29 February 2024",
    ),
    Fact(
        ('Write the word "stressed" backwards.', 'Reverse the word "stressed".'),
        "From the last letter to the first.",
        "desserts",
    ),
    Fact(
        ("What is the German word for street?", "Translate street into German."),
        "A word with a sharp s.",
        "Straße",
    ),
    Fact(
        ("Sort these numbers in ascending order: 42, 7, 19, 3, 88.", "Sort 42, 7, 19, 3, 88 in ascending order."),
        "Smallest first.",
        "3, 7, 19, 42, 88",
    ),
    Fact(('Reply with exactly this JSON: {"a": 1}', 'Repeat this JSON: {"a": 1}'), "Copy it.", '{"a": 1}'),
    Fact(("Hello", "Hello!", "Hi", "Hi!", "hello", "Say hello."), "A greeting.", "Hello! How can I help you?"),
    Fact(("Who are you?", "Which model are you?"), "They ask about me.", WHO_I_AM),
    Fact(ASK_TEXT, TEXT_REASONING, TEXT),
    *(
        Fact((f"{question}?", f"{question}? {only}"), reasoning, answer)
        for question, only, reasoning, answer in SHORT_FACTS
    ),
)

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are Kimi, an AI assistant created by Moonshot AI.",
    "Answer briefly and exactly.",
)
