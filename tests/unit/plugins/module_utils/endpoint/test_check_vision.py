# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.check import Check, Context
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.checks import vision
from ansible_collections.blackwell.serving.plugins.module_utils.endpoint.failure import EndpointError
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation.endpoint.server import Exchange

Run = Callable[..., tuple[Check, Context]]
BYTES = st.integers(0, 255)


def pixel(png: bytes) -> tuple[int, ...]:
    """The colour of the first pixel, after every check sum held."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, held = 8, {}
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + data),)
        held[kind] = data
        at += 12 + length
    assert list(held) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *kind_of_image = struct.unpack(">IIBBBBB", held[b"IHDR"])
    assert kind_of_image == [8, 2, 0, 0, 0]
    rows = zlib.decompress(held[b"IDAT"])
    assert rows == rows[: 1 + 3 * width] * height
    return tuple(rows[1:4])


def sees(exchange: Exchange) -> str:
    """The name of the colour in the image that was sent."""
    image, _text = exchange.body["messages"][0]["content"]
    head, _comma, data = image["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    colour = pixel(base64.b64decode(data))
    return next(name for name, value in vision.COLOURS.items() if value == colour)


@given(st.integers(1, 40), st.tuples(BYTES, BYTES, BYTES))
@settings(deadline=None)
def test_png_holds_the_colour(pixels: int, colour: tuple[int, int, int]) -> None:
    assert pixel(vision.png(pixels, colour)) == colour


def test_the_colour_of_the_image_is_told(run_check: Run) -> None:
    seen = set()
    for _time in range(12):
        check, _context = run_check(vision, lambda exchange: exchange.answer(f"{sees(exchange).title()}."))
        assert (check.status, check.value) == ("pass", True)
        seen.add(check.evidence[0].split()[1])
    assert len(seen) > 1


@pytest.mark.parametrize("said", ["Grey", "red, green, blue or yellow", ""])
def test_another_answer_fails(run_check: Run, said: str) -> None:
    check, _context = run_check(vision, lambda exchange: exchange.answer(said))
    assert (check.status, check.value) == ("fail", False)


def test_a_server_without_images_is_not_run(run_check: Run) -> None:
    words = '{"error": {"message": "At most 0 image(s) may be provided in one prompt."}}'
    check, _context = run_check(vision, lambda exchange: exchange.send(400, words))
    assert check.status == "not_run"
    assert "At most 0 image(s)" in check.evidence[0]
    with pytest.raises(EndpointError, match="HTTP 500"):
        run_check(vision, lambda exchange: exchange.send(500, "{}"))


def test_the_expectation_is_a_matter_of_the_section(run_check: Run) -> None:
    section = {"prompt": "Colour?", "expect": "^It is {colour}$"}
    check, _context = run_check(vision, lambda exchange: exchange.answer(f"It is {sees(exchange)}"), section)
    assert check.status == "pass"


@pytest.mark.parametrize("section", [{"expect": "({colour}"}, {"colour": "red"}, {"prompt": 3}])
def test_sections_that_are_not_usable(section: Any) -> None:
    with pytest.raises(ServingError, match=r"questions\.vision.* is not usable"):
        vision.read(section, "questions.vision")
