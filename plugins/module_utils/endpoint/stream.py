# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Server-sent events, as the WHATWG HTML standard (section 9.2) defines them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

# Only these end a line; U+2028 and others, at which str.splitlines cuts, are ordinary text of an answer.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class EventDecoder:
    """Bytes in, data of complete events out, wherever the bytes are cut.

    Lines end with LF, CR or CRLF; `data:` may lack the space; comments and other fields are skipped; an event that the
    stream ends in is not an event.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self._line = ""
        self._after_cr = False
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[str]:
        """The data of every event that this chunk completes."""
        found: list[str] = []
        for part in _LINE.findall(self._decode(chunk)):
            second_half = self._after_cr and part == "\n"
            self._after_cr = part.endswith("\r")
            if second_half:
                continue
            self._line += part.rstrip("\r\n")
            if part.endswith(("\r", "\n")):
                line, self._line = self._line, ""
                found.extend(self._end_line(line))
        return found

    def _end_line(self, line: str) -> list[str]:
        if line:
            name, _colon, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            return []
        data, self._data = self._data, []
        return ["\n".join(data)] if data else []


def events(chunks: Iterable[bytes]) -> Iterator[str]:
    """The data of each event, as soon as it is complete."""
    decoder = EventDecoder()
    for chunk in chunks:
        yield from decoder.feed(chunk)
