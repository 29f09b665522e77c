# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which commit a download works to, decided once, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..errors import ServingError
from .answers import HubUnavailable
from .api import Listing
from .identity import COMMIT
from .index import INDEX, shards_of_index
from .manifest import Manifest
from .survey import is_lfs_pointer
from .wanted import Wanted


def pin(
    wanted: Wanted, known: Manifest | None, dest: Path, listing: Callable[[], Listing], notes: list[str]
) -> Manifest:
    """The manifest to fulfil: the known one where its commit stays, else a new one with the Hub's file list.

    A commit that is known needs no request. A branch stays at the commit of the known manifest unless `update` is set.
    When the Hub is not available, a manifest of that revision is enough; without one there is no success.
    """
    if known is not None and known.repo_id != wanted.repo_id:
        raise ServingError(
            "the destination belongs to another repository",
            where=str(dest),
            why=f"its manifest is of {known.repo_id} at {known.commit}",
            remedy=f"Choose another dest, or remove {Manifest.path(dest)} to let this repository take the folder over",
        )
    fits = known is not None and known.is_about(wanted.repo_id, wanted.revision)
    if known is not None and known.commit == wanted.revision:
        return known
    if wanted.offline:
        if known is not None and fits:
            return known
        raise ServingError(
            "offline, and nothing is known of this revision",
            where=f"{wanted.repo_id} at {wanted.revision}",
            why=_on_disk(dest),
            remedy="Run once with offline=false, or set revision to the commit of the manifest",
        )
    try:
        return _ask(wanted, known, listing(), notes)
    except HubUnavailable as error:
        if known is not None and fits:
            notes.append(f"{error.what}: verified against the manifest of commit {known.commit} alone")
            return known
        raise HubUnavailable(
            error.what,
            where=error.where,
            why="; ".join(text for text in (error.why, _on_disk(dest)) if text),
            remedy=error.remedy,
            facts=error.facts,
        ) from error.__cause__  # this error says all that the first one said


def _ask(wanted: Wanted, known: Manifest | None, hub: Listing, notes: list[str]) -> Manifest:
    commit = hub.resolve(wanted.revision).commit
    if COMMIT.fullmatch(wanted.revision) and commit != wanted.revision:
        raise ServingError(
            "the Hub answers with another commit than the one that was asked for",
            where=f"{wanted.repo_id} at {wanted.revision}",
            why=f"it says {commit}",
            remedy="Check that endpoint is a Hub",
        )
    if known is not None:
        if known.commit == commit:
            return _under_the_name(wanted.revision, known, notes)
        if known.revision == wanted.revision and not wanted.update:
            notes.append(f"{wanted.revision} has moved to {commit}; update=true takes it")
            return known
    files = hub.tree(commit)
    before = known or Manifest(wanted.repo_id, wanted.revision, commit, {})
    return before.moved_to(wanted.revision, commit, files)


def _under_the_name(revision: str, known: Manifest, notes: list[str]) -> Manifest:
    """The branch or tag of the last run is the one whose commit stays."""
    if known.revision == revision:
        return known
    notes.append(f"{revision} is the commit that is here already, as {known.revision}")
    return replace(known, revision=revision)


def _on_disk(dest: Path) -> str | None:
    """How much of a checkpoint is there by its own index, for a message: an index is no proof."""
    try:
        shards = shards_of_index(json.loads((dest / INDEX).read_bytes()), INDEX)
    except (OSError, ValueError, RecursionError, ServingError):
        return None
    missing = sorted(shard for shard in shards if not (dest / shard).exists())
    pointers = sorted(shard for shard in shards if is_lfs_pointer(dest / shard))
    if pointers:
        return (
            f"{len(pointers)} of the {len(shards)} shards of its index are Git LFS pointers: {', '.join(pointers[:5])}"
        )
    if not missing:
        return f"all {len(shards)} shards of its index are on disk, unverified"
    return f"{len(missing)} of the {len(shards)} shards of its index are missing on disk: {', '.join(missing[:5])}"
