# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.blackwell.serving.plugins.module_utils.engine import redact


def test_command_hides_values_of_secret_flags_only() -> None:
    shown = redact.command(
        ["python", "-m", "vllm", "--api-key", "sk-one", "two", "--port", "8000", "--hf-token=hf_x", "--tokenizer", "/m"]
    )
    assert shown == [
        *("python", "-m", "vllm", "--api-key", redact.HIDDEN, redact.HIDDEN, "--port", "8000"),
        *(f"--hf-token={redact.HIDDEN}", "--tokenizer", "/m"),
    ]


def test_environment_keeps_the_engines_settings_without_secrets() -> None:
    given = {
        "VLLM_API_KEY": "sk-test-AAAABBBBCCCC",
        "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE": "4096",
        "NCCL_PROTO": "LL",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "HF_TOKEN": "hf_testtesttest",
        "PATH": "/bin",
    }
    assert redact.environment(given) == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_PROTO": "LL",
        "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE": "4096",
    }


def test_text_hides_keys_wherever_vllm_prints_them() -> None:
    line = "args: {'port': 8100, 'api_key': ['sk-test-AAAABBBBCCCC'], 'model': '/m'}, Bearer abc hf_testtesttest"
    shown = redact.text(line)
    assert "AAAABBBB" not in shown
    assert "abc" not in shown
    assert "testtest" not in shown
    assert "'port': 8100" in shown
    assert "'model': '/m'" in shown
