# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Carrying out a plan: small files first, the index against the file list, then the shards, several at a time."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import ServingError
from .client_state import write_metadata
from .folders import remove_empty_folders
from .identity import RemoteFile
from .index import INDEX, shards_of_index
from .manifest import Manifest, Stamp
from .plan import Plan
from .structure import Structure
from .survey import SHARD_SUFFIX, Finding
from .transfer import Transfer, WrongBytes

SAVE_EVERY_S = 1.0


@dataclass
class Carrier:
    """One run's writing. `done` holds the paths that were fetched, `wrong` those that came with wrong bytes."""

    plan: Plan
    transfer: Transfer
    workers: int
    structure: Structure
    notes: list[str]
    done: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _saved_at: float = 0.0

    @property
    def goal(self) -> Manifest:
        return self.plan.goal

    def carry_out(self) -> None:
        dest = self.plan.dest
        progress = self.transfer.progress
        progress.begin("downloading", {finding.file.path: finding.file.size for finding in self.plan.findings})
        for finding in self.plan.findings:
            if not finding.to_fetch:
                progress.finish(finding.file.path)
            if finding.stamp is not None:
                self.goal.stamps[finding.file.path] = finding.stamp
        self.goal.save(dest)
        try:
            to_fetch = self.plan.to_fetch
            self._fetch([finding.file for finding in to_fetch if not finding.file.path.endswith(SHARD_SUFFIX)])
            check_index(dest, self.goal, self.plan.findings)
            self._fetch([finding.file for finding in to_fetch if finding.file.path.endswith(SHARD_SUFFIX)])
            self._remove()
            self.compare_shards()
        except BaseException:
            with contextlib.suppress(OSError):  # what ended the run says more
                self.goal.save(dest)
            raise
        self.goal.save(dest)
        for finding in self.plan.stale_metadata():
            write_metadata(dest, self.goal.commit, finding.file)

    def compare_shards(self) -> None:
        """All wanted shards are on disk: headers and index must agree. What agrees is noted for later runs."""
        shards = {f.file.path: f.file.size for f in self.plan.findings if f.file.path.endswith(SHARD_SUFFIX)}
        self.transfer.progress.begin("verifying", shards)
        self.structure.refuse_disagreement(sorted(shards), self.notes, indexed=self.plan.wants(INDEX))
        for finding in self.plan.findings:
            stamp = self.goal.stamps.get(finding.file.path)
            if stamp is not None and finding.has_structure:
                self.goal.stamps[finding.file.path] = replace(stamp, structure=True)

    def _fetch(self, files: Sequence[RemoteFile]) -> None:
        """All of them; those with wrong bytes are named at the end, any other error ends the others."""
        groups: dict[str, list[RemoteFile]] = {}
        for file in files:
            # Files with the same content share a part, so one thread fetches them one after the other.
            groups.setdefault(file.content_id, []).append(file)
        wrong: list[WrongBytes] = []
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            futures = [pool.submit(self._fetch_group, group) for group in groups.values()]
            try:
                for future in as_completed(futures):
                    self._take(future, wrong)
            except BaseException:
                self.transfer.retry.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if wrong:
            self.wrong = sorted(str(error.where) for error in wrong)
            raise WrongBytes(
                wrong[0].what,
                where=", ".join(self.wrong),
                why=wrong[0].why if len(wrong) == 1 else f"{len(wrong)} files",
                remedy=wrong[0].remedy,
            )

    def _fetch_group(self, group: list[RemoteFile]) -> list[tuple[RemoteFile, Stamp]]:
        return [(file, self.transfer.fetch(file)) for file in group]

    def _take(self, future: Future[list[tuple[RemoteFile, Stamp]]], wrong: list[WrongBytes]) -> None:
        """Note what has arrived, so that a run that is killed later does not hash it again."""
        try:
            fetched = future.result()
        except WrongBytes as error:
            wrong.append(error)
            return
        for file, stamp in fetched:
            self.goal.stamps[file.path] = stamp
            self.done.append(file.path)
            self.transfer.progress.finish(file.path)
            write_metadata(self.plan.dest, self.goal.commit, file)
        if time.monotonic() - self._saved_at > SAVE_EVERY_S:
            self.goal.save(self.plan.dest)
            self._saved_at = time.monotonic()

    def _remove(self) -> None:
        for path in self.plan.removed:
            target = self.plan.dest / path
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target)
            remove_empty_folders(self.plan.dest, target.parent)
        self.goal.former = {
            path: stamp
            for path, stamp in self.goal.former.items()
            if path not in self.plan.removed and (self.plan.dest / path).exists()
        }


def check_index(dest: Path, goal: Manifest, findings: Sequence[Finding]) -> None:
    """Refuse an index that names files which the repository does not have: no download can make that right.

    The index then counts as not verified, so that no later run takes the destination for complete.
    """
    if not any(finding.file.path == INDEX for finding in findings):
        return
    try:
        shards = shards_of_index(json.loads((dest / INDEX).read_bytes()), INDEX)
    except (ValueError, RecursionError) as error:
        goal.stamps.pop(INDEX, None)
        raise ServingError(
            "the index is not JSON", where=str(dest / INDEX), why=str(error), remedy="Ask the publisher, or exclude it"
        ) from None
    absent = sorted(shards - goal.files.keys())
    if absent:
        goal.stamps.pop(INDEX, None)
        raise ServingError(
            "the repository's index names files that the repository does not have",
            where=INDEX,
            why=f"absent at commit {goal.commit}: {', '.join(absent[:10])}" + (" ..." if len(absent) > 10 else ""),
            remedy="Ask the publisher for a right index, choose another revision, or exclude the index",
            facts={"absent_upstream": absent},
        )
