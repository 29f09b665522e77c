# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What to write instead of a flag that the installed vLLM does not know.

What the installed sources tell comes first: a switch that is spelled the other way round. Then a small table of flags
that releases since 0.8 have dropped, each read in the sources or release notes of the release that dropped it; its
advice is given only where the flag that it names is installed. Last the nearest spelling.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .command_line.parser import Flag

_NEAR = 0.82
OMIT = "Leave it out"
_OPPOSITE = {"--enable-": "--disable-", "--disable-": "--enable-"}

# Flag: (the flag to use instead, or None; what to do).
_DROPPED: Mapping[str, tuple[str | None, str]] = {
    "--calculate-kv-scales": (None, f"{OMIT}: the scales come from the checkpoint, or are 1.0"),
    "--cuda-graph-sizes": ("--cudagraph-capture-sizes", "The same list under a new name"),
    "--device": (None, f"{OMIT}: the device follows from the installed build"),
    "--disable-async-output-proc": (None, f"{OMIT}: only the engine before V1 had it"),
    "--disable-frontend-multiprocessing": (None, f"{OMIT}: the engine always runs in a process of its own"),
    "--disable-mm-preprocessor-cache": ("--mm-processor-cache-gb", "--mm-processor-cache-gb 0"),
    "--enable-mamba-fine-grained-prefix-cache": (
        "--enable-mamba-shared-prefix-checkpoint",
        "Checkpoints at shared prefixes are asked for by --enable-mamba-shared-prefix-checkpoint",
    ),
    "--enable-prompt-adapter": (None, f"{OMIT}: prompt adapters were dropped"),
    "--enable-reasoning": ("--reasoning-parser", f"{OMIT}: --reasoning-parser alone turns it on"),
    "--guided-decoding-backend": ("--structured-outputs-config", "--structured-outputs-config.backend NAME"),
    "--logits-processor-pattern": ("--logits-processors", "--logits-processors names the allowed ones at start"),
    "--max-long-partial-prefills": (None, f"{OMIT}: concurrent partial prefills were dropped"),
    "--max-num-partial-prefills": (None, f"{OMIT}: concurrent partial prefills were dropped"),
    "--max-seq-len-to-capture": ("--max-cudagraph-capture-size", "--max-cudagraph-capture-size, counted in tokens"),
    "--num-lookahead-slots": (None, f"{OMIT}: only the engine before V1 had it"),
    "--num-scheduler-steps": (None, f"{OMIT}: only the engine before V1 had multi-step scheduling"),
    "--num-speculative-tokens": ("--speculative-config", "--speculative-config.num_speculative_tokens NUMBER"),
    "--override-attention-dtype": (None, f"{OMIT}: attention computes in the dtype of --dtype"),
    "--override-pooler-config": ("--pooler-config", "The same JSON under a new name"),
    "--rope-scaling": ("--hf-overrides", "--hf-overrides '{\"rope_scaling\": {...}}', or rope_parameters"),
    "--rope-theta": ("--hf-overrides", "--hf-overrides '{\"rope_theta\": NUMBER}', or rope_parameters"),
    "--speculative-model": ("--speculative-config", "--speculative-config.model NAME"),
    "--swap-space": (None, f"{OMIT}: preempted requests are computed again and never swapped"),
    "--task": ("--runner", "--runner pooling for embeddings, --convert to adapt a generative model"),
    "--use-gpu-for-pooling-score": (
        "--enable-flash-late-interaction",
        "The same switch under a new name, on by default",
    ),
    "--use-v2-block-manager": (None, f"{OMIT}: there is only one block manager"),
    "--worker-use-ray": ("--distributed-executor-backend", "--distributed-executor-backend ray"),
}


@dataclass(frozen=True)
class Replacement:
    """What to do about a flag.

    flag:    an installed flag that does what was asked for, or None
    advice:  what to write, or None
    nearest: the nearest spelling, or None
    """

    flag: str | None
    advice: str | None
    nearest: str | None


def replacement(asked: str, flags: Mapping[str, Flag], spellings: Collection[str]) -> Replacement:
    """What to do about an unknown flag.

    asked:     as the engine reads it, with dashes
    flags:     the installed flags by first spelling
    spellings: every installed spelling
    """
    nearest = next(iter(difflib.get_close_matches(asked, spellings, 1, _NEAR)), None)
    return (
        _other_way_round(asked, flags, nearest)
        or _dropped(asked, spellings, nearest)
        or Replacement(None, None, nearest)
    )


def _other_way_round(asked: str, flags: Mapping[str, Flag], nearest: str | None) -> Replacement | None:
    """--disable-x for a switch --enable-x, and the reverse."""
    for prefix, opposite in _OPPOSITE.items():
        flag = flags.get(opposite + asked.removeprefix(prefix)) if asked.startswith(prefix) else None
        negated = f"--no-{flag.name[2:]}" if flag else None
        if flag is not None and negated in flag.options:
            advice = f"{negated} says the same"
            return Replacement(
                negated,
                f"{OMIT}: {flag.name} is off by default; {advice}" if flag.default is False else advice,
                nearest,
            )
    return None


def _dropped(asked: str, spellings: Collection[str], nearest: str | None) -> Replacement | None:
    found = _DROPPED.get(asked.replace("--no-", "--", 1))
    if found is None or (found[0] is not None and found[0] not in spellings):
        return None
    return Replacement(found[0], found[1], nearest)
