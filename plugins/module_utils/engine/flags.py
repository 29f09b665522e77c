# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The command-line flags of an installed vLLM, read from its sources: nothing of it is imported or run."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ServingError
from .command_line.config_fields import FIELD_CALLS
from .command_line.conversions import natives
from .command_line.field_options import BOOLEAN_OPTIONAL, FieldOptions
from .command_line.parser import Flag, Parser
from .command_line.reading import reader_of
from .source.reader import Reader
from .source.scope import Frame
from .source.values import Class, Function, Module, Native, Raised, Unknown, Unresolved, Value

# `vllm serve` imports the function from where the release keeps it.
COMMAND = "vllm.entrypoints.cli.serve"
MAKE_PARSER = "make_arg_parser"
OPTIONS_OF = ("vllm.engine.arg_utils", "get_kwargs")
LOAD_PLUGINS, PLATFORM_HOOK = "load_general_plugins", "pre_register_and_update"
# The method with its body, and no more of a long file: its lines are indented deeper than its name.
_PLATFORM_HOOK = re.compile(
    rf"^(?P<indent> +)def {PLATFORM_HOOK}\([^)]*\)[^:]*:[ ]*\n(?P<body>(?:(?P=indent) +.*\n|\s*\n)*)", re.MULTILINE
)
_PLUGIN_GROUPS = re.compile(r"^\[vllm\.(?:general|platform)_plugins\]\s*\n((?:(?!\[).*\n?)*)", re.MULTILINE)


@dataclass(frozen=True)
class CommandLine:
    """What `vllm serve` of the installation accepts.

    flags:       by first long spelling, in the order of the source
    positionals: names of the arguments without a flag
    lost:        why there may be flags beside these; empty when these are all
    notes:       what else could not be told
    """

    flags: dict[str, Flag]
    positionals: list[str]
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(root: Path, environment: Mapping[str, str] | None = None) -> CommandLine:
    """The command line of the vLLM below `root`, the folder that holds the package vllm.

    environment: what the engine's process would see; some defaults depend on it.
    A source file that cannot be read, or a vLLM whose command line is built in no known way, is a ServingError.
    """
    reader = reader_of(root, environment or {})
    # Half of the time of parsing large files is the collector's, which finds nothing to collect in growing trees.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _read(reader)
    except RecursionError as error:
        raise ServingError(
            "the flags of the installed engine cannot be told",
            where=str(root),
            why="its sources nest too deeply",
            remedy="Install the engine again",
        ) from error
    finally:
        if collecting:
            gc.enable()


def _read(reader: Reader) -> CommandLine:
    root = reader.tree.root
    make_parser = _required(reader, COMMAND, MAKE_PARSER)
    get_kwargs = _required(reader, *OPTIONS_OF)
    options = FieldOptions(reader)
    reader.stand_ins.update(FIELD_CALLS)
    reader.by_name.update(natives())
    reader.by_name["get_kwargs"] = options.native(get_kwargs)
    # Where plugins and the platform get at the parser; what they may add is looked for in another way.
    for hook in (LOAD_PLUGINS, PLATFORM_HOOK):
        reader.by_name[hook] = Native(hook, lambda *_given, **_keywords: None, lenient=True)
    inverses, unknown_action = _inverses(reader, reader.lookup(make_parser.scope, "FlexibleArgumentParser"))
    parser = Parser(reader, inverses)
    file = make_parser.scope.file
    try:
        reader.call(make_parser, [parser.value], {}, file)
    except (Unresolved, Raised) as error:
        parser.lost.append(str(error))
    lost = [*parser.lost, *unknown_action, *platform_flags(root), *plugins(root)]
    flags: dict[str, Flag] = {"--help": _help()}
    for flag in parser.flags:
        flags[flag.name] = flag
    if len(flags) == 1:
        raise _unknown_shape(Path(file), "it adds no option that could be read")
    return CommandLine(flags, parser.positionals, _once(lost), _once(options.notes))


def _required(reader: Reader, module: str, name: str) -> Function:
    path = reader.tree.root.joinpath(*module.split(".")).with_suffix(".py")
    scope = reader.tree.module(module)
    if scope is None:
        raise _unknown_shape(path, "there is no such file")
    try:
        found = reader.in_module(Module(module, scope), name, str(path))
    except Raised as raised:
        raise _unknown_shape(path, str(raised)) from raised
    if isinstance(found, Function):
        return found
    raise _unknown_shape(path, str(found) if isinstance(found, Unknown) else f"{name} is no function")


def _unknown_shape(path: Path, why: str) -> ServingError:
    return ServingError(
        "the flags of the installed engine cannot be told",
        where=str(path),
        why=why,
        remedy="This is no vLLM, or a release whose command line is built in a way that this collection does not know",
    )


def _inverses(reader: Reader, parser_class: Value) -> tuple[dict[str, str], list[str]]:
    """What the parser makes of switches with a negation, beside --no-x: ({prefix: opposite}, what is not known)."""
    if not isinstance(parser_class, Class):
        return {}, ["the class of the parser cannot be told"]
    start = reader.class_attribute(parser_class, "__init__", parser_class)
    if not isinstance(start, Function):
        return {}, []
    for node in ast.walk(start.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register":
            given = [reader.evaluate(argument, Frame(start.scope, {})) for argument in node.args]
            if len(given) == 3 and given[:2] == ["action", BOOLEAN_OPTIONAL] and isinstance(given[2], Class):
                prefixes = reader.class_attribute(given[2], "_inverse_prefixes", given[2])
                if isinstance(prefixes, dict) and all(
                    isinstance(each, str) for each in (*prefixes, *prefixes.values())
                ):
                    return prefixes, []
            return {}, [f"the parser makes options in a way that is not known ({start.scope.place(node)})"]
    return {}, []


def platform_flags(root: Path) -> list[str]:
    """The platforms of the engine that add flags of their own, once a card is found to be theirs."""
    found = []
    for path in sorted(root.joinpath("vllm", "platforms").glob("*.py")):
        for match in _PLATFORM_HOOK.finditer(path.read_text(encoding="utf-8", errors="replace")):
            if re.search(r"\bparser\b", match["body"]):
                found.append(f"the platform may add flags ({path}: {PLATFORM_HOOK})")
    return found


def plugins(root: Path) -> list[str]:
    """Packages beside the engine that it loads before it reads its command line, and that may add flags."""
    found = []
    for path in sorted(root.glob("*.dist-info/entry_points.txt")):
        if path.parent.name.startswith("vllm") and _owns_engine(path.parent):
            continue
        for group in _PLUGIN_GROUPS.findall(path.read_text(encoding="utf-8", errors="replace")):
            names = [line.partition("=")[0].strip() for line in group.splitlines() if "=" in line]
            found.append(
                f"the plugin {', '.join(names)} of {path.parent.name.removesuffix('.dist-info')} may add flags"
            )
    return found


def _owns_engine(folder: Path) -> bool:
    record = folder / "RECORD"
    return not record.is_file() or "vllm/__init__.py," in record.read_text(encoding="utf-8", errors="replace")


def _help() -> Flag:
    return Flag(
        name="--help",
        options=("-h", "--help"),
        choices=None,
        default="==SUPPRESS==",
        nargs=0,
        convert=None,
        named=None,
        refuses=None,
        deprecated=None,
        conditional=False,
        where="argparse",
    )


def _once(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(lines))
