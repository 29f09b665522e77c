# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What vllm_engine_info answers: the installed engine, its flags, and what it would say to a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import argument_check, environment_names, flags
from .command_line.config_fields import call_of
from .command_line.parser import Flag
from .distribution import identify
from .environment import EngineFolder
from .source.values import External, Instance, Member, Unknown, Value

UNKNOWN = "unknown"
STRICT_FLAG = "--fail-on-environ-validation"


def describe(engine: EngineFolder, arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The module's result.

    arguments:   what would stand behind `vllm serve`
    environment: variables of the engine's process, by name
    A vLLM that cannot be read is a ServingError with the file.
    """
    installed = identify(engine)
    command_line = flags.read(engine.root, environment)
    verdict = argument_check.check(command_line, arguments)
    unknown_environment: list[dict[str, str | None]] = []
    notes = [*installed.notes, *command_line.notes, *command_line.lost, *verdict.notes]
    if environment:
        names = environment_names.read(engine.root)
        unknown_environment = names.unknown(environment)
        notes += [names.incomplete] if names.incomplete else []
    return {
        "distribution": installed.name,
        "version": installed.version,
        "commit": installed.commit,
        "torch": installed.torch,
        "platform": installed.platform,
        "site_packages": str(engine.site_packages),
        "source": str(engine.root),
        "flags": {flag.name: _described(flag) for flag in command_line.flags.values()},
        "flags_complete": not command_line.lost,
        "arguments_accepted": verdict.accepted and not (unknown_environment and _strict(arguments)),
        "removed_flags": verdict.removed,
        "refused_values": verdict.refused,
        "deprecated_flags": verdict.deprecated,
        "unknown_environment": unknown_environment,
        "notes": list(dict.fromkeys(notes)),
    }


def _described(flag: Flag) -> dict[str, Any]:
    """A flag as data; what cannot be told is the word `unknown`, and listed as such."""
    described: dict[str, Any] = {
        "options": list(flag.options),
        "nargs": 1 if flag.nargs is None else plain(flag.nargs),
        "choices": plain(flag.choices),
        "default": None if flag.default == "==SUPPRESS==" else plain(flag.default),
        "unknown": [key for key in ("nargs", "choices", "default") if isinstance(getattr(flag, key), Unknown)],
    }
    if flag.named is not None:
        described["named_values"] = plain(flag.named)
    if flag.deprecated:
        described["deprecated"] = flag.deprecated
    if flag.conditional:
        described["conditional"] = True
    return described


def plain(value: Value) -> Any:
    """A value of the source as JSON: members of enumerations by value, objects as the call that makes them."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Member):
        return plain(value.value)
    if isinstance(value, Instance):
        return call_of(value)
    if isinstance(value, External):
        return value.name
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    return UNKNOWN


def _strict(arguments: Sequence[str]) -> bool:
    """Whether the engine would end over an environment variable that it does not know."""
    last = False
    for argument in arguments:
        name = argument.replace("_", "-")
        if name in (STRICT_FLAG, f"--no-{STRICT_FLAG[2:]}"):
            last = name == STRICT_FLAG
    return last
