# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What an installed vLLM would say to an argument list, before it is started with it."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import redact
from .command_line.arguments import Asked, groups
from .command_line.parser import Flag
from .flag_replacements import replacement
from .flags import CommandLine
from .source.values import Unknown


@dataclass(frozen=True)
class Verdict:
    """What the engine would refuse, and what it would take but warns of.

    removed:    [{flag, replacement, advice, nearest}] it does not know
    refused:    [{flag, value, choices, nearest, message}] values it would not take
    deprecated: [{flag, message}]
    notes:      what is not judged
    certain:    whether the flags that are not known could be told to be so
    """

    removed: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    deprecated: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    certain: bool = True

    @property
    def accepted(self) -> bool:
        """Whether nothing is known that the engine would refuse."""
        return not self.refused and not (self.removed and self.certain)


class _Refused(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    """argparse as the engine uses it: abbreviations allowed, its errors handed on."""

    def error(self, message: str) -> NoReturn:
        raise _Refused(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Refused(message or f"exit {status}")


def check(command_line: CommandLine, arguments: Sequence[str]) -> Verdict:
    """What becomes of the arguments that stand behind `vllm serve` or the module of the API server."""
    if not arguments:
        return Verdict(certain=not command_line.lost)
    parser = _parser(command_line)
    spellings = {option: flag for flag in command_line.flags.values() for option in flag.options}
    verdict = Verdict(certain=not command_line.lost)
    positionals: list[str] = []
    for asked in groups(list(arguments), positionals):
        _judge(asked, parser, command_line, spellings, verdict, positionals)
    surplus = positionals[len(command_line.positionals) :]
    if surplus:
        values = ", ".join(redact.text(each) for each in surplus)
        verdict.refused.append(_refusal(None, values, None, f"unrecognized arguments: {values}"))
    return verdict


def _judge(
    asked: Asked,
    parser: _Parser,
    command_line: CommandLine,
    spellings: dict[str, Flag],
    verdict: Verdict,
    positionals: list[str],
) -> None:
    """One flag with its values."""
    try:
        _namespace, extra = parser.parse_known_args([asked.read, *asked.values])
    except _Refused as refused:
        flag = _meant(asked.read, spellings)
        value = " ".join(_shown(asked)) or None
        choices = flag.choices if flag and isinstance(flag.choices, list) else None
        verdict.refused.append(_refusal(asked.written, value, choices, redact.text(str(refused))))
        return
    if extra and extra[0] == asked.read:
        name = asked.read.partition("=")[0].partition(".")[0]
        found = replacement(name, command_line.flags, spellings)
        verdict.removed.append(
            {"flag": asked.written, "replacement": found.flag, "advice": found.advice, "nearest": found.nearest}
        )
        return
    positionals += extra
    flag = _meant(asked.read, spellings)
    if flag is not None:
        _remark(asked, flag, verdict, certain=verdict.certain)


def _remark(asked: Asked, flag: Flag, verdict: Verdict, *, certain: bool) -> None:
    """What there is to say about a flag that the parser takes."""
    if flag.deprecated:
        verdict.deprecated.append({"flag": asked.written, "message": flag.deprecated})
    if flag.name == "--config":
        verdict.notes.append("what the file of --config adds is not judged")
    if isinstance(flag.choices, Unknown):
        verdict.notes.append(f"the value of {asked.written} is not judged: {flag.choices}")
    elif flag.nargs != 0 and flag.convert is None:
        verdict.notes.append(f"the value of {asked.written} is not judged: the engine reads it in a way of its own")
    for value in _shown(asked) if flag.named else ():
        if flag.convert is None or flag.convert(value) in (*(flag.named or ()), None):
            continue
        complaint = flag.refuses(flag.convert(value)) if flag.refuses else None
        if complaint and certain:
            verdict.refused.append(_refusal(asked.written, value, flag.named, complaint))
        else:
            known = ", ".join(map(str, flag.named or ()))
            verdict.notes.append(f"{asked.written} {value} is none of those that this release names ({known})")


def _refusal(flag: str | None, value: str | None, choices: list[Any] | None, message: str) -> dict[str, Any]:
    texts = [choice for choice in choices or () if isinstance(choice, str)]
    nearest = next(iter(difflib.get_close_matches(value or "", texts, 1)), None)
    return {"flag": flag, "value": value, "choices": choices, "nearest": nearest, "message": message}


def _shown(asked: Asked) -> list[str]:
    """The values of a flag, a secret's hidden."""
    name, _equals, value = asked.read.partition("=")
    return redact.command([name, *([value] if value else []), *asked.values])[1:]


def _meant(read: str, spellings: dict[str, Flag]) -> Flag | None:
    """The flag that a spelling or an unambiguous beginning of one stands for."""
    name = read.partition("=")[0]
    if name in spellings:
        return spellings[name]
    found = {id(flag): flag for option, flag in spellings.items() if option.startswith(name)}
    return next(iter(found.values())) if len(found) == 1 else None


def _parser(command_line: CommandLine) -> _Parser:
    parser = _Parser(add_help=False)
    for at, flag in enumerate(command_line.flags.values()):
        keywords: dict[str, Any] = {"dest": f"flag_{at}", "default": None}
        if flag.nargs == 0:
            keywords["action"] = "store_true"
        else:
            keywords["nargs"] = "*" if isinstance(flag.nargs, Unknown) else flag.nargs
            if flag.convert is not None:
                keywords["type"] = _named(flag.convert)
                keywords["choices"] = flag.choices if isinstance(flag.choices, list) else None
        parser.add_argument(*dict.fromkeys(flag.options), **keywords)
    return parser


def _named(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """A conversion with a name for messages; whatever it raises is a value that it does not take."""

    def value(text: str) -> Any:
        try:
            return convert(text)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise argparse.ArgumentTypeError(f"invalid value {redact.text(text)!r}: {error}") from error

    return value
