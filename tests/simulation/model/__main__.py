# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Train the tiny Kimi, write its checkpoint and examine it: `python -m simulation.model FOLDER`, run in tests/."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Read when torch is loaded: threads that wait must not burn the cores that others share with the training.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from .answering import MIN_MARGIN, examine
from .architecture import text_config
from .checkpoint_files import write_files
from .conversations import conversations
from .encoding import corpus
from .tokenizer import train_tokenizer
from .training import Plan, train
from .weights import write_weights

CORPUS_SEED = 1
CORPUS_CONVERSATIONS = 3000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the checkpoint is written; made if it does not exist")
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--steps", type=int, default=Plan.steps, help="steps of training, default %(default)s")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(corpus(conversations(CORPUS_SEED), CORPUS_CONVERSATIONS))
    config = text_config(tokenizer)
    plan = Plan(seed=arguments.seed, steps=arguments.steps)
    model = train(config, tokenizer, plan, progress=lambda line: print(line, flush=True))
    write_files(arguments.folder, config, tokenizer)
    write_weights(model, arguments.folder)
    results = list(examine(arguments.folder))
    failed = [result for result in results if not result["right"]]
    for result in failed:
        print(f"not right, or by less than {MIN_MARGIN}: {result}")
    margin = min(result["margin"] for result in results)
    print(f"{len(results) - len(failed)} of {len(results)} answers are right in bfloat16, smallest margin {margin}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
