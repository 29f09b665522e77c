# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking a checkpoint with transformers: the greedy answer, read as the engine's parsers read it, and its margin."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import DeepseekV3ForCausalLM, PreTrainedTokenizerFast

from .exam import Case, cases
from .trials import trials
from .weights import read_model

CALL = re.compile(
    r"<\|tool_call_begin\|>(functions\.(\w+):\d+)<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end\|>", re.DOTALL
)
MIN_MARGIN = 1.0  # less could turn into another token by the rounding of other batch shapes and other kernels
SECTION = re.compile(r"<\|tool_calls_section_begin\|>.*<\|tool_calls_section_end\|>", re.DOTALL)


@dataclass(frozen=True)
class Answer:
    """``margin`` is the smallest distance between the logits of a token written and of the next best one."""

    reasoning: str
    content: str
    calls: list[dict[str, Any]]
    margin: float


def read_checkpoint(folder: Path) -> tuple[DeepseekV3ForCausalLM, PreTrainedTokenizerFast]:
    return read_model(folder), PreTrainedTokenizerFast.from_pretrained(folder)


def ask(model: DeepseekV3ForCausalLM, tokenizer: PreTrainedTokenizerFast, case: Case) -> Answer:
    """The answer at temperature 0."""
    prompt = tokenizer.apply_chat_template(
        list(case.messages),
        tools=list(case.tools) or None,
        add_generation_prompt=True,
        tokenize=False,
        thinking=case.thinking,
    )
    ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)], device=model.device)
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=case.max_tokens,
        do_sample=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        return_dict_in_generate=True,
        output_logits=True,
    )
    best, second = torch.cat(out.logits).float().topk(2).values.unbind(-1)
    text = tokenizer.decode(out.sequences[0, ids.shape[1] :]).removesuffix(tokenizer.eos_token)
    reasoning, content = text.split("</think>", 1) if case.thinking and "</think>" in text else ("", text)
    calls = [{"id": id_, "name": name, "arguments": json.loads(args)} for id_, name, args in CALL.findall(content)]
    return Answer(reasoning, SECTION.sub("", content), calls, float((best - second).min()))


def examine(folder: Path, asked: Iterable[Case], device: str = "cpu") -> Iterator[dict[str, Any]]:
    """Ask the checkpoint in ``folder`` some cases: {name, thinking, right, margin, reasoning, content, calls}."""
    model, tokenizer = read_checkpoint(folder)
    model = model.to(device)
    for case in asked:
        answer = ask(model, tokenizer, case)
        right = case.is_right(answer.content, answer.calls) and bool(answer.reasoning) == case.thinking
        verdict = {"name": case.name, "thinking": case.thinking, "right": right and answer.margin >= MIN_MARGIN}
        yield {**verdict, **asdict(answer), "margin": round(answer.margin, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkpoint")
    parser.add_argument("--trials", type=int, help="seed of random prompts to ask instead of the exam")
    parser.add_argument("--device", default="cpu", help="torch's name of a device")
    arguments = parser.parse_args()
    asked = cases() if arguments.trials is None else trials(arguments.trials)
    right = True
    for result in examine(arguments.folder, asked, arguments.device):
        print(json.dumps(result, ensure_ascii=False), flush=True)
        right = right and result["right"]
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
