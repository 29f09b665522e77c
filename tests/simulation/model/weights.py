# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trained weights as a checkpoint stores them: Kimi's names, bfloat16, small shards with an index."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

PREFIX = "language_model."  # the text tower of KimiK25ForConditionalGeneration
INDEX = "model.safetensors.index.json"
SHARD_BYTES = 1_000_000


def stored_tensors(model: DeepseekV3ForCausalLM) -> dict[str, torch.Tensor]:
    """The model's tensors under the names of the published format, where each expert has its own three matrices."""
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        if name.endswith("e_score_correction_bias"):
            tensors[PREFIX + name] = tensor.float()
            continue
        tensor = tensor.to(torch.bfloat16)
        stem, _, last = name.rpartition(".")
        if last == "gate_up_proj":
            for number, both in enumerate(tensor):
                gate, up = both.chunk(2)
                tensors[f"{PREFIX}{stem}.{number}.gate_proj.weight"] = gate
                tensors[f"{PREFIX}{stem}.{number}.up_proj.weight"] = up
        elif last == "down_proj":
            for number, down in enumerate(tensor):
                tensors[f"{PREFIX}{stem}.{number}.down_proj.weight"] = down
        else:
            tensors[PREFIX + name] = tensor
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def write_weights(model: DeepseekV3ForCausalLM, folder: Path) -> None:
    """Write the shards and their index into ``folder``."""
    shards: list[dict[str, torch.Tensor]] = [{}]
    for name, tensor in stored_tensors(model).items():
        if sum(other.nbytes for other in shards[-1].values()) + tensor.nbytes > SHARD_BYTES:
            shards.append({})
        shards[-1][name] = tensor
    weight_map = {}
    for number, tensors in enumerate(shards, start=1):
        shard = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(tensors, folder / shard, metadata={"format": "pt"})
        (folder / shard).chmod(0o644)
        weight_map.update(dict.fromkeys(tensors, shard))
    total = sum(tensor.nbytes for tensors in shards for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint, by their stored names."""
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    shards = sorted(set(index["weight_map"].values()))
    return {name: tensor for shard in shards for name, tensor in load_file(folder / shard).items()}


def read_model(folder: Path) -> DeepseekV3ForCausalLM:
    """The checkpoint's text model in bfloat16, put together again from its shards."""
    config = DeepseekV3Config(**json.loads((folder / "config.json").read_text(encoding="utf-8"))["text_config"])
    model = DeepseekV3ForCausalLM._from_config(config, dtype=torch.bfloat16, experts_implementation="eager")
    stored = {name.removeprefix(PREFIX): tensor for name, tensor in read_tensors(folder).items()}
    state = {}
    for name in model.state_dict():
        stem, _, last = name.rpartition(".")
        experts = [f"{stem}.{number}" for number in range(config.n_routed_experts)]
        if last == "gate_up_proj":
            pairs = [(stored[f"{expert}.gate_proj.weight"], stored[f"{expert}.up_proj.weight"]) for expert in experts]
            state[name] = torch.stack([torch.cat(pair) for pair in pairs])
        elif last == "down_proj":
            state[name] = torch.stack([stored[f"{expert}.down_proj.weight"] for expert in experts])
        else:
            state[name] = stored[name]
    model.load_state_dict(state)
    return model.eval()
