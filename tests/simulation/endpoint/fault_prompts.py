# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that depend on the prompt: its length in the server's own tokens, its history, its middle, its prefix."""

from __future__ import annotations

import threading

from .behaviour import Setting, answers, garble, requests
from .cache_books import shared
from .proxy import Behaviour
from .wire import Call, text

SHARED_TOKENS = 256


def garbage_above(setting: Setting) -> Behaviour:
    """Right up to a number of prompt tokens, garbage above."""
    limit = setting.rng.randint(65, 1500)
    return answers(lambda call: setting.prompt_length(call) > limit, garble(setting))


def garbage_in_band(setting: Setting) -> Behaviour:
    """A kernel that fails where a tile is left almost empty: the first rows above a power of two."""
    power = 2 ** setting.rng.randint(8, 10)
    return answers(lambda call: power < setting.prompt_length(call) <= power + 2, garble(setting))


def garbage_on_cache_hit(setting: Setting) -> Behaviour:
    """Garbage where the prompt begins as an earlier one of the same salt does."""
    prompts: list[tuple[str, list[int]]] = []
    lock = threading.Lock()

    def hit(call: Call) -> bool:
        tokens = setting.upstream.prompt_tokens(call)
        salt = str(call.body.get("cache_salt"))
        with lock:
            found = any(salt == other and shared(tokens, known) >= SHARED_TOKENS for other, known in prompts)
            prompts.append((salt, tokens))
        return found

    return answers(hit, garble(setting))


def forgets_turns(setting: Setting) -> Behaviour:
    """Nothing before the user's last words reaches the model; a tool's result after them does."""

    def change(call: Call) -> Call:
        last = max(number for number, message in enumerate(call.messages) if message.get("role") == "user")
        system = [message for message in call.messages[:last] if message.get("role") == "system"]
        return call.changed(messages=[*system, *call.messages[last:]])

    return requests(setting, lambda call: any(message.get("role") == "user" for message in call.messages), change)


def forgets_middle(setting: Setting) -> Behaviour:
    """Of a long text the model sees the beginning and the end; its middle is the beginning again."""
    long = setting.rng.randint(400, 600)
    begin, end = setting.rng.uniform(0.2, 0.35), setting.rng.uniform(0.65, 0.8)

    def forgotten(said: str) -> str:
        first, last = int(begin * len(said)), int(end * len(said))
        return said[:first] + (said[:first] * 4)[: last - first] + said[last:]

    def change(call: Call) -> Call:
        longest = max(call.messages, key=lambda message: len(text(message)))
        messages = [
            {**message, "content": forgotten(text(message))} if message is longest else message
            for message in call.messages
        ]
        return call.changed(messages=messages)

    return requests(setting, lambda call: bool(call.messages) and setting.prompt_length(call) > long, change)
