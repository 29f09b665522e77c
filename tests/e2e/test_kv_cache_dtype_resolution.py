# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an installed vLLM makes of `--kv-cache-dtype auto`, against what the collection says it does.

Needs SERVING_ENGINE_PYTHON, the python of a virtual environment with vLLM; no GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import Contents, interpret
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.quantization import effective_block
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import rules_for
from e2e.kv_dtype_shapes import edited, modelopt_shapes, write

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


def ask(folder: Path, checkpoints: list[Contents]) -> tuple[str, list[str]]:
    """The engine's release, and its answer for each checkpoint."""
    assert PYTHON is not None
    folders = [str(write(folder / str(number), contents)) for number, contents in enumerate(checkpoints)]
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


def test_the_engine_resolves_as_the_collection_says_before_and_after_the_edits(tmp_path: Path) -> None:
    checkpoints = list(modelopt_shapes())
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
    _, after = ask(tmp_path / "edited", [edited(contents, rules_for(version)) for contents in loadable])
    assert set(after) == {"auto"}
    print(f"\nvLLM {version}: {len(checkpoints)} checkpoints resolved alike, {len(loadable)} of them also when edited")
