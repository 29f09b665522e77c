# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Paths from the Hub are data: which are accepted, which are wanted, and that none of them leaves the destination."""

from __future__ import annotations

import fnmatch
import os
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import ServingError

STATE = ".cache/huggingface"
OWN_STATE = f"{STATE}/blackwell.serving"
IGNORED = (".git/", f"{STATE}/")
NAME_MAX_BYTES = 255


def safe_path(path: object) -> str:
    """The path, if it names something inside a folder on every system: relative, no `..`, no control character."""
    if not isinstance(path, str) or not path:
        raise _unsafe(path, "it is empty or no text")
    if any(unicodedata.category(character) == "Cc" for character in path):
        raise _unsafe(path, "it holds a control character")
    if "\\" in path or path.startswith("/"):
        raise _unsafe(path, "it is absolute or holds a backslash")
    for component in path.split("/"):
        if component in ("", ".", ".."):
            raise _unsafe(path, f"the component {component!r} is not a name")
        try:
            length = len(component.encode())
        except UnicodeEncodeError:
            raise _unsafe(path, "it is not valid Unicode") from None
        if length > NAME_MAX_BYTES:
            raise _unsafe(path, f"a component is longer than {NAME_MAX_BYTES} bytes")
    return path


def _unsafe(path: object, why: str) -> ServingError:
    return ServingError(
        "the repository names a file that is not written",
        where=repr(path),
        why=why,
        remedy="Ask the publisher to rename it, or exclude it",
    )


def shown(path: str | os.PathLike[str]) -> str:
    """A name that was found on disk, for a result: what is no text or steers a terminal is escaped."""
    text = os.fsencode(path).decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def selected(paths: Iterable[str], include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """The paths that the patterns ask for, with huggingface_hub's rules: `*` crosses `/`, `folder/` is all below it.

    What the Hub's own client never downloads (.git, .cache/huggingface) is never wanted.
    """

    def matches(path: str, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(path, f"{p}*" if p.endswith("/") else p) for p in patterns)

    return [
        path
        for path in paths
        if not path.startswith(IGNORED) and (not include or matches(path, include)) and not matches(path, exclude)
    ]


def refuse_collisions(paths: Iterable[str]) -> None:
    """Two files that are one on a file system that ignores case, or a file where another needs a folder."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        folded = path.casefold()
        other = files.get(folded)
        if other is not None:
            raise _collision(path, other)
        files[folded] = path
        for index, character in enumerate(path):
            if character == "/":
                folders[path[:index].casefold()] = path
    for folded, path in files.items():
        if folded in folders:
            raise _collision(path, folders[folded])


def _collision(one: str, other: str) -> ServingError:
    return ServingError(
        "two files of the repository would share one name on disk",
        where=f"{one!r} and {other!r}",
        remedy="Exclude one of them",
    )


def destination(dest: str) -> Path:
    """The folder to write to, absolute and without symbolic links in its own name."""
    if any(unicodedata.category(character) == "Cc" for character in dest) or not os.path.isabs(dest):
        raise ServingError(
            "the destination is not an absolute path without control characters",
            where=repr(dest),
            remedy="Correct dest",
        )
    try:
        path = Path(os.path.realpath(dest))
    except UnicodeEncodeError:
        raise ServingError("the destination is not valid Unicode", where=repr(dest), remedy="Correct dest") from None
    if path == Path("/"):
        raise ServingError("the root folder is no destination", where=repr(dest), remedy="Correct dest")
    if path.exists() and not path.is_dir():
        raise ServingError("the destination is not a folder", where=str(path), remedy="Move that file, or correct dest")
    return path


def refuse_escapes(dest: Path, paths: Sequence[str]) -> None:
    """No folder on the way to a file may be a symbolic link or a file; no file's own name may be a folder."""
    written = [*paths, *(f"{STATE}/download/{path}" for path in paths), f"{OWN_STATE}/parts/x", f"{STATE}/download/x"]
    written.append(f"{OWN_STATE}/xet/x")
    for folder in sorted({parent for path in written for parent in Path(path).parents}):
        try:
            mode = os.lstat(dest / folder).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not stat.S_ISDIR(mode):
            raise ServingError(
                "a folder of the destination is a symbolic link or a file",
                where=str(dest / folder),
                why="what is written below it would land outside of the destination",
                remedy="Replace it by a real folder, or choose another dest",
            )
    for path in paths:
        if (dest / path).is_dir():
            raise ServingError(
                "a folder stands where a file of the repository belongs",
                where=str(dest / path),
                remedy="Move it away, or exclude that file",
            )


def nearest_existing(path: Path) -> Path:
    """The path itself, or the first parent that exists: the file system that will hold it."""
    while not path.exists():
        path = path.parent
    return path
