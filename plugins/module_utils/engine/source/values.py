# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a name in an engine's source can stand for while that source is read and not run.

Numbers, strings, None, booleans, tuples, lists, sets and dicts are Python's own. All else is one of the kinds below.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .scope import Scope

Value = Any
# A dict that was changed in a way that cannot be told holds this key, a list or set an Unknown.
SPOILED = "**"


@dataclass(frozen=True)
class Unknown:
    """A value that reading cannot tell: the expression, and its file and line."""

    what: str
    place: str

    def __str__(self) -> str:
        return f"{self.what} ({self.place})"

    __format__ = object.__format__


@dataclass(frozen=True)
class External:
    """A name of another package (torch.float16, ABC): it can be compared by name, never looked into.

    arguments: of a type, as in Literal["a", "b"]; A | B is typing.Union with both.
    """

    name: str
    arguments: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Module:
    """A module of the tree that is read, or a module of another package (scope None)."""

    name: str
    scope: Scope | None = field(compare=False, default=None)


class Raised(Exception):
    """An exception that the source meets; `stated` when a raise, assert or import statement of it says so.

    Any other (an attribute that is not found) may as well come from what the reader does not see.
    """

    def __init__(self, kind: str, message: str = "", *, stated: bool = False, place: str = "") -> None:
        self.kind = kind
        self.message = message
        self.stated = stated
        self.place = place
        super().__init__(f"{kind}: {message}" if message else kind)


class Unresolved(Exception):
    """The source goes beyond what the reader knows; `unknown` says where. An `exhausted` reader stops for good."""

    exhausted = False

    def __init__(self, unknown: Unknown) -> None:
        self.unknown = unknown
        super().__init__(str(unknown))


class Returned(Exception):
    """A return statement, on its way to the call."""

    def __init__(self, value: Value) -> None:
        self.value = value
        super().__init__()


class Capability(NamedTuple):
    """Stands for vLLM's DeviceCapability, which compares and prints like this tuple."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"DeviceCapability(major={self.major}, minor={self.minor})"

    def as_version_str(self) -> str:
        return f"{self.major}.{self.minor}"

    def to_int(self) -> int:
        return self.major * 10 + self.minor


@dataclass(eq=False)
class Class:
    """A class of the tree."""

    name: str
    node: ast.ClassDef
    scope: Scope  # where it is defined
    body: Scope  # what it defines
    closure: dict[str, Value] | None = None  # the locals of the function that defines it


@dataclass(eq=False)
class Function:
    """A function of the tree; `owner` is the class whose body holds it."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    owner: Class | None = None
    closure: dict[str, Value] | None = None


@dataclass(eq=False)
class Bound:
    """A function of the tree with its first argument."""

    function: Function
    receiver: Value


@dataclass(eq=False)
class Instance:
    """An object of a class of the tree; what is in `fields` goes before what the class defines."""

    of: Class
    fields: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """A member of an Enum of the tree; with `is_plain` it also compares as its value (str or int is a base)."""

    of: Class = field(repr=False)
    name: str
    value: Value = field(compare=False)
    is_plain: bool = field(compare=False, default=False)

    def __str__(self) -> str:
        return str(self.value) if self.is_plain else f"{self.of.name}.{self.name}"


@dataclass(eq=False)
class Record:
    """An object that this program stands in for. An attribute that it lacks is unknown, or absent when `whole`."""

    name: str
    fields: dict[str, Value]
    whole: bool = False


@dataclass(eq=False)
class Recorder:
    """An object that this program watches the source work on.

    attribute: (name, place) -> what object.name is
    lost:      told why something was done with the object that cannot be told
    """

    attribute: Callable[[str, str], Value]
    lost: Callable[[str], None]


@dataclass(frozen=True)
class Native:
    """A function that this program stands in for; `lenient` ones take unknown arguments."""

    name: str
    function: Callable[..., Value] = field(compare=False)
    lenient: bool = False


@dataclass(frozen=True)
class Super:
    """What super() is in a method of `owner` that was called on `receiver`."""

    owner: Class
    receiver: Value
