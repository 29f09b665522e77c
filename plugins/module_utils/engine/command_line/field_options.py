# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How an engine makes options of the fields of a configuration dataclass (its get_kwargs)."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ..source.operations import LITERAL, UNION, literal_values
from ..source.reader import Reader
from ..source.values import SPOILED, Class, External, Function, Native, Unknown, Value
from .config_fields import ConfigField, Dataclasses, name_of
from .conversions import Conversion

# Not a keyword of argparse: what the engine asks of the value once it is a field's.
VALIDATORS = "validators"
BOOLEAN_OPTIONAL = External("argparse.BooleanOptionalAction")
TEXT = Native("str", str)
_HUMAN_READABLE = ("human_readable_int", "human_readable_int_or_auto")
# The kinds of field that the engine tells apart, in its order; a release may lack some.
_KNOWN_TESTS = (
    "dataclass_cls is not None",
    "type_hints == {bool, str, type(None)}",
    "contains_type(type_hints, bool)",
    "contains_type(type_hints, Literal)",
    "contains_type(type_hints, tuple)",
    "contains_type(type_hints, list)",
    "contains_type(type_hints, set)",
    "contains_type(type_hints, int)",
    "contains_type(type_hints, float)",
    "contains_type(type_hints, dict)"
    " and (contains_type(type_hints, str) or any(is_not_builtin(th) for th in type_hints))",
    "contains_type(type_hints, dict)",
    "contains_type(type_hints, str) or any(is_not_builtin(th) for th in type_hints)",
)


def _shape(expression: str) -> str:
    return ast.dump(ast.parse(expression, mode="eval").body)


_KNOWN_SHAPES = {_shape(test): test for test in _KNOWN_TESTS}


@dataclass
class Rules:
    """What differs between the releases' get_kwargs, as the installed one has it.

    unknown:        why the function is not one of the known shape, or None
    text_or_switch: whether bool | str | None makes an option with an optional value
    human_readable: integer fields that accept 1k and 1K
    none_choice:    what is added to the choices of an optional field
    plain_numbers:  whether JSON may hold 1k and 1K
    dicts_derive:   whether a class derived from dict counts as dict
    """

    unknown: str | None = None
    text_or_switch: bool = False
    human_readable: set[str] = field(default_factory=set)
    none_choice: Value = None
    plain_numbers: bool = False
    dicts_derive: bool = False


def rules_of(function: Function) -> Rules:
    """The rules of the release that `get_kwargs` was found in."""
    scope = function.scope
    inner = [each for each in scope.binders("_compute_kwargs") if isinstance(each, ast.FunctionDef)]
    body = inner[-1] if inner else function.node
    chain = next(
        (node for node in ast.walk(body) if isinstance(node, ast.If) and ast.unparse(node.test) == _KNOWN_TESTS[0]),
        None,
    )
    if chain is None:
        return Rules(unknown=f"{scope.place(body)}: no step tells dataclass fields from others")
    rules, order = Rules(), list(_KNOWN_SHAPES)
    link: ast.If | None = chain
    while link is not None:
        shape = ast.dump(link.test)
        if shape not in order:
            return Rules(unknown=f"{scope.place(link)}: the kind of field {ast.unparse(link.test)!r} is not known")
        order = order[order.index(shape) + 1 :]
        test = _KNOWN_SHAPES[shape]
        rules.text_or_switch |= test == _KNOWN_TESTS[1]
        if test == "contains_type(type_hints, int)":
            rules.human_readable = {
                node.value
                for part in link.body
                for node in ast.walk(part)
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
            } - {"type", "help"}
        link = link.orelse[0] if len(link.orelse) == 1 and isinstance(link.orelse[0], ast.If) else None
    rules.none_choice = _none_choice(body)
    rules.plain_numbers = "_expand_json_human_readable_numbers" in scope.names()
    rules.dicts_derive = "is_dict_subclass" in scope.names()
    return rules


def _none_choice(body: ast.AST) -> Value:
    """What an optional field's choices are extended by: None, or in older releases the word."""
    for node in ast.walk(body):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("['choices'].append") and len(node.args) == 1:
            return node.args[0].value if isinstance(node.args[0], ast.Constant) else Unknown(ast.unparse(node), "")
    return None


class FieldOptions:
    """get_kwargs of the installed release: the keywords that each field gives to add_argument.

    notes: why fields could not be told, if so
    """

    def __init__(self, reader: Reader) -> None:
        self.dataclasses = Dataclasses(reader)
        self.rules: Rules | None = None
        self.notes: list[str] = []
        self._known: dict[Class, dict[str, dict[str, Value]]] = {}

    def native(self, where_defined: Function) -> Native:
        """The stand-in for the engine's function."""
        self.rules = rules_of(where_defined)
        if self.rules.unknown:
            self.notes.append(f"choices and value counts cannot be told: {self.rules.unknown}")
        place = where_defined.scope.place(where_defined.node)
        return Native("get_kwargs", lambda cls=None, *_more, **_keywords: self.of(cls, place), lenient=True)

    def of(self, value: Value, place: str) -> Value:
        """{field: keywords} of a dataclass; a copy, for the engine changes it."""
        if not isinstance(value, Class) or not self.dataclasses.is_dataclass(value):
            return {SPOILED: Unknown("options of something that is no dataclass", place)}
        if value not in self._known:
            self._known[value] = {each.name: self._keywords(each) for each in self.dataclasses.fields(value)}
        return _copied(self._known[value])

    def _keywords(self, each: ConfigField) -> dict[str, Value]:
        keywords: dict[str, Value] = {"default": each.default, "help": each.description.strip()}
        rules = self.rules or Rules(unknown="get_kwargs was not found")
        hints = [dict_hint(hint, self.dataclasses) if rules.dicts_derive else hint for hint in each.hints]
        unknown = next((hint for hint in hints if isinstance(hint, Unknown)), None)
        if rules.unknown or unknown is not None:
            reason = unknown or Unknown(rules.unknown or "", "")
            return {**keywords, "choices": reason, "nargs": reason, "type": reason, "action": reason}
        keywords.update(self._of_hints(each.name, hints, rules))
        keywords[VALIDATORS] = each.validators
        if None in hints and not _contains(hints, "builtins.bool"):
            keywords["type"] = Conversion("optional_type", keywords["type"])
            if keywords.get("choices"):
                keywords["choices"] = [*keywords["choices"], rules.none_choice]
        return keywords

    def _of_hints(self, name: str, hints: list[Value], rules: Rules) -> dict[str, Value]:
        """The keywords that follow from the types, by the engine's order of questions."""
        if any(self.dataclasses.is_dataclass(hint) for hint in hints):
            return {"type": Conversion("dataclass", rules.plain_numbers)}
        kinds = {name_of(hint) for hint in hints}
        if rules.text_or_switch and kinds == {"builtins.bool", "builtins.str", "None"}:
            return {"type": TEXT, "nargs": "?", "const": True}
        if "builtins.bool" in kinds:
            return {"action": BOOLEAN_OPTIONAL}
        literal = next((hint for hint in hints if name_of(hint) == LITERAL), None)
        if literal is not None:
            return _of_literal(literal, "builtins.str" in kinds)
        for sequence in ("builtins.tuple", "builtins.list", "builtins.set"):
            if sequence in kinds:
                return _of_sequence(next(hint for hint in hints if name_of(hint) == sequence), sequence, self)
        if "builtins.int" in kinds:
            readable = name in rules.human_readable and self._human_readable(name)
            return {"type": readable or Native("int", int)}
        if "builtins.float" in kinds:
            return {"type": Native("float", float)}
        if "builtins.dict" in kinds:
            more = "builtins.str" in kinds or any(not kind.startswith("builtins.") for kind in kinds - {"None"})
            return {
                "type": Conversion("parse_type", External("json.loads"))
                if not more
                else Conversion("union_dict_and_str")
            }
        return {"type": TEXT}

    def _human_readable(self, name: str) -> Value:
        return Conversion(_HUMAN_READABLE[1] if name == "max_model_len" else _HUMAN_READABLE[0])


def _copied(options: dict[str, dict[str, Value]]) -> dict[str, dict[str, Value]]:
    """The engine changes what it is given: keywords and lists in them are copied, all else never changes."""
    return {
        name: {key: value.copy() if isinstance(value, (list, dict, set)) else value for key, value in keywords.items()}
        for name, keywords in options.items()
    }


def dict_hint(hint: Value, dataclasses: Dataclasses) -> Value:
    """A class derived from dict is a dict on the command line."""
    return Native("dict", dict) if dataclasses.is_mapping(hint) else hint


def _of_literal(literal: External, with_text: bool) -> dict[str, Value]:
    options = literal.arguments
    if any(isinstance(option, Unknown) for option in options):
        reason = next(option for option in options if isinstance(option, Unknown))
        return {"type": reason, "choices": None if with_text else reason}
    kind = Native(type(options[0]).__name__, type(options[0]))
    return {"type": kind, "metavar" if with_text else "choices": sorted(options)}


def _of_sequence(hint: Value, kind: str, options: FieldOptions) -> dict[str, Value]:
    elements = hint.arguments if isinstance(hint, External) else ()
    if not elements:
        return {"type": Unknown(f"the elements of {kind.removeprefix('builtins.')}", ""), "nargs": "+"}
    counted = kind == "builtins.tuple" and Ellipsis not in elements
    nargs: Value = len(elements) if counted else "+"
    element = elements[0]
    if isinstance(element, External) and element.name == UNION:
        return {"type": TEXT, "nargs": nargs}
    if isinstance(element, External) and element.name == LITERAL:
        return {"nargs": nargs, **_of_literal(External(LITERAL, literal_values(element)), False)}
    return {"type": element, "nargs": nargs}


def _contains(hints: list[Value], name: str) -> bool:
    return any(name_of(hint) == name for hint in hints)
