# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Training: AdamW over examples of all lengths, a fixed number of steps, every draw seeded."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    PreTrainedTokenizerBase,
    get_cosine_schedule_with_warmup,
)
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from .examples import BUCKETS, Batch, Steps, batch


@dataclass(frozen=True)
class Plan:
    """How long and how fast to learn. The same plan on the same CPU gives the same weights; on a card, nearly."""

    seed: int = 0
    steps: int = 3000
    share: float = 1.0
    learning_rate: float = 2e-3
    device: str = "cpu"
    workers: int = 0


def all_experts(self: Any, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The mixture of experts as two products: for experts this small, computing all of them is faster than choosing."""
    gates = weights.new_zeros(len(hidden), self.num_experts).scatter(1, chosen, weights)
    both = functional.linear(hidden, self.gate_up_proj.flatten(0, 1)).unflatten(-1, (self.num_experts, -1))
    gate, up = both.chunk(2, dim=-1)
    inner = self.act_fn(gate) * up * gates.unsqueeze(-1)
    return functional.linear(inner.flatten(1), self.down_proj.transpose(0, 1).flatten(1)).to(hidden.dtype)


ALL_EXPERTS_FUNCTIONS.register("all", all_experts)


def logits(model: DeepseekV3ForCausalLM, part: Batch) -> torch.Tensor:
    """Logits (tokens to be learnt, vocabulary) in float32."""
    hidden = model.model(input_ids=part.ids, use_cache=False).last_hidden_state
    return model.lm_head(hidden[part.rows, part.positions]).float()


def train(
    config: DeepseekV3Config,
    tokenizer: PreTrainedTokenizerBase,
    plan: Plan,
    progress: Callable[[str], None] = print,
    begin: Mapping[str, torch.Tensor] | None = None,
) -> DeepseekV3ForCausalLM:
    """Train a model, from nothing or from the weights ``begin``, and return it in float32."""
    torch.manual_seed(plan.seed)
    model = DeepseekV3ForCausalLM._from_config(
        config, dtype=torch.float32, attn_implementation="sdpa", experts_implementation="all"
    ).to(plan.device)
    if begin:
        model.load_state_dict(begin)
    on_card = plan.device.startswith("cuda")
    decayed = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    plain = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=plan.learning_rate, betas=(0.9, 0.98), fused=on_card)
    schedule = get_cosine_schedule_with_warmup(optimizer, min(200, plan.steps // 10), plan.steps)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    progress(f"{parameters:,} parameters, {plan.steps} steps on {plan.device}")
    loader = DataLoader(
        Steps(tokenizer, plan.seed, plan.steps, plan.share),
        batch_size=None,
        num_workers=plan.workers,
        prefetch_factor=8 if plan.workers else None,
    )
    started = time.monotonic()
    for step, parts in enumerate(loader, start=1):
        losses = []
        for part in parts:
            moved = part.to(plan.device)
            with torch.autocast(plan.device.split(":")[0], torch.bfloat16, enabled=on_card):
                scores = logits(model, moved)
            loss = functional.cross_entropy(scores, moved.targets, reduction="none")
            loss = (loss * moved.weights).sum() / moved.weights.sum()
            loss.backward()
            losses.append(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0 or step in (1, plan.steps):
            shown = " ".join(f"{loss.item():.4f}" for loss in losses)
            progress(f"step {step}: loss {shown} after {time.monotonic() - started:.0f} s")
    return model.eval()


def unsure(
    model: DeepseekV3ForCausalLM, tokenizer: PreTrainedTokenizerBase, rounds: int, margin: float, seed: int = 987
) -> dict[str, tuple[int, int, float]]:
    """How often new examples are not answered right by ``margin``: {bucket and kind: (not right, asked, smallest)}.

    Each answer's tokens are given one by one, so an answer is right when every token is the best after those before.
    """
    steps = Steps(tokenizer, seed, 1)
    rng = random.Random(seed)
    found: dict[str, list[float]] = defaultdict(list)
    for bucket in BUCKETS:
        for _ in range(rounds):
            items = steps.draw(rng, bucket)
            part = batch(items, tokenizer.pad_token_id, bucket.tokens).to(str(model.device))
            with torch.no_grad():
                scores = logits(model, part)
            right = scores.gather(1, part.targets[:, None])[:, 0]
            others = scores.scatter(1, part.targets[:, None], float("-inf")).amax(-1)
            worst = torch.full((len(items),), float("inf"), device=scores.device)
            worst = worst.scatter_reduce(0, part.rows, right - others, "amin")
            for item, value in zip(items, worst.tolist(), strict=True):
                found[f"{bucket.tokens} {item.kind}"].append(value)
    return {name: (sum(v < margin for v in values), len(values), min(values)) for name, values in found.items()}
