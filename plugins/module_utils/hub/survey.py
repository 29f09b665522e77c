# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What is on disk, compared with what the commit publishes. Nothing is written here."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from ..errors import ServingError
from .identity import RemoteFile, hash_file, hasher_for
from .index import INDEX
from .manifest import Manifest, Stamp
from .patches import Patch, is_patched, read_patches
from .progress import Progress
from .retry import Retry, Stopped
from .structure import Structure

SHARD_SUFFIX = ".safetensors"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"

# A small file that was written again with the same bytes (a patch that was taken back) is hashed in each run: that
# costs less than a change that is none.
SMALL_BYTES = 1 << 24


@dataclass(frozen=True)
class Finding:
    """One wanted file: `state` is kept, adopted (right, but not known before), patched, missing, outdated or bad."""

    file: RemoteFile
    state: str
    reason: str | None = None
    stamp: Stamp | None = None

    @property
    def has_structure(self) -> bool:
        """Whether it is a shard or the index, which have to agree."""
        return self.file.path.endswith(SHARD_SUFFIX) or self.file.path == INDEX

    @property
    def to_fetch(self) -> bool:
        return self.state in ("missing", "outdated", "bad")


@dataclass(frozen=True)
class Surveyor:
    """How closely to look.

    verify:    stamp (a recorded verification is trusted while size, mtime and inode are the same), full (every
               byte is hashed again) or structure (safetensors headers and sizes; data is not read)
    structure: reads the headers of shards
    retry:     asked between reads whether the run is over
    progress:  told of every file and every read
    """

    dest: Path
    verify: str
    manifest: Manifest
    structure: Structure
    retry: Retry
    progress: Progress

    def survey(self, files: Sequence[RemoteFile], workers: int) -> list[Finding]:
        """All files, by a thread for each processor and by at least `workers`; the first error ends the others."""
        patches = read_patches(self.dest)
        self.progress.begin("hashing", {file.path: file.size for file in files})

        def look(file: RemoteFile) -> Finding:
            finding = self.look(file, patches.get(file.path))
            self.progress.finish(file.path)
            return finding

        with ThreadPoolExecutor(max_workers=max(workers, len(os.sched_getaffinity(0)))) as pool:
            futures = [pool.submit(look, file) for file in files]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                for future in futures:
                    if future.done() and not isinstance(future.exception(), (Stopped, type(None))):
                        future.result()
                return [future.result() for future in futures]
            except BaseException:
                self.retry.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def look(self, file: RemoteFile, patch: Patch | None) -> Finding:
        path = self.dest / file.path
        try:
            status = path.stat()
        except FileNotFoundError:
            return Finding(file, "missing")
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return Finding(file, "bad", "it is a symbolic link that leads to itself")
        if not stat.S_ISREG(status.st_mode):
            return Finding(file, "bad", "it is not a regular file")
        recorded = self.manifest.stamps.get(file.path)
        known = recorded if recorded is not None and recorded.fits(status) else None
        if known is not None and known.content_id != file.content_id:
            return Finding(file, "outdated", "the repository has another version of it")
        if known is not None and self.verify != "full" and (known.hashed or self.verify == "structure"):
            return self._with_structure(Finding(file, "kept", stamp=known))
        if patch is not None:
            patched = is_patched(self.dest, file, patch)
            if patched:
                return Finding(file, "patched")
            if patched is None:
                return Finding(file, "outdated", "it is a patched copy of another version than the repository has")
        return self._look_inside(file, path, status, recorded)

    def _look_inside(self, file: RemoteFile, path: Path, status: os.stat_result, recorded: Stamp | None) -> Finding:
        if status.st_size != file.size:
            return Finding(file, "bad", _wrong_size(path, status.st_size, file.size))
        if self.verify == "structure" and file.path.endswith(SHARD_SUFFIX):
            return self._with_structure(Finding(file, "adopted", stamp=Stamp.of(status, file, hashed=False)))
        hasher = hash_file(path, hasher_for(file), each=self.progress.reading(file.path, self.retry.check))
        if not hasher.is_content_of(file):
            return Finding(file, "bad", "its bytes are not those that the repository publishes")
        agreed = recorded is not None and recorded.content_id == file.content_id and recorded.structure
        stamp = Stamp.of(status, file, hashed=True, structure=agreed)
        if recorded == stamp or (recorded is not None and _same_content(recorded, stamp) and file.size <= SMALL_BYTES):
            return Finding(file, "kept", stamp=recorded)
        return Finding(file, "adopted", stamp=stamp)

    def _with_structure(self, finding: Finding) -> Finding:
        if self.verify == "structure" and finding.file.path.endswith(SHARD_SUFFIX):
            try:
                self.structure.look(finding.file.path)
            except ServingError as error:
                return Finding(finding.file, "bad", error.why or error.what)
        return finding


def _same_content(one: Stamp, other: Stamp) -> bool:
    return (one.content_id, one.hashed) == (other.content_id, other.hashed)


def is_lfs_pointer(path: Path) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError:
        return False


def _wrong_size(path: Path, size: int, expected: int) -> str:
    if is_lfs_pointer(path):
        return "it is a Git LFS pointer, not the file itself"
    return f"it has {size} bytes, the repository's has {expected}"
