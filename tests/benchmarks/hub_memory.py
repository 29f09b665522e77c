# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peak memory of the process: a large file, a 31 MB index, 119 headers; beside `hf download`."""

from __future__ import annotations

import shutil

from simulation.hub import Hub
from simulation.large import REPOSITORY as LARGE
from simulation.large import make_large_checkpoint, pretend_hashed, publish

from .measuring import REPOSITORY, client, make_shards, ours, scratch, serve
from .table import Row, at_most, show

FILE_BYTES = 3 << 30
GOAL = 200


def main() -> None:
    rows = []
    with scratch() as folder:
        origin, dest = folder / "origin", folder / "dest"
        total = make_shards(origin, 1, FILE_BYTES)
        with serve(origin) as endpoint:
            run = client(endpoint, dest, "download", REPOSITORY, "--local-dir", str(dest))
            rows.append(Row(f"hf download, one file of {total / 1e9:.1f} GB", f"{run.peak / 1e6:.0f} MB"))
            shutil.rmtree(dest)
            run = ours(endpoint, dest)
            rows.append(at_most("hf_shard_download, the same", run.peak / 1e6, GOAL, "MB"))
            run = ours(endpoint, dest, verify="full")
            rows.append(at_most("the same verified again, verify=full", run.peak / 1e6, GOAL, "MB"))
        shutil.rmtree(dest)
        shutil.rmtree(origin)
        with Hub() as hub:
            make_large_checkpoint(origin)
            commit = publish(hub, origin)
            run = ours(hub.endpoint, dest, repo_id=LARGE, include=["*.json"])
            rows.append(at_most("hf_shard_download, an index of 31 MB", run.peak / 1e6, GOAL, "MB"))
            run = ours(hub.endpoint, origin, repo_id=LARGE, verify="structure")
            rows.append(at_most("119 headers and the index, verify=structure", run.peak / 1e6, GOAL, "MB"))
            pretend_hashed(origin)
            run = ours(hub.endpoint, origin, repo_id=LARGE, revision=commit)
            rows.append(at_most("nothing to do, 119 shards", run.peak / 1e6, GOAL, "MB"))
    show("peak memory (resident, as the kernel counts it)", rows, "none; the size of a file does not matter")
