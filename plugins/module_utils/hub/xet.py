# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which files hf_xet brings, and what happens when it does not: HTTP brings them. The hash decides in any case.

HTTP is the rule: it continues a file at any byte, hashes what arrives, keeps to a limit and to little memory. hf_xet
starts a file again after a kill, and does nothing of the rest. The Hub serves no file of more than 50 GB over HTTP.
"""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ServingError
from .answers import TRANSIENT
from .identity import RemoteFile, hash_file, hasher_for
from .manifest import Stamp
from .part import part_bytes, take_name
from .paths import OWN_STATE
from .progress import Progress
from .retry import FIRST_PAUSE_S
from .transport import ConnectionTrouble, HubAnswer, Session
from .xet_process import XetProcess

HTTP_LIMIT_BYTES = 50_000_000_000
ATTEMPTS = 2


def staging_folder(dest: Path) -> Path:
    return dest / OWN_STATE / "xet"


def wants_xet(engine: str, file: RemoteFile, *, limited: bool) -> bool:
    """engine=auto takes hf_xet for what HTTP cannot bring. `limited`: a rate is to be kept, which hf_xet cannot."""
    if not file.xet or limited or engine == "http":
        return False
    return engine == "xet" or file.size > HTTP_LIMIT_BYTES


@dataclass
class Xet:
    """Used by several threads; one file at a time, which hf_xet itself fetches over many connections."""

    process: XetProcess
    engine: str
    session: Session
    repo_id: str
    commit: str
    dest: Path
    progress: Progress
    notes: list[str]
    limited: bool = False
    _one: threading.Lock = field(default_factory=threading.Lock)
    _given_up: bool = False

    def takes(self, file: RemoteFile) -> bool:
        """A part that is there is continued over HTTP."""
        return (
            not self._given_up
            and wants_xet(self.engine, file, limited=self.limited)
            and not part_bytes(self.dest, file)
        )

    def prepare(self, files: list[RemoteFile]) -> None:
        """Before the first byte: fail when hf_xet was asked for and is not there."""
        if not any(self.takes(file) for file in files) or self.process.is_able():
            return
        if self.engine == "xet":
            raise ServingError(
                "hf_xet and huggingface_hub cannot be loaded",
                where=self.process.python,
                remedy="Install hf_xet there, or set engine to auto or http",
            )
        self._given_up = True

    def fetch(self, file: RemoteFile) -> tuple[Stamp | None, bool]:
        """(stamp, whether wrong bytes came). Without a stamp HTTP has to bring the file."""
        with self._one:
            if self._given_up:
                return None, False
            for attempt in range(ATTEMPTS):
                staging = staging_folder(self.dest) / file.content_id
                try:
                    self._download(file, staging)
                    return self._take(file, staging / file.path)
                except (HubAnswer, ConnectionTrouble) as error:
                    if isinstance(error, HubAnswer) and error.status not in TRANSIENT:
                        return None, False  # HTTP meets the same refusal, and explains it
                    self.process.retry.stop.wait(FIRST_PAUSE_S)
                    if attempt == ATTEMPTS - 1:
                        self.notes.append(f"hf_xet failed, so HTTP was used from {file.path} on: {error}")
                        self._given_up = True
                finally:
                    shutil.rmtree(staging, ignore_errors=True)
        return None, False

    def _download(self, file: RemoteFile, staging: Path) -> None:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        order: dict[str, object] = {
            "repo_id": self.repo_id,
            "filename": file.path,
            "revision": self.commit,
            "endpoint": self.session.endpoint,
            "token": self.session.token or False,
            "local_dir": str(staging),
        }
        before = 0

        def moved(used: int) -> None:
            nonlocal before
            self.progress.advance(file.path, min(used, file.size), max(0, used - before))
            before = used

        self.process.fetch(order, staging, moved)

    def _take(self, file: RemoteFile, staged: Path) -> tuple[Stamp | None, bool]:
        descriptor = os.open(staged, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            hasher = hash_file(staged, hasher_for(file), each=lambda length: self.process.retry.check())
            if os.fstat(descriptor).st_size != file.size or not hasher.is_content_of(file):
                self.notes.append(f"{file.path} came by hf_xet with other bytes than the repository publishes")
                return None, True
            return Stamp.of(take_name(descriptor, staged, self.dest, file), file, hashed=True), False
        finally:
            os.close(descriptor)
