# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model's side of Kimi's markup; the client's side is chat_template.jinja."""

from __future__ import annotations

import json

from .conversations import Conversation


def completion_text(conversation: Conversation) -> str:
    """What the model has to write after the prompt, up to and including the end of its turn."""
    answer = conversation.answer
    parts = [answer["reasoning_content"], "</think>"] if conversation.thinking else []
    parts.append(answer["content"])
    if calls := answer.get("tool_calls"):
        parts.append("<|tool_calls_section_begin|>")
        for call in calls:
            arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
            parts += ["<|tool_call_begin|>", call["id"], "<|tool_call_argument_begin|>", arguments, "<|tool_call_end|>"]
        parts.append("<|tool_calls_section_end|>")
    return "".join([*parts, "<|im_end|>"])
