# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an installed vLLM makes of `--kv-cache-dtype auto`, against what the collection says it does.

Needs SERVING_ENGINE_PYTHON, the python of a virtual environment with vLLM; no GPU.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import Contents, interpret
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.edits import model_dtype_edits
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.json_document import parse_object
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.quantization import effective_block
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for

PYTHON = os.environ.get("SERVING_ENGINE_PYTHON")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PYTHON is None, reason="SERVING_ENGINE_PYTHON names no engine"),
]

# Reads folder names, answers with the release and one line per folder: the dtype, or the error that vLLM ends with.
ASK = """
import json, os, sys
from types import SimpleNamespace
answer = os.dup(1)
os.dup2(2, 1)
import vllm, vllm.config
from vllm.transformers_utils.config import get_config, get_hf_text_config
from vllm.transformers_utils.model_arch_config_convertor import ModelArchConfigConvertorBase
from vllm.utils.torch_utils import resolve_kv_cache_dtype_string

def resolve(folder):
    try:
        config = get_config(folder, trust_remote_code=False)
        ModelArchConfigConvertorBase(config, get_hf_text_config(config)).get_quantization_config()
        return resolve_kv_cache_dtype_string("auto", SimpleNamespace(hf_config=config))
    except Exception as error:
        return f"{type(error).__name__}: {error}"

os.write(answer, json.dumps([vllm.__version__, [resolve(folder) for folder in json.load(sys.stdin)]]).encode())
"""

BASES: tuple[dict[str, Any], ...] = (
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "hidden_size": 64,
    },
    {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "hidden_size": 64,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    },
)
STATIC_FP8 = {"dynamic": False, "num_bits": 8, "type": "float"}
SCHEMES: tuple[Any, ...] = (
    STATIC_FP8,
    {**STATIC_FP8, "dynamic": True},
    {"num_bits": 8, "type": "float"},
    {**STATIC_FP8, "num_bits": 4},
    {**STATIC_FP8, "type": "int"},
    *("FP8", "fp8", "NVFP4", "auto", "None", "INT8", "fp8_e4m3", "", None, {}),
)
METHODS = ("modelopt", "modelopt_fp4", "ModelOpt", "compressed-tensors", "compressed_tensors", "fp8", "quark", None)
KEYS = ("kv_cache_scheme", "kv_cache_quant_algo")


def shapes() -> Iterator[Contents]:
    """Quantization blocks in every form and place that published checkpoints use, and some that none should."""
    for base, scheme, key in itertools.product(BASES, SCHEMES, KEYS):
        for method in METHODS:
            block = {"quant_algo": "NVFP4", key: scheme, "ignore": []} | ({"quant_method": method} if method else {})
            yield {"config.json": {**base, "quantization_config": block}}
        for producer, algo in itertools.product(("modelopt", "other", None), ("NVFP4", "FP8", "MIXED_PRECISION", None)):
            inner: dict[str, Any] = {
                "quant_algo": algo,
                "kv_cache_quant_algo": None,
                "group_size": 16,
                "exclude_modules": [],
            }
            legacy: dict[str, Any] = {"quantization": {**inner, key: scheme}}
            legacy |= {"producer": {"name": producer}} if producer else {}
            yield {"config.json": base, "hf_quant_config.json": legacy}
            yield {"config.json": {**base, "quantization_config": None}, "hf_quant_config.json": legacy}
        own = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
        yield {"config.json": {**base, "quantization_config": own}, "hf_quant_config.json": legacy}
        marked = {"quantization": {"quant_algo": "FP8", "modelopt_quant_config": {}, key: scheme}}
        yield {"config.json": base, "hf_quant_config.json": marked}
        outer = {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}, key: scheme}
        yield {"config.json": base, "hf_quant_config.json": outer}


def ask(folder: Path, checkpoints: list[Contents]) -> tuple[str, list[str]]:
    """The engine's release, and its answer for each checkpoint."""
    assert PYTHON is not None
    folders = []
    for number, contents in enumerate(checkpoints):
        path = folder / str(number)
        path.mkdir()
        for name, value in contents.items():
            (path / name).write_text(json.dumps(value))
        folders.append(str(path))
    done = subprocess.run(
        [PYTHON, "-c", ASK],
        input=json.dumps(folders),
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
    )
    version, answers = json.loads(done.stdout)
    return version, answers


def edited(contents: Contents, version: str) -> dict[str, Mapping[str, Any]]:
    edits = model_dtype_edits(contents, rules_for(version))
    result: dict[str, Mapping[str, Any]] = {}
    for name, value in contents.items():
        document = parse_object(json.dumps(value).encode(), name)
        for edit in edits.get(name, []):
            document = document.replaced(edit.pointer, edit.after)
        result[name] = document.value
    return result


def test_the_engine_resolves_as_the_collection_says_before_and_after_the_edits(tmp_path: Path) -> None:
    checkpoints = list(shapes())
    (tmp_path / "published").mkdir()
    (tmp_path / "edited").mkdir()
    version, answers = ask(tmp_path / "published", checkpoints)
    rules = rules_for(version)
    different = []
    for contents, answer in zip(checkpoints, answers, strict=True):
        quantization = interpret(contents, rules)
        block = effective_block(quantization.blocks)
        if block is not None and block.refused_algo(rules) is not None:
            expected = f"ValueError: Unknown ModelOpt quant algo: {block.refused_algo(rules)}"
        else:
            # A compressed-tensors scheme acts after this point, when the attention layers are built.
            expected = "auto" if quantization.resolution.by_layer else quantization.resolution.dtype
        if answer != expected:
            different.append((contents, answer, expected))
    assert different == []

    loadable = [item for item, answer in zip(checkpoints, answers, strict=True) if ":" not in answer]
    _, after = ask(tmp_path / "edited", [edited(contents, version) for contents in loadable])
    assert set(after) == {"auto"}
    print(f"\nvLLM {version}: {len(checkpoints)} checkpoints resolved alike, {len(loadable)} of them also when edited")
