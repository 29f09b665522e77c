# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations as text, as token ids, and as padded batches."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from transformers import PreTrainedTokenizerBase

from .conversations import Conversation
from .markup import completion_text

IGNORED = -100  # the label that the loss leaves out


def prompt_text(tokenizer: PreTrainedTokenizerBase, conversation: Conversation) -> str:
    """The prompt as the engine builds it from a request: by the chat template."""
    text = tokenizer.apply_chat_template(
        list(conversation.messages),
        tools=list(conversation.tools) or None,
        add_generation_prompt=True,
        tokenize=False,
        thinking=conversation.thinking,
    )
    return str(text)


def corpus(stream: Iterator[Conversation], count: int) -> list[str]:
    """The texts that the tokenizer's merges are learnt from, markup left out."""
    texts = []
    for conversation in islice(stream, count):
        for message in (*conversation.messages, conversation.answer):
            texts += [message["content"], message.get("reasoning_content", ""), message.get("tool_call_id", "")]
            texts += [json.dumps(call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    return texts


def encode(tokenizer: PreTrainedTokenizerBase, conversation: Conversation) -> tuple[list[int], list[int]]:
    """Token ids of the prompt and of the completion, encoded apart as the engine sees them."""
    prompt = tokenizer.encode(prompt_text(tokenizer, conversation), add_special_tokens=False)
    completion = tokenizer.encode(completion_text(conversation), add_special_tokens=False)
    return prompt, completion


def batches(
    tokenizer: PreTrainedTokenizerBase, stream: Iterator[Conversation], rng: random.Random, tokens: int, pool: int = 256
) -> Iterator[dict[str, torch.Tensor]]:
    """Batches of at most ``tokens`` tokens with padding, out of ``pool`` conversations at a time sorted by length."""
    while True:
        pairs = sorted((encode(tokenizer, next(stream)) for _ in range(pool)), key=lambda pair: len(pair[0] + pair[1]))
        groups: list[list[tuple[list[int], list[int]]]] = [[]]
        for pair in pairs:
            if (len(groups[-1]) + 1) * len(pair[0] + pair[1]) > tokens:
                groups.append([])
            groups[-1].append(pair)
        rng.shuffle(groups)
        for group in groups:
            yield batch(group, tokenizer.pad_token_id)


def batch(pairs: Sequence[tuple[list[int], list[int]]], padding: int) -> dict[str, torch.Tensor]:
    """Right-padded ``input_ids``, ``attention_mask`` and ``labels``, each of shape (sequences, longest)."""
    longest = max(len(prompt) + len(completion) for prompt, completion in pairs)
    ids = torch.full((len(pairs), longest), padding)
    mask = torch.zeros((len(pairs), longest), dtype=torch.long)
    labels = torch.full((len(pairs), longest), IGNORED)
    for row, (prompt, completion) in enumerate(pairs):
        end = len(prompt) + len(completion)
        ids[row, :end] = torch.tensor(prompt + completion)
        mask[row, :end] = 1
        labels[row, len(prompt) : end] = torch.tensor(completion)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}
