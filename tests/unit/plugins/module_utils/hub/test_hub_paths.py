# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No path that the Hub sends leads out of the destination."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.hub.paths import (
    destination,
    refuse_collisions,
    refuse_escapes,
    safe_path,
    selected,
)
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "path", ["config.json", "sub/folder/é 100%.txt", "...", "a..b", ".gitattributes", "x" * 255, "{{ x }}", "-rf"]
)
def test_names_are_accepted(path: str) -> None:
    assert safe_path(path) == path


@pytest.mark.parametrize("path", ["", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a\\b", "x" * 256, None, 5])
def test_anything_else_is_refused(path: object) -> None:
    with pytest.raises(ServingError, match="not written"):
        safe_path(path)


@pytest.mark.parametrize("character", ["\n", "\0", "\x1b", "\x7f", "\x9b", "\ud800"])
def test_control_characters_are_refused(character: str) -> None:
    for refused in (lambda: safe_path(f"a{character}b"), lambda: destination(f"/a{character}b")):
        with pytest.raises(ServingError):
            refused()


@settings(deadline=None)
@given(st.text(max_size=40))
def test_an_accepted_path_stays_inside(path: str) -> None:
    try:
        safe_path(path)
    except ServingError:
        return
    assert os.path.normpath(os.path.join("/dest", path)) == "/dest/" + path


def test_patterns_are_those_of_the_hub_client() -> None:
    paths = ["a.safetensors", "sub/b.safetensors", "sub/c.txt", ".git/config", ".cache/huggingface/x", "README.md"]
    assert selected(paths, [], []) == ["a.safetensors", "sub/b.safetensors", "sub/c.txt", "README.md"]
    assert selected(paths, ["*.safetensors"], []) == ["a.safetensors", "sub/b.safetensors"]
    assert selected(paths, ["sub/"], ["*.txt"]) == ["sub/b.safetensors"]


@pytest.mark.parametrize("pair", [("README.md", "readme.MD"), ("a", "a/b"), ("A", "a/b"), ("same", "same")])
def test_collisions_are_refused(pair: tuple[str, str]) -> None:
    refuse_collisions(["other", "a1", *pair[:1]])
    with pytest.raises(ServingError, match="share one name"):
        refuse_collisions(["other", *pair])


def test_a_linked_folder_is_refused_and_a_linked_file_is_not(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    dest = tmp_path / "dest"
    dest.mkdir()
    (dest / "file").symlink_to(outside / "file")
    refuse_escapes(dest, ["file", "new/file"])
    (dest / "sub").symlink_to(outside)
    with pytest.raises(ServingError, match="outside of the destination"):
        refuse_escapes(dest, ["sub/deep/file"])
    (dest / "config.json").mkdir()
    with pytest.raises(ServingError, match="a folder stands where"):
        refuse_escapes(dest, ["config.json"])
    (dest / ".cache").symlink_to(outside)
    with pytest.raises(ServingError, match=r"\.cache"):
        refuse_escapes(dest, ["x"])


@pytest.mark.parametrize("dest", ["relative", "/tmp/with\nnewline", "/", "/tmp/nul\0"])
def test_destinations_that_are_refused(dest: str) -> None:
    with pytest.raises(ServingError):
        destination(dest)


def test_a_destination_may_hold_any_other_character(tmp_path: Path) -> None:
    dest = tmp_path / "My Models" / "k 2.5 100% {{ x }}'\"" / "é"
    assert destination(str(dest)) == dest
    (tmp_path / "file").write_text("")
    with pytest.raises(ServingError, match="not a folder"):
        destination(str(tmp_path / "file"))
