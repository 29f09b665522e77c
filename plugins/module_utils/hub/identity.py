# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a file of a repository is: its path, size and content hash, and how bytes are compared with that.

The Hub publishes for each file git's blob id, which is sha1 over `blob <length>\\0` and the bytes, and for an LFS file
the sha256 of its bytes; the blob id of an LFS file is that of its pointer, so the sha256 alone says what its bytes are.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .paths import safe_path

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class RemoteFile:
    """One file of a commit; `sha256` is None for a file that is not LFS, `xet` says whether hf_xet can bring it."""

    path: str
    size: int
    git_sha1: str
    sha256: str | None = None
    xet: bool = False

    @property
    def content_id(self) -> str:
        """The hash that decides about the bytes; it is also the file's ETag on the Hub."""
        return self.sha256 or self.git_sha1

    def identity(self) -> dict[str, str]:
        """The published hash under its name, for a result or a message."""
        return {"sha256": self.sha256} if self.sha256 else {"git_sha1": self.git_sha1}


class ContentHasher:
    """Hashes bytes while they arrive. The length is part of a blob id, so it has to be known before."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.restart()

    def restart(self) -> None:
        self._sha256 = hashlib.sha256()
        self._blob = hashlib.sha1(b"blob %d\0" % self._size, usedforsecurity=False)

    def update(self, data: bytes | bytearray | memoryview) -> None:
        self._sha256.update(data)
        self._blob.update(data)

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def git_sha1(self) -> str:
        return self._blob.hexdigest()

    def is_content_of(self, file: RemoteFile) -> bool:
        return self.sha256 == file.sha256 if file.sha256 else self.git_sha1 == file.git_sha1


class LfsHasher(ContentHasher):
    """The same for an LFS file, without the blob id, which would cost a third of the time."""

    def restart(self) -> None:
        self._sha256 = hashlib.sha256()

    def update(self, data: bytes | bytearray | memoryview) -> None:
        self._sha256.update(data)

    @property
    def git_sha1(self) -> str:
        raise NotImplementedError


def hasher_for(file: RemoteFile) -> ContentHasher:
    return LfsHasher(file.size) if file.sha256 else ContentHasher(file.size)


def hash_file(
    path: str | os.PathLike[str], hasher: ContentHasher, *, each: Callable[[int], None] = lambda length: None
) -> ContentHasher:
    """Feed the whole file to the hasher in bounded memory; `each` gets the length of every read and may raise."""
    buffer = bytearray(BUFFER_BYTES)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            hasher.update(view[:count])
            each(count)
    return hasher


def parse_tree_entry(entry: Any) -> RemoteFile | None:
    """One entry of the Hub's tree; None for a folder. What the Hub sends is data, not truth: it is checked here."""
    if not isinstance(entry, dict):
        raise _invalid("an entry of the file list is not an object", repr(entry))
    if entry.get("type") == "directory":
        return None
    path = safe_path(entry.get("path"))
    lfs = entry.get("lfs")
    size, git_sha1 = entry.get("size"), entry.get("oid")
    sha256 = None
    if lfs is not None:
        if not isinstance(lfs, dict):
            raise _invalid("the lfs member is not an object", path)
        sha256, size = lfs.get("oid"), lfs.get("size", size)
        if not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
            raise _invalid("the sha256 is not 64 hexadecimal digits", path, repr(sha256))
    if not isinstance(git_sha1, str) or not COMMIT.fullmatch(git_sha1):
        raise _invalid("the blob id is not 40 hexadecimal digits", path, repr(git_sha1))
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _invalid("the size is not a number of bytes", path, repr(size))
    return RemoteFile(path, size, git_sha1, sha256, bool(entry.get("xetHash")))


def _invalid(what: str, where: str, why: str | None = None) -> ServingError:
    return ServingError(
        f"the Hub's answer is not valid: {what}", where=where, why=why, remedy="Check that endpoint is a Hub"
    )
