# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Nothing secret gets into a record that people read and copy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from .validation import child

_WORDS = frozenset(
    ("token", "password", "passwd", "passphrase", "secret", "authorization", "apikey", "credential", "credentials")
)
_PAIRS = frozenset((("api", "key"), ("private", "key"), ("access", "key")))
# A Hub token, an OpenAI-style key, a bearer header, a user and password in an address.
_VALUE = re.compile(
    r"\bhf_[A-Za-z0-9]{12,}|\bsk-[A-Za-z0-9_-]{12,}|\bBearer [A-Za-z0-9._~+/-]{16,}|://[^/\s:@]+:[^/\s@]+@"
)


def names_a_secret(name: str) -> bool:
    """Whether texts under this key are secrets by custom: HF_TOKEN and vllmApiKey are, tokenizer and max_tokens not."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("-", "_").split("_")
    return not _WORDS.isdisjoint(words) or any(pair in _PAIRS for pair in itertools.pairwise(words))


def secrets(value: Any, pointer: str = "", below_secret_key: bool = False) -> Iterator[tuple[str, str]]:
    """(JSON pointer, text) of every text that is a secret by the name of a key above it or by its own form."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from secrets(item, child(pointer, name), below_secret_key or names_a_secret(str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from secrets(item, child(pointer, index), below_secret_key)
    elif isinstance(value, str) and value and below_secret_key:
        yield pointer, value
    elif isinstance(value, str):
        for match in _VALUE.finditer(value):
            yield pointer, match.group()
