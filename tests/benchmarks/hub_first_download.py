# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first download, verified: hf_shard_download beside `hf download` with `hf cache verify`, and a bare loop."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from .measuring import (
    REPOSITORY,
    SPREAD,
    Clock,
    Run,
    client,
    cores,
    hash_rate,
    least,
    make_shards,
    ours,
    scratch,
    serve,
    spread,
    write_rate,
)
from .table import Row, at_least, show

SHARDS = 8
SHARD_BYTES = 1 << 28
TRIALS = 3
# As little as a ranged download can do: no check, no fsync, a hash only if asked for. The folder "" means that nothing
# is written.
BARE = """
import concurrent.futures, hashlib, http.client, sys, urllib.parse
endpoint, repository, folder, threads, hashing, *names = sys.argv[1:]
def get(name):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(endpoint).netloc)
    connection.request("GET", f"/{repository}/resolve/main/{name}", headers={"Range": "bytes=0-"})
    response, buffer, hasher = connection.getresponse(), bytearray(1 << 20), hashlib.sha256()
    with open(f"{folder}/{name}" if folder else "/dev/null", "wb", buffering=0) as stream:
        while count := response.readinto(buffer):
            stream.write(memoryview(buffer)[:count])
            if hashing == "yes":
                hasher.update(memoryview(buffer)[:count])
with concurrent.futures.ThreadPoolExecutor(int(threads)) as pool:
    list(pool.map(get, names))
"""


def bare(endpoint: str, origin: Path, dest: Path | None, threads: int, *, hashing: bool = False) -> Run:
    names = [path.name for path in origin.glob("*.safetensors")]
    clock = Clock()
    if dest:
        dest.mkdir()
    words = [endpoint, REPOSITORY, str(dest or ""), str(threads), "yes" if hashing else "no", *names]
    subprocess.run([sys.executable, "-c", BARE, *words], check=True)
    run = clock.run()
    if dest:
        shutil.rmtree(dest)
    return run


def download(endpoint: str, dest: Path) -> Run:
    run = ours(endpoint, dest)
    shutil.rmtree(dest)
    return run


def peer(endpoint: str, dest: Path) -> Run:
    """Both commands, as one run."""
    one = client(endpoint, dest, "download", REPOSITORY, "--local-dir", str(dest))
    two = client(endpoint, dest, "cache", "verify", REPOSITORY, "--local-dir", str(dest))
    shutil.rmtree(dest)
    return Run(one.seconds + two.seconds, one.inside + two.inside, one.cpu + two.cpu, max(one.peak, two.peak), {})


def main() -> None:
    runs: dict[str, list[Run]] = {name: [] for name in ("ours", "peer", "loop", "threads", "hashing", "silent")}
    with scratch() as folder:
        origin, dest = folder / "origin", folder / "dest"
        total = make_shards(origin, SHARDS, SHARD_BYTES)
        hashing, writing = hash_rate(origin), write_rate(folder)
        with serve(origin) as endpoint:
            for _trial in range(TRIALS):
                runs["ours"].append(download(endpoint, dest))
                runs["loop"].append(bare(endpoint, origin, dest, 1))
                runs["threads"].append(bare(endpoint, origin, dest, SHARDS))
                runs["hashing"].append(bare(endpoint, origin, dest, SHARDS, hashing=True))
                runs["silent"].append(bare(endpoint, origin, None, SHARDS))
                runs["peer"].append(peer(endpoint, dest))
    inside = min(run.inside for run in runs["ours"])
    rates = {"loopback": total / least(runs["silent"]), "writing": writing, "sha256 on all cores": hashing * cores()}
    narrowest = min(rates, key=lambda name: rates[name])
    show(
        f"first download, verified: {SHARDS} shards, {total / 1e9:.2f} GB ({SPREAD}; {TRIALS} trials)",
        [
            Row("hf download + hf cache verify", spread(runs["peer"])),
            Row("bare ranged GET loop, one file after the other", spread(runs["loop"])),
            Row("bare ranged GET, a thread for each file", spread(runs["threads"])),
            Row("the same threads, each with sha256", spread(runs["hashing"])),
            Row("hf_shard_download", spread(runs["ours"])),
            Row("hf_shard_download, in the module", f"{inside:.2f} s, {total / inside / 1e6:.0f} MB/s"),
            at_least("against hf download + hf cache verify", least(runs["peer"]) / least(runs["ours"]), 2.5),
            at_least("in the module against the bare loop", least(runs["loop"]) / inside, 0.7),
            Row("in the module against bare threads", f"{least(runs['threads']) / inside:.2f} x"),
            Row("in the module against threads with sha256", f"{least(runs['hashing']) / inside:.2f} x"),
        ],
        ", ".join(f"{name} {rate / 1e6:.0f} MB/s" for name, rate in rates.items())
        + f"; they share {cores()} cores with the Hub itself, and the narrowest is {narrowest}",
    )
