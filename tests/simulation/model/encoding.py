# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations as text and as token ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from transformers import PreTrainedTokenizerBase

from .conversations import BORDER, Conversation
from .markup import completion_text


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
    return [text.replace(BORDER, "") for text in texts]


def encode(tokenizer: PreTrainedTokenizerBase, conversation: Conversation) -> tuple[list[int], list[int]]:
    """Token ids of the prompt and of the completion, encoded apart as the engine sees them."""
    pieces = prompt_text(tokenizer, conversation).split(BORDER)
    prompt = [token for piece in pieces for token in tokenizer.encode(piece, add_special_tokens=False)]
    completion = tokenizer.encode(completion_text(conversation), add_special_tokens=False)
    return prompt, completion
