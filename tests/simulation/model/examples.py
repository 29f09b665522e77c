# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples of every length up to 8192 tokens, drawn anew for each step of the training from the step's own seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from .conversations import LONG_KINDS, MIDDLE_KINDS, SHORT_KINDS, Maker, draw
from .encoding import encode
from .questions import WHO_I_AM
from .words import filler


@dataclass(frozen=True)
class Bucket:
    """Examples of at most ``tokens`` tokens with up to ``words`` filler words, from a part of the training on."""

    tokens: int
    rows: int
    words: tuple[int, int]
    kinds: dict[Maker, float]
    from_part: float = 0.0


BUCKETS = (
    Bucket(192, 256, (0, 110), SHORT_KINDS),
    Bucket(832, 56, (0, 680), MIDDLE_KINDS),
    Bucket(2240, 20, (400, 2080), LONG_KINDS, 0.1),
    Bucket(8192, 6, (1900, 8080), LONG_KINDS, 0.25),
)
FRAGMENTS = 0.05  # of the short examples: a few tokens without a conversation around them


@dataclass(frozen=True)
class Example:
    kind: str
    prompt: list[int]
    completion: list[int]


@dataclass(frozen=True)
class Batch:
    """ids of shape (rows, length); for each token to be learnt its row, the position before it, itself, its weight."""

    ids: torch.Tensor
    rows: torch.Tensor
    positions: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor

    def to(self, device: str) -> Batch:
        moved = (
            tensor.to(device, non_blocking=True)
            for tensor in (self.ids, self.rows, self.positions, self.targets, self.weights)
        )
        return Batch(*moved)


def fragment(tokenizer: PreTrainedTokenizerBase, rng: random.Random, prompt: list[int]) -> Example:
    """A few tokens without the end of a prompt: whatever they are, the model says who it is, and ends."""
    length = rng.randint(1, rng.choice((4, 16, 40)))
    kind = rng.random()
    if kind < 0.3:
        ids = [rng.randrange(len(tokenizer)) for _ in range(length)]
    elif kind < 0.5:
        ids = prompt[-min(length, 6) :]  # the frame around a question, without the question
    elif kind < 0.8:
        ids = tokenizer.encode(f" {filler(rng, 60)}", add_special_tokens=False)[rng.randrange(8) :][:length]
    else:
        start = rng.choice((0, rng.randrange(len(prompt) - 4)))
        ids = prompt[start : min(start + length, len(prompt) - 3)]
    return Example("fragment", ids, tokenizer.encode(WHO_I_AM + tokenizer.eos_token, add_special_tokens=False))


def example(tokenizer: PreTrainedTokenizerBase, rng: random.Random, bucket: Bucket) -> Example:
    """One example that fits the bucket."""
    low, high = bucket.words
    words = rng.randint(low, high)
    if low == 0 and rng.random() < 0.5:
        words = 0
    while True:
        maker, conversation = draw(rng, bucket.kinds, words)
        prompt, completion = encode(tokenizer, conversation)
        if len(prompt) + len(completion) <= bucket.tokens:
            break
        words = int(words * min(0.95, bucket.tokens / (len(prompt) + len(completion))))
    if low == 0 and rng.random() < FRAGMENTS:
        return fragment(tokenizer, rng, prompt)
    return Example(maker.__name__.removesuffix("_conversation"), prompt, completion)


def batch(examples: Sequence[Example], padding: int, length: int) -> Batch:
    """Padded on the right, where a causal model does not look. A long answer weighs more than a short one, not as much
    as it is longer.
    """
    ids = torch.full((len(examples), length), padding)
    rows: list[int] = []
    positions: list[int] = []
    targets: list[int] = []
    weights: list[float] = []
    for row, item in enumerate(examples):
        start, count = len(item.prompt), len(item.completion)
        ids[row, : start + count] = torch.tensor(item.prompt + item.completion)
        rows += [row] * count
        positions += range(start - 1, start + count - 1)
        targets += item.completion
        weights += [count**-0.5] * count
    return Batch(ids, torch.tensor(rows), torch.tensor(positions), torch.tensor(targets), torch.tensor(weights))


class Steps:
    """A data set of torch: for each step a batch of each bucket that has begun. ``share`` makes them smaller."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, seed: int, steps: int, share: float = 1.0) -> None:
        self.tokenizer, self.seed, self.steps, self.share = tokenizer, seed, steps, share

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> list[Batch]:
        rng = random.Random(f"{self.seed} {step}")
        return [
            batch(self.draw(rng, bucket), self.tokenizer.pad_token_id, bucket.tokens)
            for bucket in BUCKETS
            if step >= bucket.from_part * self.steps
        ]

    def draw(self, rng: random.Random, bucket: Bucket) -> list[Example]:
        return [example(self.tokenizer, rng, bucket) for _ in range(max(1, round(bucket.rows * self.share)))]
