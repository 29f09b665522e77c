# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One question about attention backends: read from the sources, beside importing vLLM and asking it.

The sources of the releases are fetched on first use (tests/e2e/vllm_sources.py). The peer needs SERVING_ENGINE_PYTHON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from .table import Row, at_least, at_most, show

TESTS = Path(__file__).parents[1]
E2E = TESTS / "e2e"
RELEASES = ("0.16.0", "0.19.1", "0.25.1", "0.33.0")
CARDS = ("12.0", "10.0", "9.0")
TRIALS = 5
# A process as a module is one: without garbage collection, and with nothing read before. All dtypes of the engine.
QUESTION = """
import gc, json, sys, time
gc.disable()
from pathlib import Path
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.answer import ask
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.question import (
    ModelShape, Question, parse_capability,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.tree import SourceTree
root, card, sizes = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
started = time.perf_counter()
model = ModelShape(True, 576, num_attention_heads=64, text_config=sizes, whole=True)
answer = ask(SourceTree(root), Question(parse_capability(card), model, 8), "cuda")
print(time.perf_counter() - started, len(answer.kv_cache_dtypes))
"""
SIZES = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
POINT = {
    "kv_cache_dtype": "fp8",
    "use_mla": True,
    "use_sparse": False,
    "head_size": 576,
    "has_sink": False,
    "use_dcp": False,
}


def main() -> None:
    sys.path.insert(0, str(E2E))
    from vllm_sources import sources  # type: ignore[import-not-found,unused-ignore]

    rows = []
    worst = 0.0
    for release in RELEASES:
        for card in CARDS:
            seconds, dtypes = read(sources(release), card)
            worst = max(worst, seconds)
            rows.append(Row(f"vLLM {release}, {card}, {dtypes} dtypes, read", f"{seconds:.3f} s"))
    rows.append(at_most("slowest of these (medians)", worst, 0.5, "s"))
    python = os.environ.get("SERVING_ENGINE_PYTHON")
    if python is None:
        rows.append(Row("importing vLLM and asking", "not run: SERVING_ENGINE_PYTHON names no engine"))
    else:
        peer = imported(python)
        rows += [
            Row("importing the installed vLLM and asking one dtype", f"{peer:.1f} s"),
            at_least("against it", peer / worst, 20),
        ]
    show(f"which attention backends serve this card ({TRIALS} runs each)", rows, "parsing the files that are asked for")


def read(root: Path, card: str) -> tuple[float, int]:
    """The median of the seconds of a fresh process, without interpreter and imports; how many dtypes it answered."""
    command = [sys.executable, "-c", QUESTION, str(root), card, json.dumps(SIZES)]
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / '.collections'}"}
    found = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _trial in range(TRIALS)
    ]
    return statistics.median(float(seconds) for seconds, _dtypes in found), int(found[0][1])


def imported(python: str) -> float:
    request = {"capability": "12.0", "sources": None, "points": [POINT]}
    started = time.perf_counter()
    subprocess.run(
        [python, str(E2E / "attention_answers.py")],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
