# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The result of a download: every file with what was done to it, shards, bytes, differences."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .index import INDEX
from .manifest import Manifest
from .paths import shown
from .plan import Plan, former_on_disk, weights_of_nobody
from .survey import SHARD_SUFFIX, Finding


def files_of(plan: Plan) -> list[dict[str, Any]]:
    """[{path, size, sha256 or git_sha1, action, reason}]; `reason` where a file on disk is not used."""
    files: list[dict[str, Any]] = []
    for finding in plan.findings:
        entry = {
            "path": finding.file.path,
            "size": finding.file.size,
            **finding.file.identity(),
            "action": plan.action(finding),
        }
        files.append({**entry, "reason": finding.reason} if finding.reason else entry)
    return files + [
        {"path": path, "size": stamp.size, "action": "removed"} for path, stamp in sorted(plan.removed.items())
    ]


def shards_of(plan: Plan, fetched: Collection[str], wrong: Collection[str] = ()) -> dict[str, Any]:
    """The safetensors files as they are on disk when `fetched` have arrived, and `wrong` ones came with wrong bytes."""
    shards = [finding for finding in plan.findings if finding.file.path.endswith(SHARD_SUFFIX)]
    open_ones = [finding for finding in shards if finding.to_fetch and finding.file.path not in fetched]
    return {
        "expected": len(shards),
        "present": len(shards) - len(open_ones),
        "missing": [f.file.path for f in open_ones if f.state == "missing" and f.file.path not in wrong],
        "corrupt": [f.file.path for f in open_ones if f.state != "missing" or f.file.path in wrong],
    }


def bytes_of(plan: Plan, downloaded: int, resumed: int) -> dict[str, int]:
    on_disk = 0
    for finding in plan.findings:
        path = plan.dest / finding.file.path
        on_disk += path.stat().st_size if path.is_file() else 0
    total = sum(finding.file.size for finding in plan.findings)
    return {"total": total, "downloaded": downloaded, "resumed": resumed, "on_disk": on_disk}


def verified_by(findings: Collection[Finding], goal: Manifest) -> str:
    """sha256 when the hash of every file was computed at some time, structure when only headers and sizes were read."""
    stamps = (goal.stamps.get(finding.file.path) or finding.stamp for finding in findings)
    return "structure" if any(stamp is not None and not stamp.hashed for stamp in stamps) else "sha256"


def cleared_of(plan: Plan) -> list[dict[str, Any]]:
    return [{"path": shown(path.relative_to(plan.dest)), "bytes": count} for path, count in plan.cleared]


def notes_on(plan: Plan, patches: Collection[str]) -> list[str]:
    notes = []
    former = [path for path in former_on_disk(plan.dest, plan.goal) if path not in plan.removed]
    if former:
        notes.append(f"no longer in the repository, removed with prune=true while unchanged: {', '.join(former)}")
    strangers = [path for path in weights_of_nobody(plan.dest, plan.goal) if path not in plan.goal.former]
    if strangers:
        notes.append(f"weights on disk that the repository does not have: {', '.join(map(shown, strangers))}")
    if not plan.wants(INDEX) and INDEX not in plan.goal.former and (plan.dest / INDEX).exists():
        notes.append(f"{INDEX} on disk is not compared with the shards: it is excluded, or not of this repository")
    patched = [finding.file.path for finding in plan.findings if finding.state == "patched"]
    if patched:
        notes.append(f"patched on this host, so that hf cache verify reports them: {', '.join(patched)}")
    for finding in plan.findings:
        if finding.file.path in patches and finding.state != "patched":
            notes.append(f"{finding.file.path} was patched once; it is, or becomes, as published")
    return notes


def difference(plan: Plan) -> dict[str, str]:
    """For --diff: one line for each file that changes."""
    before, after = [], []
    for entry in files_of(plan):
        path, action, reason = entry["path"], entry["action"], entry.get("reason")
        if action in ("kept", "patched"):
            continue
        content = " ".join(f"{name} {entry[name]}" for name in ("sha256", "git_sha1") if name in entry)
        before.append(f"{path}: {reason or ('there, not verified' if action == 'adopted' else 'absent')}")
        after.append(f"{path}: {entry['size']} bytes, {content} ({action})")
        if action == "removed":
            before[-1], after[-1] = f"{path}: {entry['size']} bytes", f"{path}: absent"
    for entry in cleared_of(plan):
        before.append(f"{entry['path']}: {entry['bytes']} bytes that nobody continues")
        after.append(f"{entry['path']}: absent")
    return {"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}
