# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Markup that a parser or the tokenizer must have consumed before a client sees the text."""

from __future__ import annotations

import re

_MARKUP = re.compile(
    r"</?think>"  # Kimi, DeepSeek, Qwen
    r"|◁/?think▷"  # Kimi-VL
    r"|<\|"  # Kimi, Qwen, Llama 3, GLM, gpt-oss: <|im_end|>, <|tool_call_begin|>, <|eot_id|>
    r"|<\uff5c"  # DeepSeek, with a full-width bar
    r"|</?tool_calls?>"  # Hermes, Qwen
    r"|\[(?:TOOL_CALLS|/?INST|BOS|EOS|PAD)\]"  # Mistral, Kimi
    r"|</?s>|<(?:unk|pad|bos|eos|start_of_turn|end_of_turn)>"  # sentencepiece, Gemma
)
_THINK = re.compile(r"think[>▷]$")


def leaked(text: str) -> str | None:
    """The first piece of such markup in the text, or None."""
    found = _MARKUP.search(text)
    return found[0] if found else None


def is_think_tag(markup: str) -> bool:
    """Whether it is what a reasoning parser consumes; everything else is for the tool parser or the tokenizer."""
    return _THINK.search(markup) is not None
