# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training on a CPU: AdamW over an endless stream of conversations, a fixed number of steps, every draw seeded."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    PreTrainedTokenizerBase,
    get_cosine_schedule_with_warmup,
)

from .conversations import conversations
from .encoding import batches


@dataclass(frozen=True)
class Plan:
    """How long and how fast to learn; the same plan and seed on the same CPU give the same weights."""

    seed: int = 0
    steps: int = 800
    tokens_per_step: int = 2560
    learning_rate: float = 2e-3
    threads: int = 2


def train(
    config: DeepseekV3Config,
    tokenizer: PreTrainedTokenizerBase,
    plan: Plan,
    progress: Callable[[str], None] = print,
) -> DeepseekV3ForCausalLM:
    """Train a model from nothing and return it in float32."""
    torch.manual_seed(plan.seed)
    torch.set_num_threads(plan.threads)
    model = DeepseekV3ForCausalLM._from_config(
        config, dtype=torch.float32, attn_implementation="sdpa", experts_implementation="eager"
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, plan.steps // 10, plan.steps)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    progress(f"{parameters:,} parameters, {plan.steps} steps of {plan.tokens_per_step} tokens")
    stream = batches(tokenizer, conversations(plan.seed), random.Random(plan.seed), plan.tokens_per_step)
    started = time.monotonic()
    for step in range(1, plan.steps + 1):
        loss = model(**next(stream)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0 or step == plan.steps:
            progress(f"step {step}: loss {loss.item():.4f} after {time.monotonic() - started:.0f} s")
    return model.eval()
