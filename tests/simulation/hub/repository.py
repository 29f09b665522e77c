# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a repository is on the Hub: branches, commits, and the identity of every file in a commit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LFS_SUFFIXES = (".bin", ".gguf", ".pt", ".pth", ".safetensors")


def _git_blob_id(size: int, chunks: Any) -> str:
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: Path) -> Any:
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            yield chunk


@dataclass(frozen=True)
class Entry:
    """One file of a commit: `oid` is git's blob id (for an LFS file: of its pointer), `sha256` is of LFS files only."""

    path: str
    source: Path
    size: int
    oid: str
    sha256: str | None = None
    pointer_size: int = 0

    @classmethod
    def of(cls, path: str, source: Path) -> Entry:
        size = source.stat().st_size
        if not path.endswith(LFS_SUFFIXES):
            return cls(path, source, size, _git_blob_id(size, _chunks(source)))
        digest = hashlib.sha256()
        for chunk in _chunks(source):
            digest.update(chunk)
        sha256 = digest.hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()
        return cls(path, source, size, _git_blob_id(len(pointer), [pointer]), sha256, len(pointer))

    @property
    def etag(self) -> str:
        return self.sha256 or self.oid

    def as_tree_entry(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "oid": self.oid, "size": self.size, "path": self.path}
        if self.sha256:
            entry["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": self.pointer_size}
        return entry

    def as_sibling(self, blobs: bool) -> dict[str, Any]:
        sibling: dict[str, Any] = {"rfilename": self.path}
        if blobs:
            sibling |= {"size": self.size, "blobId": self.oid}
            if self.sha256:
                sibling["lfs"] = {"sha256": self.sha256, "size": self.size, "pointerSize": self.pointer_size}
        return sibling


@dataclass(frozen=True)
class Snapshot:
    """The files of one commit. The commit is a function of paths and contents alone, so it can be pinned."""

    commit: str
    entries: dict[str, Entry]

    @classmethod
    def of(cls, folder: str | Path) -> Snapshot:
        root = Path(folder)
        entries = {}
        for source in sorted(root.rglob("*")):
            path = source.relative_to(root).as_posix()
            if source.is_file() and not path.startswith((".git/", ".cache/")):
                entries[path] = Entry.of(path, source)
        return cls.from_entries(entries)

    @classmethod
    def from_entries(cls, entries: dict[str, Entry]) -> Snapshot:
        digest = hashlib.sha1(usedforsecurity=False)
        for path in sorted(entries):
            digest.update(f"{path}\0{entries[path].oid}\n".encode())
        return cls(digest.hexdigest(), entries)

    def tree(self) -> list[dict[str, Any]]:
        folders = sorted({str(parent) for path in self.entries for parent in Path(path).parents} - {"."})
        return [{"type": "directory", "oid": "0" * 40, "size": 0, "path": folder} for folder in folders] + [
            self.entries[path].as_tree_entry() for path in sorted(self.entries)
        ]


@dataclass
class Repository:
    """`tokens` None = public. `gated` ("auto" or "manual") keeps the listing public and the files for `tokens`."""

    repo_id: str
    tokens: frozenset[str] | None = None
    gated: str | None = None
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Snapshot] = field(default_factory=dict)

    def push(self, snapshot: Snapshot, branch: str) -> None:
        self.commits[snapshot.commit] = snapshot
        self.branches[branch] = snapshot.commit

    def resolve(self, revision: str) -> Snapshot | None:
        return self.commits.get(self.branches.get(revision, revision))

    def refuses(self, token: str | None, *, files: bool) -> tuple[int, str] | None:
        """(status, X-Error-Code) for a request without the right, as the Hub answers it."""
        if self.tokens is None or token in self.tokens:
            return None
        if self.gated:
            return (403 if token else 401, "GatedRepo") if files else None
        return 404 if token else 401, "RepoNotFound"

    def info(self, snapshot: Snapshot, *, blobs: bool) -> dict[str, Any]:
        return {
            "id": self.repo_id,
            "modelId": self.repo_id,
            "sha": snapshot.commit,
            "private": self.tokens is not None and not self.gated,
            "gated": self.gated or False,
            "disabled": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [entry.as_sibling(blobs) for entry in snapshot.entries.values()],
        }
