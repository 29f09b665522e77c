# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The front of the old service: starts one worker per card and does nothing else.

On SIGTERM it ends at once and leaves the workers behind, which is how an engine's processes come to hold cards that no
service owns any more. When a worker ends on its own, the engine is dead and so is the front.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

WORKER = Path(__file__).with_name("worker.py")


def leave(_signal: int, _frame: FrameType | None) -> None:
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--tensor-parallel-size", type=int, required=True)
    given = parser.parse_args()
    if not (given.model / "config.json").is_file():
        print(f"no model in {given.model}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, leave)
    kernels = next((Path(sys.prefix) / "lib").glob("python3.*/site-packages/vllm/_C.abi3.so"))
    for rank in range(given.tensor_parallel_size):
        # argv[0] is the title by which tools show a worker; the real one sets it with setproctitle
        subprocess.Popen(
            [f"VLLM::Worker_TP{rank}", str(WORKER), str(rank), str(kernels)],
            executable=os.path.realpath(sys.executable),
        )
    pid, status = os.wait()
    print(f"worker {pid} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
