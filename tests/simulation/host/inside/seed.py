# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs as root inside a fresh host and puts it into the situation of the day: an old service holds all cards.

Once only: the marker says that it has happened, so what a deployment retired is not brought back.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARKER = Path("/var/lib/simulation/seeded")
SERVICE = Path("/opt/vllm-glm5")
UNIT = "vllm-glm5.service"
WEIGHTS = Path("/srv/models/zai-org/GLM-5")
SHARDS, LAYERS, MIB = 4, 78, 1 << 20
HELD_MIB = "93783"
LEFT_OVER = {"psm_1f2e3d4c": MIB, "psm_5b6a7988": 16 * MIB, "sem.mp-9zk1v0aq": 32, "sem.mp-q7f3x2tz": 32}
FOREIGN = {"pulse-shm-2718281828": 64 << 10}
CONFIG = {
    "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "hidden_size": 6144,
    "num_hidden_layers": LAYERS, "torch_dtype": "bfloat16",
}  # fmt: skip


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


def user() -> None:
    try:
        pwd.getpwnam("glm")
    except KeyError:
        run("useradd", "--system", "--home-dir", str(SERVICE), "--shell", "/usr/sbin/nologin", "glm")


def program() -> None:
    """The service's own venv with a compiled file in it: processes are told apart by what they map from there."""
    if not (SERVICE / "venv/bin/python").exists():
        run("python3", "-m", "venv", "--without-pip", str(SERVICE / "venv"))
    packages = next((SERVICE / "venv/lib").glob("python3.*/site-packages"))
    (packages / "vllm").mkdir(exist_ok=True)
    library = next(Path("/usr/lib/python3").parent.glob("python3.*/lib-dynload/_json.*.so"))
    shutil.copyfile(library, packages / "vllm/_C.abi3.so")
    for name in ("serve.py", "worker.py"):
        shutil.copyfile(HERE / name, SERVICE / name)
    shutil.copyfile(HERE / UNIT, f"/etc/systemd/system/{UNIT}")


def weights() -> None:
    """Shards in the real format (8-byte length, JSON header, data) with their index, some MiB in all."""
    WEIGHTS.mkdir(parents=True, exist_ok=True)
    places = {}
    for shard in range(1, SHARDS + 1):
        tensor = f"model.layers.{shard * LAYERS // SHARDS - 1}.mlp.gate.weight"
        header = json.dumps({tensor: {"dtype": "BF16", "shape": [MIB // 2], "data_offsets": [0, MIB]}}).encode()
        header += b" " * (-len(header) % 8)
        places[tensor] = f"model-{shard:05d}-of-{SHARDS:05d}.safetensors"
        (WEIGHTS / places[tensor]).write_bytes(struct.pack("<Q", len(header)) + header + bytes(MIB))
    index = {"metadata": {"total_size": SHARDS * MIB}, "weight_map": places}
    (WEIGHTS / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    (WEIGHTS / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    for path in (WEIGHTS, *WEIGHTS.iterdir()):
        shutil.chown(path, "glm", "glm")


def shared_memory() -> None:
    """What earlier crashes left, and a file of somebody else's."""
    for files, owner in ((LEFT_OVER, "glm"), (FOREIGN, "ops")):
        for name, size in files.items():
            path = Path("/dev/shm") / name
            path.write_bytes(bytes(size))
            path.chmod(0o600)
            shutil.chown(path, owner, owner)


def service() -> None:
    """Enabled and active, and the cards show what its workers hold."""
    run("systemctl", "daemon-reload")
    run("systemctl", "enable", "--quiet", "--now", UNIT)
    query = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
    end = time.monotonic() + 30
    while (used := run(*query).split()) != [HELD_MIB] * 8:
        if time.monotonic() > end:
            sys.exit(f"the cards show {used} MiB after 30 s, not eight times {HELD_MIB}: see journalctl -u {UNIT}")
        time.sleep(0.1)


def main() -> None:
    if MARKER.exists():
        print("unchanged")
        return
    for step in (user, program, weights, shared_memory, service):
        step()
    MARKER.parent.mkdir(parents=True, exist_ok=True)
    fresh = MARKER.with_suffix(".new")
    fresh.write_text(time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime()))
    os.replace(fresh, MARKER)
    print("seeded")


if __name__ == "__main__":
    main()
