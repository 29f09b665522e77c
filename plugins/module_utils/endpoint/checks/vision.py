# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""vision: the colour of an image is seen."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from ...errors import ServingError
from .. import failure, probes
from ..check import FAIL, NOT_RUN, PASS, Check, Context, shown
from ..failure import EndpointError
from ..fields import pattern

COLOURS = {"red": (220, 20, 20), "green": (20, 160, 40), "blue": (20, 40, 220), "yellow": (250, 220, 20)}
# {colour}: the name of the colour that was drawn
DEFAULT: dict[str, Any] = {
    "prompt": f"Which colour is this image? Answer with one of these words: {', '.join(COLOURS)}.",
    "expect": r"(?i)^\W*{colour}\W*$",
}
_PIXELS = 224
_MAX_TOKENS = 32


@dataclass(frozen=True)
class Probe:
    """expect: a regular expression, in which {colour} stands for the image's colour."""

    prompt: str
    expect: str


def read(section: Any, where: str) -> Probe:
    probe = Probe(**{**DEFAULT, **probes.members(section, where, {"prompt": str, "expect": str})})
    if not probe.prompt.strip():
        raise ServingError(f"{where}.prompt is not usable", why="it says nothing")
    pattern(probe.expect.replace("{colour}", "red"), f"{where}.expect")
    return probe


def run(context: Context) -> Check:
    """value = whether the colour is named. A server that takes no images refuses the request: not_run."""
    probe: Probe = context.probes["vision"]
    colour = context.rng.choice(list(COLOURS))
    data = base64.b64encode(png(_PIXELS, COLOURS[colour])).decode()
    content = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "text", "text": probe.prompt},
    ]
    try:
        answer = context.ask("vision", [{"role": "user", "content": content}], max_tokens=_MAX_TOKENS)[-1]
    except EndpointError as error:
        if error.kind != failure.REJECTED:
            raise
        return Check("vision", NOT_RUN, evidence=[f"the server takes no image: {error.message}"])
    right = _expected(probe, colour).search(answer.content.strip()) is not None
    return Check("vision", PASS if right else FAIL, right, True, [f"a {colour} image, {shown(answer)}"])


def _expected(probe: Probe, colour: str) -> re.Pattern[str]:
    return re.compile(probe.expect.replace("{colour}", colour))


def png(pixels: int, colour: tuple[int, int, int]) -> bytes:
    """A square image of one colour, 8 bits RGB (PNG specification, section 5)."""
    header = struct.pack(">IIBBBBB", pixels, pixels, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(colour) * pixels) * pixels  # filter type 0, then the row
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
