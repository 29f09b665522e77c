# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The parser that an engine's source fills, and the flags that it has afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..source.operations import is_told
from ..source.reader import Reader
from ..source.values import SPOILED, Class, Native, Record, Recorder, Unknown, Value
from .conversions import converter
from .field_options import BOOLEAN_OPTIONAL, VALIDATORS

_DEPRECATED = re.compile(r"\bdeprecated and\b|\bis deprecated\b|^\W*deprecated\b", re.IGNORECASE)
# How many values an action of argparse takes, where it is not the option's own nargs.
_SWITCHES = frozenset(("store_true", "store_false", "store_const", "append_const", "count", "help", "version"))
_TAKING = frozenset(("store", "append", "extend"))


@dataclass(frozen=True)
class Flag:
    """One option of the engine.

    name:        its first long spelling
    options:     every spelling, those that negate it included
    choices:     the values it takes; None: any; Unknown: cannot be told
    default:     what it is when it is not given, or Unknown
    nargs:       0 for a switch, None for one value, or argparse's "?", "*", "+", a number, Unknown
    convert:     what the text of a value becomes before it is compared; None: cannot be told
    named:       the values that the release names where it takes others as well, or None
    refuses:     the engine's complaint about a value that its parser takes, or None; None: it has no such check
    deprecated:  what the engine says about its end, or None
    conditional: whether the engine may leave it out
    where:       file and line that add it
    """

    name: str
    options: tuple[str, ...]
    choices: Value
    default: Value
    nargs: Value
    convert: Callable[[str], Any] | None
    named: list[Value] | None
    refuses: Callable[[Any], str | None] | None
    deprecated: str | None
    conditional: bool
    where: str


class Parser:
    """Records add_argument().

    inverses: {prefix: opposite prefix} that the engine's own boolean action adds spellings for
    value:    what the source works on; its groups are the parser itself
    lost:     what was done to the parser that cannot be told: there may be more flags
    """

    def __init__(self, reader: Reader, inverses: Mapping[str, str]) -> None:
        self.flags: list[Flag] = []
        self.positionals: list[str] = []
        self.lost: list[str] = []
        self.value = Recorder(self._attribute, self.lost.append)
        self._reader = reader
        self._inverses = inverses

    def _attribute(self, name: str, where: str) -> Value:
        if name == "add_argument":
            return Native(name, lambda *names, **keywords: self._add(list(names), keywords, where), lenient=True)
        if name in ("add_argument_group", "add_mutually_exclusive_group"):
            return Native(name, lambda *_given, **_keywords: self.value, lenient=True)
        if name.startswith(("add_", "set_", "_add", "register")):
            self.lost.append(f"{name} of the parser is used in a way that cannot be told ({where})")
        return Unknown(f"{name} of the parser", where)

    def _add(self, names: list[Value], keywords: dict[str, Value], where: str) -> Value:
        if not names or not all(isinstance(name, str) for name in names):
            self.lost.append(f"the name of an option cannot be told ({where})")
        elif not names[0].startswith("-"):
            self.positionals.append(names[0])
        else:
            self.flags.append(self._flag(names, keywords, where))
        return Record("an action of the parser", {})

    def _flag(self, names: list[str], keywords: dict[str, Value], where: str) -> Flag:
        spoiled = keywords.get(SPOILED)
        action = keywords.get("action", spoiled if spoiled is not None else "store")
        nargs = self._nargs(action, keywords, where)
        options = tuple(names)
        if action == BOOLEAN_OPTIONAL:
            options = self._boolean(options)
        elif isinstance(action, Unknown):
            options = (*options, *_negated(options))
        takes = nargs != 0
        choices = keywords.get("choices", spoiled) if takes else None
        if isinstance(choices, (list, tuple, set)):
            unknown = next((each for each in choices if isinstance(each, Unknown)), None)
            choices = unknown or list(choices)
        given = "default" in keywords
        default = keywords["default"] if given else spoiled if spoiled is not None else _implied(action)
        kind = keywords.get("type", spoiled)
        return Flag(
            name=next((name for name in names if name.startswith("--")), names[0]),
            options=options,
            choices=choices,
            default=default,
            nargs=nargs,
            # The engine's own actions convert on their own.
            convert=None if not takes or isinstance(action, Class) else converter(kind, self._reader),
            named=_named(keywords),
            refuses=self._refuses(keywords) if choices is None else None,
            deprecated=_deprecated(keywords),
            conditional=self._reader.uncertain > 0,
            where=where,
        )

    def _refuses(self, keywords: dict[str, Value]) -> Callable[[Any], str | None] | None:
        """What the validators of the field behind the option complain about."""
        validators = keywords.get(VALIDATORS)
        if not validators or _named(keywords) is None:
            return None
        return lambda value: next(filter(None, (self._complaint(each, value) for each in validators)), None)

    def _complaint(self, validator: Value, value: Value) -> str | None:
        self._reader.restart()
        raised = self._reader.certain_exception(validator, [value], {})
        return None if raised is None else raised.message or f"it is refused at {raised.place}"

    def _nargs(self, action: Value, keywords: dict[str, Value], where: str) -> Value:
        if action == BOOLEAN_OPTIONAL or (isinstance(action, str) and action in _SWITCHES):
            return 0
        default = keywords.get(SPOILED)
        if isinstance(action, str) and action in _TAKING:
            return keywords.get("nargs", default)
        if isinstance(action, Class) and not _sets_nargs(action):
            return keywords.get("nargs", default)
        return Unknown("how many values the option takes cannot be told", where)

    def _boolean(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """All spellings of a switch with a negation."""
        inverses = tuple(
            opposite + name.removeprefix(prefix)
            for name in names
            for prefix, opposite in self._inverses.items()
            if name.startswith(prefix)
        )
        return (*names, *_negated(names), *inverses)


def _named(keywords: Mapping[str, Value]) -> list[Value] | None:
    """The values that stand in the help in place of choices."""
    shown = keywords.get("metavar")
    return list(shown) if isinstance(shown, list) and is_told(shown) else None


def _negated(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"--no-{name[2:]}" for name in names if name.startswith("--"))


def _implied(action: Value) -> Value:
    """The default of an action that is given none."""
    return {"store_true": False, "store_false": True}.get(action) if isinstance(action, str) else None


def _sets_nargs(action: Class) -> bool:
    """Whether the engine's own action decides how many values it takes."""
    return any(getattr(statement, "name", "") == "__init__" for statement in action.node.body)


def _deprecated(keywords: Mapping[str, Value]) -> str | None:
    """What the engine says about the end of the option: the sentence of its help, where there is one."""
    text = keywords.get("help")
    text = " ".join(text.split()) if isinstance(text, str) else ""
    if keywords.get("deprecated") is True:
        return text or "deprecated"
    return text if _DEPRECATED.search(text) else None
