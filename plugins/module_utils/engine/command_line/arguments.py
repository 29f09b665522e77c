# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""An argument list taken apart as the engine's own parser does before argparse sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .conversions import human_readable_int

_NAME = re.compile(r"(?<=--)[^\.]*")
_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
_LEVELS = ("0", "1", "2", "3")
LEVEL_FLAG = "--optimization-level"


@dataclass(frozen=True)
class Asked:
    """One flag with its values: as written, and as the engine reads it."""

    written: str
    read: str
    values: list[str]


def groups(arguments: list[str], positionals: list[str]) -> Iterator[Asked]:
    """The flags with the values that follow them; values before any flag are positionals."""
    written = _dashed(arguments)
    dotted: dict[str, tuple[str, dict[str, Any]]] = {}
    at = 0
    while at < len(written):
        original, read = written[at]
        at += 1
        if read == "--":
            positionals += [value for _original, value in written[at:]]
            break
        if not _is_flag(read):
            positionals.append(read)
            continue
        name, equals, value = read.partition("=")
        if "." in name:
            if not equals and at == len(written):
                yield Asked(original, name.partition(".")[0], [])
                return
            if not equals:
                value = written[at][1]
                at += 1
            key, *path = name.split(".")
            _put(dotted.setdefault(key, (original.partition("=")[0], {}))[1], path, value)
            continue
        values = []
        while at < len(written) and not _is_flag(written[at][1]):
            values.append(written[at][1])
            at += 1
        yield Asked(original.partition("=")[0], read, values)
    for key, (original, document) in dotted.items():
        yield Asked(original, key, [json.dumps(document)])


def _dashed(arguments: list[str]) -> list[tuple[str, str]]:
    """(as written, as read): underscores of a flag's name are dashes, -O3 is --optimization-level 3."""
    found: list[tuple[str, str]] = []
    for at, argument in enumerate(arguments):
        following = arguments[at + 1] if at + 1 < len(arguments) else None
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            read = _NAME.sub(lambda match: match.group().replace("_", "-"), name, count=1)
            found.append((argument, read + equals + value))
        elif argument.startswith("-O") and argument != "-O":
            level = argument[3:] if argument[2] == "=" else argument[2:]
            found += [(argument, LEVEL_FLAG), (argument, level)]
        elif argument == "-O" and following in _LEVELS:
            found.append((argument, LEVEL_FLAG))
        else:
            found.append((argument, argument))
    return found


def _is_flag(text: str) -> bool:
    """As argparse decides: a negative number and a text with a space in front of any `=` are values."""
    return len(text) > 1 and text[0] == "-" and not _NUMBER.match(text) and " " not in text.partition("=")[0]


def _put(document: dict[str, Any], path: list[str], text: str) -> None:
    """--flag.a.b TEXT, a plus at the end for a list, as the engine merges it into the flag's JSON."""
    value: Any
    if path[-1].endswith("+"):
        path = [*path[:-1], path[-1][:-1]]
        value = text.split(",")
    else:
        try:
            value = json.loads(text)
        except ValueError:
            try:
                value = human_readable_int(text)
            except ValueError:
                value = text
    for key in path[:-1]:
        inner = document.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = document[key] = {}
        document = inner
    held = document.get(path[-1])
    document[path[-1]] = [*held, *value] if isinstance(held, list) and isinstance(value, list) else value
