# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second run on 119 shards, 540 GB as sparse files: nothing to do, beside `hf download` on the same destination."""

from __future__ import annotations

import statistics

from simulation.hub import Hub
from simulation.large import REPOSITORY, SHARDS, make_large_checkpoint, pretend_hashed, publish

from .measuring import SPREAD, Run, client, least, ours, scratch, spread
from .table import Row, at_least, at_most, show

TRIALS = 7


def main() -> None:
    with scratch() as folder, Hub() as hub:
        dest = folder / "dest"
        make_large_checkpoint(dest)
        commit = publish(hub, dest)
        ours(hub.endpoint, dest, repo_id=REPOSITORY, verify="structure")
        pretend_hashed(dest)
        download = ("download", REPOSITORY, "--local-dir", str(dest), "--revision", commit)
        client(hub.endpoint, dest, *download)  # it writes its own list of the commit's files
        hub.log.clear()
        ours_runs = [ours(hub.endpoint, dest, repo_id=REPOSITORY, revision=commit) for _trial in range(TRIALS)]
        our_requests = len(hub.log.records())
        hub.log.clear()
        client_runs = [client(hub.endpoint, dest, *download) for _trial in range(TRIALS)]
        requests = len(hub.log.records())
    if any(run.result["changed"] for run in ours_runs):
        raise SystemExit("there was something to do")
    total = ours_runs[0].result["bytes"]["total"]
    inside = [run.inside for run in ours_runs]
    show(
        f"nothing to do: {SHARDS} shards, {total / 1e9:.0f} GB, pinned commit ({SPREAD}; {TRIALS} runs)",
        [
            Row("hf download, whole process", spread(client_runs)),
            Row("hf download, after its imports", f"{least_inside(client_runs):.3f} s"),
            Row("hf download, requests a run", f"{requests / TRIALS:g}"),
            Row("hf_shard_download, whole process", spread(ours_runs)),
            at_most("hf_shard_download, in the module (median)", statistics.median(inside), 0.3, "s"),
            at_most("hf_shard_download, requests a run", our_requests / TRIALS, 0, "requests"),
            at_least("in the module against the process hf", least(client_runs) / min(inside), 5),
            Row("in the module against hf after its imports", f"{least_inside(client_runs) / min(inside):.2f} x"),
            Row("whole process against whole process", f"{least(client_runs) / least(ours_runs):.2f} x"),
        ],
        "the interpreter's start and imports; then reading the manifest and one stat for each file",
    )


def least_inside(runs: list[Run]) -> float:
    return min(run.inside for run in runs)
