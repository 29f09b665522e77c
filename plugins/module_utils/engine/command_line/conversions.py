# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What an engine turns the text of an argument into before it compares it with the choices."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..source.reader import Reader
from ..source.values import External, Function, Native, Unknown, Value

_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_BARE_SUFFIXED = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')
_BRACED = re.compile(r"(?s)^\s*{.*}\s*$")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Conversion:
    """A conversion of the engine with a known meaning; `inner` is what an optional one wraps."""

    kind: str
    inner: Value = None


def natives() -> dict[str, Native]:
    """Functions of the engine that make a conversion, by name."""
    return {name: _native(name) for name in ("optional_type", "parse_type")}


def _native(name: str) -> Native:
    return Native(name, lambda inner=None, *_more, **_keywords: Conversion(name, inner), lenient=True)


def converter(value: Value, reader: Reader) -> Callable[[str], Any] | None:
    """The conversion as a function of ours that raises ValueError as the engine's would; None when it is not known."""
    if value is None:
        return str
    if isinstance(value, Conversion):
        return _of_conversion(value, reader)
    if isinstance(value, Native):
        return {"int": int, "float": float, "str": str}.get(value.name)
    if isinstance(value, Function):
        name = getattr(value.node, "name", "")
        return _PLAIN[name] if name in _PLAIN else _of_function(value, reader)
    return json.loads if value == External("json.loads") else None


def _of_conversion(value: Conversion, reader: Reader) -> Callable[[str], Any] | None:
    if value.kind == "dataclass":
        return lambda text: json.loads(with_plain_numbers(text) if value.inner else text)
    if value.kind in _PLAIN:
        return _PLAIN[value.kind]
    inner = converter(value.inner, reader)
    if inner is None or value.kind != "optional_type":
        return inner
    return lambda text: None if text in ("", "None") else inner(text)


def _of_function(function: Function, reader: Reader) -> Callable[[str], Any] | None:
    """A lambda of the source, such as `lambda s: s.lower()`; not known when its result cannot be told."""
    place = function.scope.place(function.node)

    def convert(text: str) -> Any:
        reader.restart()
        return reader.call(function, [text], {}, place)

    return None if isinstance(convert("auto"), Unknown) else convert


def human_readable_int(text: str) -> int:
    """25.6k is 25,600; 1K is 1,024."""
    match = _SUFFIXED.fullmatch(text.strip())
    if match is None:
        return int(text.strip())
    number, suffix = match.groups()
    return int(float(number) * _DECIMAL[suffix]) if suffix in _DECIMAL else int(number) * _BINARY[suffix]


def human_readable_int_or_auto(text: str) -> int:
    """The same, and -1 for `auto`."""
    return -1 if text.strip() == "-1" or text.strip().lower() == "auto" else human_readable_int(text)


def dict_or_text(text: str) -> Any:
    """A JSON object where there are braces, otherwise the text."""
    return json.loads(text) if _BRACED.match(text) else text


def with_plain_numbers(text: str) -> str:
    """JSON with 80m and 1K outside its strings written out."""
    parts = _QUOTED.split(text)
    parts[::2] = [_BARE_SUFFIXED.sub(lambda match: str(human_readable_int(match.group())), part) for part in parts[::2]]
    return "".join(parts)


_PLAIN: dict[str, Callable[[str], Any]] = {
    "human_readable_int": human_readable_int,
    "human_readable_int_or_auto": human_readable_int_or_auto,
    "union_dict_and_str": dict_or_text,
}
