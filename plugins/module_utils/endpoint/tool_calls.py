# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Calls of tools in an answer: whole in a message, in pieces in the deltas of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """arguments: the text that should be JSON, as it came."""

    id: str
    name: str
    arguments: str

    def as_sent(self) -> dict[str, Any]:
        """The call as a client sends it back in the history."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


def read_calls(message: dict[str, Any]) -> list[ToolCall]:
    """The calls of one message."""
    calls = message.get("tool_calls")
    return [_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


class CallAssembler:
    """The calls of a stream: each delta names a call by its index and brings an id, a name or more arguments."""

    def __init__(self) -> None:
        self._pieces: dict[Any, list[ToolCall]] = {}

    def add(self, delta: dict[str, Any]) -> None:
        pieces = delta.get("tool_calls")
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._pieces.setdefault(str(piece.get("index", 0)), []).append(_call(piece))

    @property
    def calls(self) -> list[ToolCall]:
        """In the order in which they began."""
        return [
            ToolCall(
                "".join(piece.id for piece in pieces),
                "".join(piece.name for piece in pieces),
                "".join(piece.arguments for piece in pieces),
            )
            for pieces in self._pieces.values()
        ]


def _call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function")
    named = function if isinstance(function, dict) else {}
    return ToolCall(str(call.get("id") or ""), str(named.get("name") or ""), str(named.get("arguments") or ""))
