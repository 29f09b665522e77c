# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The bytes of one file on their way: a part that is named by the content it becomes, and continued by any later run.

`<dest>/.cache/huggingface/blackwell.serving/parts/<sha256 or blob id>.part`
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from ..files import fsync_directory
from .folders import FILE_MODE, make_folders
from .identity import RemoteFile, hash_file, hasher_for
from .paths import OWN_STATE


def part_path(dest: Path, file: RemoteFile) -> Path:
    return dest / OWN_STATE / "parts" / f"{file.content_id}.part"


def part_bytes(dest: Path, file: RemoteFile) -> int:
    """Bytes that a part of this content holds already."""
    try:
        size = part_path(dest, file).stat().st_size
    except FileNotFoundError:
        return 0
    return size if size <= file.size else 0


class Part:
    """An open part. What it holds is hashed when it is opened, what comes is hashed when it is appended.

    offset:  bytes so far
    resumed: bytes that were there when it was opened
    clean:   all of its bytes came from the network since it was opened
    """

    def __init__(self, dest: Path, file: RemoteFile, check: Callable[[], None]) -> None:
        self._dest, self._file = dest, file
        self._path = part_path(dest, file)
        self._hasher = hasher_for(file)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._stream = os.fdopen(os.open(self._path, flags, FILE_MODE), "r+b", buffering=0)
        os.fchmod(self._stream.fileno(), FILE_MODE)
        self.offset = os.fstat(self._stream.fileno()).st_size
        self.clean = self.offset == 0
        if self.offset > file.size:
            self.restart()
        elif self.offset:
            hash_file(self._path, self._hasher, each=lambda length: check())
            self._stream.seek(0, os.SEEK_END)
        self.resumed = self.offset

    def __enter__(self) -> Part:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def append(self, data: memoryview) -> None:
        written = 0
        while written < len(data):
            written += self._stream.write(data[written:])
        self._hasher.update(data)
        self.offset += len(data)

    def restart(self) -> None:
        """From zero; nothing that was here is trusted any more."""
        self._stream.truncate(0)
        self._stream.seek(0)
        self._hasher.restart()
        self.offset, self.clean = 0, True

    @property
    def complete(self) -> bool:
        return self.offset == self._file.size

    @property
    def right(self) -> bool:
        return self.complete and self._hasher.is_content_of(self._file)

    def discard(self) -> None:
        self._path.unlink(missing_ok=True)

    def take_its_name(self) -> os.stat_result:
        """Flush to disk and rename to the file's own name; an older file there is replaced in that moment."""
        return take_name(self._stream.fileno(), self._path, self._dest, self._file)


def take_name(descriptor: int, path: Path, dest: Path, file: RemoteFile) -> os.stat_result:
    """Give bytes that were found right their name, so that they are there whenever the host goes down."""
    os.fchmod(descriptor, FILE_MODE)
    os.fsync(descriptor)
    target = dest / file.path
    make_folders(target.parent)
    os.replace(path, target)
    fsync_directory(target.parent)
    return os.fstat(descriptor)
