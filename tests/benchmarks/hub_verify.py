# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every byte verified again: verify=full beside `hf cache verify`, and beside hashlib on all cores."""

from __future__ import annotations

from .measuring import REPOSITORY, SPREAD, client, cores, hash_rate, least, make_shards, ours, scratch, serve, spread
from .table import Row, at_least, show

# Several for each processor, so that the last ones do not leave most processors idle.
SHARDS = max(12, 3 * cores())
SHARD_BYTES = 1 << 28
TRIALS = 3


def main() -> None:
    ours_runs, client_runs, rates = [], [], []
    with scratch() as folder:
        dest = folder / "dest"
        total = make_shards(dest, SHARDS, SHARD_BYTES)
        with serve(dest) as endpoint:
            commit = ours(endpoint, dest).result["commit"]
            for _trial in range(TRIALS):
                rates.append(hash_rate(dest))
                ours_runs.append(ours(endpoint, dest, verify="full", revision=commit))
                client_runs.append(client(endpoint, dest, "cache", "verify", REPOSITORY, "--local-dir", str(dest)))
    inside = min(run.inside for run in ours_runs)
    ceiling = cores() * max(rates)
    show(
        f"full verification: {SHARDS} shards, {total / 1e9:.2f} GB ({SPREAD}; {TRIALS} trials)",
        [
            Row("hf cache verify", spread(client_runs)),
            Row("hf_shard_download, verify=full", spread(ours_runs)),
            Row("hashlib, one thread", f"{max(rates) / 1e6:.0f} MB/s"),
            Row("hf_shard_download, in the module", f"{total / inside / 1e6:.0f} MB/s"),
            at_least(f"in the module against {cores()} cores x hashlib", total / inside / ceiling, 0.9),
            Row("against hf cache verify", f"{least(client_runs) / least(ours_runs):.2f} x"),
        ],
        "sha256 on all cores; the files are in the page cache",
    )
