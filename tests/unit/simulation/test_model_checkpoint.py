# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The committed checkpoint of the tiny Kimi: its shards, its names, its declarations, its tokenizer."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import simulation.model.exam

CHECKPOINT = Path(simulation.model.exam.__file__).with_name("checkpoint")
BYTES = {"BF16": 2, "F32": 4}
Header = dict[str, dict[str, Any]]


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((CHECKPOINT / name).read_text(encoding="utf-8"))
    return content


def headers() -> dict[str, Header]:
    """The safetensors header of each shard."""
    found = {}
    for path in sorted(CHECKPOINT.glob("*.safetensors")):
        with path.open("rb") as shard:
            (length,) = struct.unpack("<Q", shard.read(8))
            header: Header = json.loads(shard.read(length))
        assert header.pop("__metadata__") == {"format": "pt"}
        end = max(tensor["data_offsets"][1] for tensor in header.values())
        assert path.stat().st_size == 8 + length + end, f"{path.name} is cut or padded"
        found[path.name] = header
    return found


def test_the_index_names_exactly_what_the_shards_hold() -> None:
    index = read("model.safetensors.index.json")
    held = {name: shard for shard, header in headers().items() for name in header}
    assert index["weight_map"] == held
    tensors = [tensor for header in headers().values() for tensor in header.values()]
    for tensor in tensors:
        begin, end = tensor["data_offsets"]
        assert end - begin == math.prod(tensor["shape"]) * BYTES[tensor["dtype"]]
    assert index["metadata"]["total_size"] == sum(t["data_offsets"][1] - t["data_offsets"][0] for t in tensors)


def test_shards_are_several_and_small() -> None:
    sizes = [path.stat().st_size for path in CHECKPOINT.glob("*.safetensors")]
    names = [path.name for path in sorted(CHECKPOINT.glob("*.safetensors"))]
    assert names == [f"model-{number:05}-of-{len(sizes):05}.safetensors" for number in range(1, len(sizes) + 1)]
    assert len(sizes) >= 4
    assert max(sizes) <= 1 << 20
    assert sum(path.stat().st_size for path in CHECKPOINT.iterdir()) < 5 << 20


def test_the_tensors_are_those_of_kimis_text_tower() -> None:
    text = read("config.json")["text_config"]
    shapes = {name: tensor["shape"] for header in headers().values() for name, tensor in header.items()}
    assert all(name.startswith("language_model.") for name in shapes)
    layers = range(text["num_hidden_layers"])
    latent = text["kv_lora_rank"] + text["qk_rope_head_dim"]
    hidden, experts = text["hidden_size"], text["n_routed_experts"]
    for layer in layers:
        prefix = f"language_model.model.layers.{layer}."
        assert shapes[prefix + "self_attn.kv_a_proj_with_mqa.weight"] == [latent, hidden]
        gates = [name for name in shapes if name.startswith(prefix + "mlp.experts.") and "gate_proj" in name]
        assert len(gates) == (experts if layer >= text["first_k_dense_replace"] else 0)
    for name in ("model.embed_tokens", "lm_head"):
        assert shapes[f"language_model.{name}.weight"] == [text["vocab_size"], hidden]


def test_the_config_has_kimis_shape() -> None:
    config = read("config.json")
    assert config["architectures"] == ["KimiK25ForConditionalGeneration"]
    assert config["model_type"] == "kimi_k25"
    text = config["text_config"]
    assert (text["kv_lora_rank"], text["qk_rope_head_dim"], text["max_position_embeddings"]) == (512, 64, 262144)
    assert config["vision_config"]["num_hidden_layers"] == 1
    assert read("preprocessor_config.json")["media_proc_cfg"]["patch_size"] == config["vision_config"]["patch_size"]
    assert read("generation_config.json")["eos_token_id"] == text["eos_token_id"]


def test_both_files_declare_an_fp8_kv_cache() -> None:
    declared = read("config.json")["quantization_config"]
    assert declared["kv_cache_scheme"] == {"dynamic": False, "num_bits": 8, "type": "float"}
    assert (declared["quant_method"], declared["quant_algo"], declared["ignore"]) == ("modelopt", "NVFP4", ["*"])
    legacy = read("hf_quant_config.json")
    assert legacy["producer"]["name"] == "modelopt"
    assert legacy["quantization"] == {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["*"],
    }


@pytest.mark.parametrize(
    ("token", "special"),
    [
        ("<|im_end|>", True),
        ("<|im_middle|>", True),
        ("<|media_pad|>", True),
        ("<think>", False),
        ("</think>", False),
        ("<|tool_calls_section_begin|>", False),
        ("<|tool_call_argument_begin|>", False),
    ],
)
def test_control_tokens_are_special_but_those_that_parsers_read_are_not(token: str, special: bool) -> None:
    added = {entry["content"]: entry for entry in read("tokenizer.json")["added_tokens"]}
    assert added[token]["special"] is special


def test_the_tokenizer_knows_every_byte_and_fits_the_model() -> None:
    tokenizer, config = read("tokenizer.json"), read("config.json")
    vocabulary = tokenizer["model"]["vocab"]
    ids = {entry["content"]: entry["id"] for entry in tokenizer["added_tokens"]}
    assert len({token for token in vocabulary if len(token) == 1}) == 256
    assert sorted({**vocabulary, **ids}.values()) == list(range(config["text_config"]["vocab_size"]))
    assert ids["<|im_end|>"] == config["eos_token_id"] == config["text_config"]["eos_token_id"]
    assert ids["<|media_pad|>"] == config["image_token_id"]
    assert read("tokenizer_config.json")["eos_token"] == "<|im_end|>"
