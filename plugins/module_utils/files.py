# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Files that are either wholly old or wholly new, whenever a run is killed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

CHUNK_BYTES = 1 << 20


def fsync_directory(path: str | os.PathLike[str]) -> None:
    """Make a rename inside the directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: str | os.PathLike[str], data: bytes, *, mode: int = 0o644) -> None:
    """Replace the file with data: temporary file beside it, fsync, rename, fsync of the directory.

    An existing file keeps its mode, owner and group; a new one gets `mode`. A symbolic link is replaced by a file,
    never followed, so that a blob shared with others stays as it is.
    """
    target = Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            try:
                before = target.stat()
            except FileNotFoundError:
                os.fchmod(stream.fileno(), mode)
            else:
                os.fchmod(stream.fileno(), before.st_mode & 0o7777)
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(stream.fileno(), before.st_uid, before.st_gid)
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    fsync_directory(target.parent)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Hexadecimal sha256 of the file's bytes, read in bounded memory."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as stream:
        buffer = bytearray(CHUNK_BYTES)
        view = memoryview(buffer)
        while count := stream.readinto(buffer):
            digest.update(view[:count])
    return digest.hexdigest()
