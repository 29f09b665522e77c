# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiny Kimi's tokenizer: byte-level BPE with Kimi's control tokens.

Byte-level, so that any text a client sends can be encoded; a few hundred merges learnt from the training
conversations, so that their answers stay short. Kimi marks the tokens of reasoning and tool calls as *not*
special: the engine's parsers must see them in the decoded text.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = (
    "[BOS]",
    "[EOS]",
    "[PAD]",
    "<|im_end|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_system|>",
    "<|im_middle|>",
    "<|media_begin|>",
    "<|media_content|>",
    "<|media_end|>",
    "<|media_pad|>",
)
MARKUP_TOKENS = (
    "<think>",
    "</think>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
VOCAB_SIZE = 1024
CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja")


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learn the merges from ``texts`` and return the tokenizer, chat template included."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(MARKUP_TOKENS),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(sorted(texts), trainer)
    bpe.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKUP_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="[BOS]",
        eos_token="<|im_end|>",
        pad_token="[PAD]",
        chat_template=CHAT_TEMPLATE.read_text(encoding="utf-8"),
        clean_up_tokenization_spaces=False,
    )
