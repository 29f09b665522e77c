# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The whole download: decide the commit, keep others out, look at the disk, fetch what is missing, report."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ServingError
from .api import Listing, checked_repo_id, checked_revision
from .carrier import Carrier, check_index
from .folders import make_folders, remove
from .index import INDEX
from .lock import WriterLock, active_writer
from .manifest import Manifest
from .patches import read_patches
from .paths import OWN_STATE, destination, refuse_collisions, refuse_escapes, selected, shown
from .pin import pin
from .plan import Plan, make_plan
from .progress import Progress
from .report import bytes_of, cleared_of, difference, files_of, notes_on, shards_of, verified_by
from .retry import Retry
from .space import refuse_too_little_space, refuse_unwritable
from .structure import Header, Structure
from .survey import Surveyor
from .transfer import Throttle, Transfer
from .transport import Session
from .wanted import Wanted
from .xet import Xet
from .xet_process import Run, XetProcess


@dataclass(frozen=True)
class Surroundings:
    """What a download needs from others.

    listing:         who lists the repository; called only when a request is needed
    read_header:     reads a safetensors file's header; raises a ServingError for a file that is not whole
    set_attributes:  (path, is_folder) -> whether owner, group or mode are, or would be, changed
    progress:        told how far the run is
    run, python:     starts a process; the interpreter for hf_xet
    """

    session: Session
    retry: Retry
    listing: Callable[[], Listing]
    read_header: Callable[[Path], Header]
    set_attributes: Callable[[str, bool], bool]
    progress: Progress
    run: Run
    python: str


def download(wanted: Wanted, around: Surroundings) -> dict[str, Any]:
    """The result of hf_shard_download. Raises ServingError; `shards` and `commit` in its facts say how far it came."""
    started = time.monotonic()
    checked_repo_id(wanted.repo_id)
    checked_revision(wanted.revision)
    with around.progress, _explained(wanted.dest):
        return _download(wanted, around, destination(wanted.dest), started)


@contextlib.contextmanager
def _explained(dest: str) -> Iterator[None]:
    """What the system refuses, as an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise ServingError(
            "a file or folder cannot be used",
            where=shown(error.filename or dest),
            why=error.strerror or str(error),
            remedy="Run the task with become, or as the owner of the folder"
            if error.errno in (errno.EACCES, errno.EPERM)
            else "Correct that and run again: what has arrived is kept",
        ) from error


def _download(wanted: Wanted, around: Surroundings, dest: Path, started: float) -> dict[str, Any]:
    waited: list[str] = []
    while True:
        around.progress.begin("resolving")
        notes: list[str] = []
        known = Manifest.load(dest)
        goal = pin(wanted, known, dest, around.listing, notes)
        if wanted.check_mode:
            notes += [f"another writer is active: {writer}" for writer in [active_writer(dest)] if writer]
            structure = Structure(dest, around.read_header)
            plan = _plan(wanted, around, dest, goal, known, structure)
            return _Run(wanted, around, dest, notes, plan, structure, None, started).carry_out()
        with _only_writer(wanted, goal, dest, around) as lock:
            waited += [lock.note] if lock.note else []
            if Manifest.load(dest) != known:
                continue  # another run has changed it meanwhile: decide again, without the lock
            notes += waited
            structure = Structure(dest, around.read_header)
            plan = _plan(wanted, around, dest, goal, known, structure)
            return _Run(wanted, around, dest, notes, plan, structure, lock, started).carry_out()


def _only_writer(wanted: Wanted, goal: Manifest, dest: Path, around: Surroundings) -> WriterLock:
    """The lock, after the checks that need no look at the files; the destination exists from here on."""
    refuse_unwritable(dest)
    if not dest.exists():
        paths = selected(goal.files, wanted.include, wanted.exclude)
        total = sum(goal.files[path].size for path in paths)
        refuse_too_little_space(dest, total, len(paths), wanted.min_free_bytes)
    refuse_escapes(dest, [])
    make_folders(dest / OWN_STATE / "parts")
    return WriterLock(
        dest,
        wait=wanted.wait_for_lock,
        timeout=wanted.lock_timeout,
        check=around.retry.check,
        tell=lambda writer: around.progress.begin("waiting", writer=writer),
    )


def _plan(
    wanted: Wanted, around: Surroundings, dest: Path, goal: Manifest, known: Manifest | None, structure: Structure
) -> Plan:
    paths = sorted(selected(goal.files, wanted.include, wanted.exclude))
    if not paths:
        raise ServingError(
            "no file of the repository is wanted",
            where=f"{wanted.repo_id} at {goal.commit}",
            why=f"include {wanted.include}, exclude {wanted.exclude}, {len(goal.files)} files",
            remedy="Correct include and exclude",
        )
    refuse_collisions(paths)
    refuse_escapes(dest, paths)
    surveyor = Surveyor(dest, wanted.verify, goal, structure, around.retry, around.progress)
    findings = surveyor.survey([goal.files[path] for path in paths], wanted.max_workers)
    return make_plan(dest, goal, known, findings, prune=wanted.prune)


@dataclass
class _Run:
    wanted: Wanted
    around: Surroundings
    dest: Path
    notes: list[str]
    plan: Plan
    structure: Structure
    lock: WriterLock | None
    started: float

    def carry_out(self) -> dict[str, Any]:
        plan, wanted = self.plan, self.wanted
        self._refuse_what_cannot_succeed()
        transfer = Transfer(
            self.around.session,
            wanted.repo_id,
            plan.goal.commit,
            self.dest,
            self.around.retry,
            Throttle(wanted.rate_limit_bytes_per_s, self.around.retry.stop),
            self.around.progress,
            self._xet(),
        )
        carrier = Carrier(plan, transfer, wanted.max_workers, self.structure, self.notes)
        begun = time.monotonic()
        try:
            with _explained(str(self.dest)):
                if wanted.check_mode:
                    transfer.refuse_what_is_not_given([finding.file for finding in plan.to_fetch])
                if plan.changes and not wanted.check_mode:
                    carrier.carry_out()
                elif plan.changes or wanted.verify == "structure":
                    self._compare_what_is_there(carrier)
        except ServingError as error:
            error.facts.setdefault("shards", shards_of(plan, carrier.done, carrier.wrong))
            error.facts.setdefault("commit", plan.goal.commit)
            raise
        return self._result(carrier, time.monotonic() - begun)

    def _xet(self) -> Xet:
        around, wanted = self.around, self.wanted
        xet = Xet(
            XetProcess(around.run, around.python, around.session.stall_s, around.retry),
            wanted.engine,
            around.session,
            wanted.repo_id,
            self.plan.goal.commit,
            self.dest,
            around.progress,
            self.notes,
            limited=wanted.rate_limit_bytes_per_s > 0,
        )
        if not wanted.check_mode:
            xet.prepare([finding.file for finding in self.plan.to_fetch])
        return xet

    def _refuse_what_cannot_succeed(self) -> None:
        """All that can be known before the first byte; what nobody continues is removed before space is measured."""
        plan = self.plan
        if self.wanted.offline and plan.to_fetch:
            raise ServingError(
                "offline, and files are missing or damaged",
                where=str(self.dest),
                why=", ".join(finding.file.path for finding in plan.to_fetch[:10]),
                remedy="Run with offline=false",
                facts={"shards": shards_of(plan, ()), "commit": plan.goal.commit},
            )
        if plan.changes:
            refuse_unwritable(self.dest, plan.folders)
        reclaimed = sum(count for _path, count in plan.cleared)
        if plan.changes and self.lock is not None:
            self.lock.announce()
            for path, _bytes in plan.cleared:
                remove(path)
            reclaimed = 0
        refuse_too_little_space(
            self.dest, max(0, plan.missing_bytes - reclaimed), len(plan.to_fetch), self.wanted.min_free_bytes
        )

    def _compare_what_is_there(self, carrier: Carrier) -> None:
        """Without a change: the index against the file list, and against the headers when all files are there."""
        if any(finding.file.path == INDEX and not finding.to_fetch for finding in self.plan.findings):
            check_index(self.dest, self.plan.goal, self.plan.findings)
        if not self.plan.to_fetch:
            carrier.compare_shards()

    def _set_attributes(self) -> bool:
        """Owner, group and modes of the destination, of its folders and of the wanted files, where they exist."""
        files = [self.dest / finding.file.path for finding in self.plan.findings]
        folders = {self.dest} | {parent for file in files for parent in file.parents if self.dest in parent.parents}
        changed = [self.around.set_attributes(str(path), True) for path in sorted(folders) if path.is_dir()]
        changed += [
            self.around.set_attributes(str(path), False) for path in files if path.is_file() and not path.is_symlink()
        ]
        return any(changed)

    def _result(self, carrier: Carrier, transfer_s: float) -> dict[str, Any]:
        plan, counter = self.plan, carrier.transfer.counter
        downloaded, resumed = counter.received, counter.resumed
        if self.wanted.check_mode:
            downloaded, resumed = plan.missing_bytes, sum(plan.resumed.values())
        attributes_changed = self._set_attributes()
        return {
            "changed": plan.changes or attributes_changed,
            "repo_id": self.wanted.repo_id,
            "revision": self.wanted.revision,
            "commit": plan.goal.commit,
            "dest": self.wanted.dest,
            "files": files_of(plan),
            "shards": shards_of(plan, carrier.done),
            "bytes": bytes_of(plan, downloaded, resumed),
            "cleared_orphans": cleared_of(plan),
            "elapsed_s": round(time.monotonic() - self.started, 3),
            "throughput_bytes_per_s": int(counter.received / transfer_s) if counter.received else 0,
            "rate_limited": self.around.retry.rate_limited,
            "verified": verified_by(plan.findings, plan.goal),
            "manifest": str(Manifest.path(self.dest)),
            "notes": self.notes + notes_on(plan, read_patches(self.dest)),
            "diff": difference(plan),
        }
