# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What is known about a destination: the commit's files, and how each looked on disk when its bytes were verified.

`<dest>/.cache/huggingface/blackwell.serving/manifest.json`:
    format    1
    repo_id, revision (as it was asked for), commit
    files     {path: {size, git_sha1, sha256 (of LFS files), xet (where it is true)}}, the whole tree of the commit
    stamps    {path: {size, mtime_ns, inode, content_id, hashed, structure}}: verified at that moment, against that
              content; `hashed` is false when only headers and sizes were read, `structure` is true for shards and
              index when headers and index were found to agree
    former    {path: stamp}: files of an earlier commit that this one does not have and that are still there
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ServingError
from ..files import write_atomically
from .identity import COMMIT, RemoteFile, parse_tree_entry
from .paths import OWN_STATE, safe_path

FORMAT = 1


@dataclass(frozen=True)
class Stamp:
    """A file as it was when its content was verified."""

    size: int
    mtime_ns: int
    inode: int
    content_id: str
    hashed: bool
    structure: bool = False

    @classmethod
    def of(cls, status: os.stat_result, file: RemoteFile, *, hashed: bool, structure: bool = False) -> Stamp:
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, file.content_id, hashed, structure)

    def fits(self, status: os.stat_result) -> bool:
        return (self.size, self.mtime_ns, self.inode) == (status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass
class Manifest:
    repo_id: str
    revision: str
    commit: str
    files: dict[str, RemoteFile]
    stamps: dict[str, Stamp] = field(default_factory=dict)
    former: dict[str, Stamp] = field(default_factory=dict)

    @staticmethod
    def path(dest: Path) -> Path:
        return dest / OWN_STATE / "manifest.json"

    @classmethod
    def load(cls, dest: Path) -> Manifest | None:
        """None when there is none, or when it is damaged: then everything is verified anew."""
        try:
            return cls.parse(cls.path(dest).read_bytes())
        except FileNotFoundError:
            return None

    @classmethod
    def parse(cls, data: bytes) -> Manifest | None:
        try:
            document = json.loads(data)
            if document["format"] != FORMAT or not COMMIT.fullmatch(document["commit"]):
                return None
            return cls(
                str(document["repo_id"]),
                str(document["revision"]),
                document["commit"],
                {path: _file(path, entry) for path, entry in document["files"].items()},
                _stamps(document["stamps"]),
                _stamps(document["former"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ServingError):
            return None

    def save(self, dest: Path) -> None:
        document = {
            "format": FORMAT,
            "repo_id": self.repo_id,
            "revision": self.revision,
            "commit": self.commit,
            "files": {
                path: {
                    "size": file.size,
                    "git_sha1": file.git_sha1,
                    **file.identity(),
                    **({"xet": True} if file.xet else {}),
                }
                for path, file in sorted(self.files.items())
            },
            "stamps": {path: asdict(stamp) for path, stamp in sorted(self.stamps.items())},
            "former": {path: asdict(stamp) for path, stamp in sorted(self.former.items())},
        }
        write_atomically(self.path(dest), (json.dumps(document, indent=1) + "\n").encode())

    def is_about(self, repo_id: str, revision: str) -> bool:
        """Whether it was written for this revision, by its name or by its commit."""
        return self.repo_id == repo_id and revision in (self.revision, self.commit)

    def moved_to(self, revision: str, commit: str, files: list[RemoteFile]) -> Manifest:
        """The manifest of another commit in the same place; what this one verified stays known."""
        tree = {file.path: file for file in files}
        known = {**self.former, **self.stamps}
        return Manifest(
            self.repo_id,
            revision,
            commit,
            tree,
            {path: stamp for path, stamp in known.items() if path in tree},
            {path: stamp for path, stamp in known.items() if path not in tree},
        )


def _file(path: str, entry: Any) -> RemoteFile:
    sha256 = entry.get("sha256")
    lfs = {"oid": sha256} if sha256 else None
    file = parse_tree_entry(
        {"path": path, "size": entry["size"], "oid": entry["git_sha1"], "lfs": lfs, "xetHash": entry.get("xet")}
    )
    if file is None:
        raise ValueError(path)
    return file


def _stamps(document: Any) -> dict[str, Stamp]:
    return {safe_path(path): _stamp(**entry) for path, entry in document.items()}


def _stamp(*, size: int, mtime_ns: int, inode: int, content_id: str, hashed: bool, structure: bool = False) -> Stamp:
    if not all(isinstance(number, int) for number in (size, mtime_ns, inode)) or not isinstance(content_id, str):
        raise ValueError("not a stamp")
    return Stamp(size, mtime_ns, inode, content_id, hashed is True, structure is True)
