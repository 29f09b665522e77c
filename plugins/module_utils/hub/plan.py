# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What a run would change, from what was found; the same plan is told in check mode and carried out otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .client_state import metadata_is_right, orphans
from .manifest import Manifest, Stamp
from .part import part_bytes
from .patches import is_recorded_edit, read_patches
from .paths import OWN_STATE, STATE
from .processes import is_open
from .survey import SHARD_SUFFIX, Finding
from .xet import staging_folder
from .xet_process import bytes_below


@dataclass(frozen=True)
class Plan:
    """findings: of every wanted file; cleared: partial files that nobody continues, (path, bytes); removed: files of an
    earlier commit; moved: the manifest itself is new."""

    dest: Path
    goal: Manifest
    findings: list[Finding]
    cleared: list[tuple[Path, int]]
    removed: dict[str, Stamp]
    moved: bool
    resumed: dict[str, int] = field(default_factory=dict)

    def wants(self, path: str) -> bool:
        return any(finding.file.path == path for finding in self.findings)

    @property
    def to_fetch(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.to_fetch]

    @property
    def missing_bytes(self) -> int:
        return sum(finding.file.size - self.resumed.get(finding.file.path, 0) for finding in self.to_fetch)

    @property
    def changes(self) -> bool:
        return bool(
            self.moved
            or self.cleared
            or self.removed
            or self.unchecked
            or any(finding.to_fetch or finding.state == "adopted" for finding in self.findings)
        )

    @property
    def folders(self) -> set[Path]:
        """Where something is written or removed."""
        written = [self.dest / finding.file.path for finding in self.to_fetch]
        written += [self.dest / path for path in self.removed] + [path for path, _bytes in self.cleared]
        state = {self.dest / OWN_STATE / "parts", self.dest / STATE / "download"}
        return {path.parent for path in written} | state

    @property
    def unchecked(self) -> bool:
        """Whether a shard or the index has never been compared with the others."""
        return any(
            finding.stamp is None or not finding.stamp.structure
            for finding in self.findings
            if finding.state != "patched" and finding.has_structure
        )

    def action(self, finding: Finding) -> str:
        """The word for the result: kept, adopted, patched, downloaded, resumed or repaired."""
        if finding.state == "bad":
            return "repaired"
        if finding.state in ("missing", "outdated"):
            return "resumed" if self.resumed.get(finding.file.path) else "downloaded"
        return finding.state

    def stale_metadata(self) -> list[Finding]:
        """Wanted files whose note for huggingface_hub is missing or out of date."""
        return [
            finding
            for finding in self.findings
            if finding.state != "patched" and not metadata_is_right(self.dest, self.goal.commit, finding.file)
        ]


def make_plan(dest: Path, goal: Manifest, known: Manifest | None, findings: list[Finding], *, prune: bool) -> Plan:
    return Plan(
        dest,
        goal,
        findings,
        orphans(dest) + _stale_parts(dest, goal) + _stale_staging(dest),
        _removable(dest, goal) if prune else {},
        known is None or (known.commit, known.revision) != (goal.commit, goal.revision),
        {finding.file.path: part_bytes(dest, finding.file) for finding in findings if finding.to_fetch},
    )


def former_on_disk(dest: Path, goal: Manifest) -> list[str]:
    """Files of an earlier commit that are still there."""
    return [path for path in sorted(goal.former) if (dest / path).exists()]


def weights_of_nobody(dest: Path, goal: Manifest) -> list[str]:
    """safetensors files of the top folder that the commit does not have; an engine may load them."""
    return sorted(path.name for path in dest.glob(f"*{SHARD_SUFFIX}") if path.name not in goal.files)


def _removable(dest: Path, goal: Manifest) -> dict[str, Stamp]:
    """Former files that are still what this collection once verified; one that somebody changed or moved stays."""
    removable = {}
    patches = read_patches(dest)
    for path, stamp in goal.former.items():
        target = dest / path
        try:
            ours = stamp.fits(target.stat()) or (path in patches and is_recorded_edit(target, patches[path]))
            if ours and target.parent.resolve() == target.parent:
                removable[path] = stamp
        except OSError:
            continue
    return removable


def _stale_staging(dest: Path) -> list[tuple[Path, int]]:
    """Folders in which hf_xet worked for a run that was killed; it would start again anyway."""
    return [(folder, bytes_below(folder)) for folder in sorted(staging_folder(dest).glob("*"))]


def _stale_parts(dest: Path, goal: Manifest) -> list[tuple[Path, int]]:
    """Parts of contents that this commit does not have."""
    contents = {file.content_id for file in goal.files.values()}
    parts = sorted((dest / OWN_STATE / "parts").glob("*.part"))
    return [(part, part.stat().st_blocks * 512) for part in parts if part.stem not in contents and not is_open(part)]
