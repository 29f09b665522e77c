# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What quant_config_patch keeps beside a checkpoint, so that its edits can be understood and undone.

<checkpoint>/.cache/huggingface/blackwell.serving/
    patches.json        {file: {"pristine_sha256", "patched_sha256", "edits": [{"pointer", "before", "after"}]}}
    pristine/<sha256>   the published bytes of each file that was ever patched; never removed
    staged/<file>       new bytes on their way; what a killed run leaves here is overwritten by the next
    patch.lock          held (flock) while files change

A file whose sha256 is `patched_sha256` is as it should be; one with `pristine_sha256` lost its patch; any other is new.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import ServingError
from ..files import fsync_directory, sha256_of, write_atomically
from .edits import Edit
from .json_document import parse_object

STATE_FOLDER = Path(".cache", "huggingface", "blackwell.serving")


@dataclass(frozen=True)
class FileRecord:
    """What was done to one file."""

    pristine_sha256: str
    patched_sha256: str
    edits: list[Edit]


class PatchState:
    """The records and pristine copies of one checkpoint. Reading them creates nothing."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = folder
        self.folder = folder / STATE_FOLDER
        self.record_path = self.folder / "patches.json"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out while files change; the lock dies with its holder.

        A folder that cannot be written is refused here, before anything is written.
        """
        if not os.access(self.checkpoint, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, "the folder cannot be written", str(self.checkpoint))
        os.makedirs(self.folder, mode=0o755, exist_ok=True)
        with open(self.folder / "patch.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._sweep()
            yield

    def leftovers(self) -> list[Path]:
        """What a killed run was still writing; or what another run is writing now, while it holds the lock."""
        return [*self.folder.glob(".patches.json.*.tmp"), *self.folder.glob("pristine/.*.tmp")]

    def _sweep(self) -> None:
        """Remove what a killed run was still writing: nobody else writes these files while the lock is held."""
        for leftover in self.leftovers():
            leftover.unlink(missing_ok=True)

    def records(self) -> dict[str, FileRecord]:
        try:
            data = self.record_path.read_bytes()
        except FileNotFoundError:
            return {}
        document = parse_object(data, str(self.record_path))
        try:
            return {
                name: FileRecord(
                    str(entry["pristine_sha256"]),
                    str(entry["patched_sha256"]),
                    [Edit(edit["pointer"], edit["before"], edit["after"]) for edit in entry["edits"]],
                )
                for name, entry in document.value.items()
            }
        except (KeyError, TypeError) as error:
            raise ServingError(
                "the record of patches cannot be understood",
                where=str(self.record_path),
                why=f"{type(error).__name__}: {error}",
                remedy="Move it away and download config.json and hf_quant_config.json again",
            ) from error

    def write_records(self, records: dict[str, FileRecord]) -> None:
        entries = {
            name: {
                "pristine_sha256": record.pristine_sha256,
                "patched_sha256": record.patched_sha256,
                "edits": [edit.as_dict() for edit in record.edits],
            }
            for name, record in sorted(records.items())
        }
        write_atomically(self.record_path, (json.dumps(entries, indent=2) + "\n").encode())

    def pristine(self, sha256: str) -> bytes:
        """The published bytes with this hash; refused when the copy is gone or damaged."""
        path = self.folder / "pristine" / sha256
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = None
        if data is None or digest(data) != sha256:
            raise ServingError(
                "the pristine copy is " + ("gone" if data is None else "damaged"),
                where=str(path),
                remedy="Download the file again (blackwell.serving.hf_shard_download); it is then patched anew",
            )
        return data

    def is_as_downloaded(self, name: str, data: bytes) -> bool:
        """Whether the manifest of hf_shard_download, beside the records, has the file with this content."""
        try:
            entry = json.loads((self.folder / "manifest.json").read_bytes())["files"][name]
            return bool(entry.get("sha256") == digest(data) or entry.get("git_sha1") == _git_blob(data))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False

    def keep_pristine(self, data: bytes) -> None:
        """Keep published bytes under their hash. A good copy is left alone, a damaged one is replaced."""
        path = self.folder / "pristine" / digest(data)
        os.makedirs(path.parent, mode=0o755, exist_ok=True)
        if not path.exists() or sha256_of(path) != path.name:
            write_atomically(path, data)

    def stage(self, name: str, data: bytes) -> Path:
        """Write the new bytes of a file next to the records, with the mode and owner of the file they will replace.

        A symbolic link is looked through for mode and owner only: what replaces it is a file of the checkpoint's own.
        """
        like = (self.checkpoint / name).stat()
        path = self.folder / "staged" / name
        os.makedirs(path.parent, mode=0o755, exist_ok=True)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, like.st_uid, like.st_gid)
            os.fchmod(descriptor, like.st_mode & 0o7777)
            os.fsync(descriptor)
        return path

    def replace_files(self, staged: dict[str, Path]) -> None:
        """Move every staged file into place. Staging is done by now, so no full disk can come between the files."""
        for name, path in staged.items():
            os.replace(path, self.checkpoint / name)
        fsync_directory(self.checkpoint)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _git_blob(data: bytes) -> str:
    """Git's name of a file with this content, by which the Hub knows small files."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
