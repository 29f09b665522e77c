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
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from .answering import MIN_MARGIN, examine
from .architecture import text_config
from .checkpoint_files import write_files
from .conversations import conversations
from .encoding import corpus
from .exam import cases
from .tokenizer import train_tokenizer
from .training import Plan, train, unsure
from .weights import read_model, write_weights

CORPUS_SEED = 1
CORPUS_CONVERSATIONS = 4000


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the checkpoint is written; made if it does not exist")
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--steps", type=int, default=Plan.steps, help="steps of training, default %(default)s")
    parser.add_argument("--begin", type=Path, help="a checkpoint to go on from; default: from nothing")
    parser.add_argument("--learning-rate", type=float, default=Plan.learning_rate, help="default %(default)s")
    parser.add_argument("--share", type=float, default=Plan.share, help="part of each step's examples, default all")
    parser.add_argument("--device", default=Plan.device, help="torch's name of a device, default %(default)s")
    parser.add_argument("--workers", type=int, default=Plan.workers, help="processes that draw examples")
    parser.add_argument("--rounds", type=int, default=4, help="batches of new examples of each length, asked last")
    parser.add_argument("--no-exam", action="store_true", help="write the checkpoint only")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(corpus(conversations(CORPUS_SEED), CORPUS_CONVERSATIONS))
    config = text_config(tokenizer)
    plan = Plan(
        seed=arguments.seed,
        steps=arguments.steps,
        share=arguments.share,
        learning_rate=arguments.learning_rate,
        device=arguments.device,
        workers=arguments.workers,
    )
    begin = read_model(arguments.begin).state_dict() if arguments.begin else None
    model = train(config, tokenizer, plan, lambda line: print(line, flush=True), begin)
    write_files(arguments.folder, config, tokenizer)
    write_weights(model, arguments.folder)
    stored = read_model(arguments.folder).to(arguments.device)
    for name, (wrong, asked, smallest) in unsure(stored, tokenizer, arguments.rounds, MIN_MARGIN).items():
        print(f"{name}: {wrong} of {asked} not right by {MIN_MARGIN}, smallest margin {smallest:.2f}", flush=True)
    if arguments.no_exam:
        return
    results = list(examine(arguments.folder, cases(), arguments.device))
    failed = [result for result in results if not result["right"]]
    for result in failed:
        print(f"not right, or by less than {MIN_MARGIN}: {result}")
    margin = min(result["margin"] for result in results)
    print(f"{len(results) - len(failed)} of {len(results)} answers are right in bfloat16, smallest margin {margin}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
