# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m benchmarks [NAME ...]: run the benchmarks, each with its table; none named: all of them."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from pathlib import Path

from .measuring import cores, workplace

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*_*.py"))


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = models[0].partition(": ")[2] if models else platform.machine()
    print(f"{processor}, {cores()} cores, Linux {platform.release()}, Python {platform.python_version()}")
    print(f"data in {workplace()}, load before: {' '.join(f'{load:.2f}' for load in os.getloadavg())}", flush=True)
    # one that could not measure at all says so, and the others still run
    failed = [name for name in names or NAMES if importlib.import_module(f"benchmarks.{name}").main()]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
