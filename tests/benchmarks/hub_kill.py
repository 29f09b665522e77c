# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at half: how many bytes the next run fetches again, beside `hf download`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from simulation.hub import Hub, client_environment
from simulation.task import Task

from .measuring import REPOSITORY, make_shards, scratch
from .table import Row, at_most, show

SHARDS = 4
SHARD_BYTES = 150_000_000
RATE = 50_000_000  # of each body: so little stands in the sockets' buffers that it is not taken for received
TRIALS = 3
Start = Callable[[], "subprocess.Popen[str]"]


def on_disk(place: Path) -> int:
    paths = [*place.rglob("*.incomplete"), *place.rglob("*.part"), *place.glob("*.safetensors")]
    return sum(path.stat().st_blocks * 512 for path in paths if path.exists())


def fetched_again(hub: Hub, start: Start, dest: Path, total: int) -> tuple[float, int]:
    """(percent of all bytes, bytes of partial files left behind) after a kill at half and a run to the end."""
    hub.log.clear()
    hub.rate = RATE
    process = start()
    while on_disk(dest) < total // 2:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    time.sleep(0.3)  # the Hub notices it with the next chunk
    hub.rate = None
    process = start()
    process.communicate(timeout=300)
    if process.returncode:
        raise SystemExit("the second run failed")
    sent = sum(record.bytes_sent for record in hub.log.records(file="*.safetensors"))
    left = sum(path.stat().st_size for path in dest.rglob("*") if path.suffix in (".incomplete", ".part"))
    shutil.rmtree(dest)
    return 100 * (sent - total) / total, left


def main() -> None:
    with scratch() as folder, Hub() as hub:
        make_shards(folder / "origin", SHARDS, SHARD_BYTES)
        hub.add_repository(REPOSITORY, folder / "origin")
        total = sum(path.stat().st_size for path in (folder / "origin").glob("*.safetensors"))
        dest = folder / "dest"
        environment = client_environment(hub.endpoint, folder / "home")

        def ours() -> subprocess.Popen[str]:
            return Task("hf_shard_download", {"repo_id": REPOSITORY, "dest": str(dest)}, environment).process

        def plain() -> subprocess.Popen[str]:
            words = ["-m", "huggingface_hub.cli.hf", "download", REPOSITORY, "--local-dir", str(dest)]
            return subprocess.Popen(
                [sys.executable, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

        again = [fetched_again(hub, plain, dest, total) for _trial in range(TRIALS)]
        ours_again = [fetched_again(hub, ours, dest, total) for _trial in range(TRIALS)]
    show(
        f"kill -9 at half of {SHARDS} shards, {total / 1e9:.2f} GB: bytes fetched again (most of {TRIALS} trials)",
        [
            Row("hf download", f"{max(again)[0]:.1f} %"),
            Row("hf download, partial files left behind", f"{max(again)[1] / 1e6:.0f} MB"),
            at_most("hf_shard_download", max(ours_again)[0], 1, "%"),
            at_most("hf_shard_download, partial files left behind", max(ours_again)[1], 0, "bytes"),
        ],
        f"the Hub sends {RATE // 1_000_000} MB/s to each connection",
    )
