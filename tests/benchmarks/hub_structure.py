# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The structure of 119 shards with 2,400 tensors each: our reader beside safetensors itself, in one process each."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.safetensors_header import read_header
from simulation.hub import Hub
from simulation.large import REPOSITORY, SHARDS, make_large_checkpoint, publish, shard_names

from .measuring import ours, scratch
from .table import Row, at_most, show

TRIALS = 5
SAFETENSORS = "safetensors==0.8.0"  # it opens a file for a framework, and numpy is the smallest one
PEER = """
import sys, time
from safetensors import safe_open
for trial in range(int(sys.argv[1])):
    started = time.perf_counter()
    for path in sys.argv[2:]:
        with safe_open(path, "np") as shard:
            shard.keys()
    print(time.perf_counter() - started)
"""


def peer(paths: list[Path]) -> list[float] | None:
    """Seconds of each trial; None where the package cannot be had. uv keeps it out of the test environment."""
    uv = Path(sys.executable).parent / "uv"
    words = f"run --quiet --no-project --with {SAFETENSORS} --with numpy --python {sys.executable} python -c".split()
    argv = [str(uv), *words, PEER, str(TRIALS), *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        print(f"  {SAFETENSORS} cannot be run: {done.stderr.strip().splitlines()[-1:]}")
        return None
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    with scratch() as folder, Hub() as hub:
        dest = folder / "dest"
        make_large_checkpoint(dest)
        publish(hub, dest)
        paths = [dest / name for name in shard_names()]
        seconds = []
        for _trial in range(TRIALS):
            started = time.perf_counter()
            tensors = sum(len(read_header(path).names) for path in paths)
            seconds.append(time.perf_counter() - started)
        theirs = peer(paths)
        whole = ours(hub.endpoint, dest, repo_id=REPOSITORY, verify="structure")
    rows = [Row(SAFETENSORS, f"{min(theirs):.2f} / {statistics.median(theirs):.2f} s")] if theirs else []
    show(
        f"structure of {SHARDS} shards, {tensors} tensors (least / median seconds; {TRIALS} trials)",
        [
            *rows,
            Row("our reader", f"{min(seconds):.2f} / {statistics.median(seconds):.2f} s"),
            at_most("our reader, median", statistics.median(seconds), 1, "s"),
            Row("the module with verify=structure, index compared", f"{whole.inside:.2f} s"),
        ],
        "the JSON parser; the headers are in the page cache",
    )
