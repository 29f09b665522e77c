# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's command line, read for the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.budget import compute_budget
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.cards import Card
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.engine_arguments import (
    overridden,
    read_arguments,
    read_environment,
)
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.layer_specs import Parallel
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.release import parse_release
from ansible_collections.blackwell.serving.plugins.module_utils.kv_cache.request import BudgetRequest
from hypothesis import given
from hypothesis import strategies as st

Ask = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ([], {}),
        (["--max-num-seqs", "64"], {"max_num_seqs": 64}),
        (["--max_num_seqs=64"], {"max_num_seqs": 64}),
        (["--max-num-batched-tokens", "8k"], {"max_num_batched_tokens": 8000}),
        (["--max-num-batched-tokens", "8K"], {"max_num_batched_tokens": 8192}),
        (["--max-num-seqs", "64", "--max-num-seqs", "32"], {"max_num_seqs": 32}),
        (["-tp", "4", "-pp=2", "-dcp", "2"], {
            "tensor_parallel_size": 4, "pipeline_parallel_size": 2, "decode_context_parallel_size": 2,
        }),
        (["-ep", "--enforce-eager"], {"enable_expert_parallel": True, "enforce_eager": True}),
        (["--enforce-eager", "--no-enforce-eager"], {"enforce_eager": False}),
        (["--no-async-scheduling"], {"async_scheduling": False}),
        (["--no-enable-prefix-caching"], {"mamba_cache_mode": "none"}),
        (["--enable-prefix-caching"], {"mamba_cache_mode": "align"}),
        (["--mamba-cache-mode", "all", "--enable-prefix-caching"], {"mamba_cache_mode": "all"}),
        (["--mamba-cache-mode", "all", "--no-enable-prefix-caching"], {"mamba_cache_mode": "none"}),
        (["--gpu-memory-utilization", "0.95"], {"gpu_memory_utilization": 0.95}),
        (["--device-memory-utilization=0.8"], {"gpu_memory_utilization": 0.8}),
        (["--kv-cache-dtype", "fp8", "--attention-backend", "TRITON_MLA"], {
            "kv_cache_dtype": "fp8", "attention_backend": "TRITON_MLA",
        }),
        (["--kv-cache-memory-bytes", "10G"], {"available_kv_cache_bytes": 10 << 30}),
        (["--max-model-len", "-1"], {"max_model_len": "-1"}),
        (["--max-model-len", "128K"], {"max_model_len": "128K"}),
        (["-sc", '{"method": "mtp", "num_speculative_tokens": 3}'], {
            "speculative_config": {"method": "mtp", "num_speculative_tokens": 3},
        }),
        (["--speculative-config.method", "mtp", "--spec-tokens=2"], {
            "speculative_config": {"method": "mtp", "num_speculative_tokens": 2},
        }),
        (["--hf-overrides", '{"max_position_embeddings": 65536}'], {
            "hf_overrides": {"max_position_embeddings": 65536},
        }),
        (["--hf-overrides.text_config.num_hidden_layers", "5", "--hf-overrides.a=[1]"], {
            "hf_overrides": {"text_config": {"num_hidden_layers": 5}, "a": [1]},
        }),
        (["--max-model", "8K", "--gpu-memory-util=0.9", "--no-enforce"], {
            "max_model_len": "8K", "gpu_memory_utilization": 0.9, "enforce_eager": False,
        }),
        (["--max", "8"], {}),  # of several, which the engine refuses
        (["--attention-config", '{"backend": "FLASHMLA"}'], {"attention_backend": "FLASHMLA"}),
        (["-ac.backend", "FLASHMLA"], {"attention_backend": "FLASHMLA"}),
        (["--attention-config.flash_attn_version=2"], {}),
        (["--dtype", "half", "--hf-overrides.a=1"], {"hf_overrides": {"a": 1, "dtype": "float16"}}),
        (["--dtype", "auto"], {}),
        (["--mamba_ssm_cache_dtype", "float32", "--mamba-cache-dtype=bfloat16"], {
            "mamba_ssm_cache_dtype": "float32", "mamba_cache_dtype": "bfloat16",
        }),
        (["--kv-cache-dtype-skip-layers", "0", "1", "--seed", "2"], {"kv_cache_dtype_skip_layers": ["0", "1"]}),
        (["--kv_cache_dtype_skip_layers=3"], {"kv_cache_dtype_skip_layers": ["3"]}),
        (["--seed", "0", "--trust-remote-code", "--chat-template", "--max-num-seqs"], {}),
    ],
)  # fmt: skip
def test_what_the_arguments_say(arguments: list[str], read: dict[str, Any]) -> None:
    if arguments[-1:] == ["--max-num-seqs"]:
        with pytest.raises(ServingError, match="--max-num-seqs"):
            read_arguments(arguments)
    else:
        assert read_arguments(arguments) == read


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--max-num-seqs", "many"], "--max-num-seqs"),
        (["--max-num-seqs", "--enforce-eager"], "--max-num-seqs"),
        (["--max-num-seqs"], "--max-num-seqs"),
        (["--gpu-memory-utilization", "high"], "--gpu-memory-utilization"),
        (["--speculative-config", "{"], "--speculative-config"),
        (["--speculative-config", "[]"], "--speculative-config"),
        (["-tp", "1.5"], "--tensor-parallel-size"),
        (["--dtype", "float32"], "--dtype"),
        (["--mamba-ssm-cache-dtype", "fp8"], "--mamba-ssm-cache-dtype"),
        (["--max-num-s", "many"], "--max-num-seqs"),
        (["--num-gpu-blocks-override", "100"], "--num-gpu-blocks-override"),
    ],
)
def test_what_cannot_be_read_is_named(arguments: list[str], named: str) -> None:
    with pytest.raises(ServingError) as caught:
        read_arguments(arguments)
    assert named in caught.value.what
    assert caught.value.where == "arguments"


@given(st.lists(st.text(max_size=12) | st.sampled_from(["--max-num-seqs", "-tp=", "--block-size=16", "-sc", "{}"])))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    try:
        assert isinstance(read_arguments(words), dict)
    except ServingError as error:
        assert error.where == "arguments"


def test_overrides_go_into_nested_objects() -> None:
    config = {"a": 1, "text_config": {"b": 2, "c": 3}}
    assert overridden(config, {"text_config": {"b": 5}, "d": {"e": 1}}) == {
        "a": 1,
        "text_config": {"b": 5, "c": 3},
        "d": {"e": 1},
    }
    assert config["text_config"] == {"b": 2, "c": 3}


@pytest.mark.parametrize(
    ("environment", "read"),
    [
        ({}, ((), None)),
        ({"VLLM_PP_LAYER_PARTITION": "31,30"}, ((31, 30), None)),
        ({"VLLM_PP_LAYER_PARTITION": ""}, ((), None)),
        ({"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}, ((), False)),
        ({"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": 1, "NCCL_PROTO": "LL"}, ((), True)),
    ],
)
def test_the_environment(environment: dict[str, Any], read: tuple[tuple[int, ...], bool | None]) -> None:
    assert read_environment(environment) == read


@pytest.mark.parametrize("written", ["31;30", "31,", "0,61", "-1,62", "a", "³,58"])
def test_a_partition_that_is_none(written: str) -> None:
    with pytest.raises(ServingError, match="VLLM_PP_LAYER_PARTITION"):
        read_environment({"VLLM_PP_LAYER_PARTITION": written})


def test_layers_spread_by_hand(kimi: dict[str, Any]) -> None:
    """61 layers on two stages: 30 and 31 by default; the stage with the most decides."""

    def per_token(partition: tuple[int, ...]) -> int:
        request = BudgetRequest(
            kimi,
            parse_release("0.33.0"),
            Parallel(1, 2, partition=partition),
            "bfloat16",
            available_kv_cache_bytes=10 << 30,
        )
        size: int = compute_budget(request)["kv_cache"]["bytes_per_block"]
        return size // 16

    assert per_token(()) == 31 * 1152
    assert per_token((41, 20)) == 41 * 1152
    for wrong in ((61,), (30, 30), (20, 20, 21)):
        with pytest.raises(ServingError, match="VLLM_PP_LAYER_PARTITION"):
            per_token(wrong)


@pytest.mark.parametrize(
    ("version", "asked", "subtracted"),
    [
        ("0.33.0", None, True),
        ("0.33.0", False, False),
        ("0.18.0", None, False),
        ("0.18.0", True, True),
        ("0.16.0", True, False),
    ],
)
def test_whether_graphs_are_subtracted(
    version: str, asked: bool | None, subtracted: bool, ask: Ask, kimi: dict[str, Any], eight_cards: list[Card]
) -> None:
    budget = ask(
        kimi, tp=8, version=version, kv_cache_dtype="bfloat16", cards=eight_cards, attention_backend="FLASH_ATTN_MLA",
        weights_bytes_per_gpu=60 << 30, estimates_cuda_graphs=asked,
    )  # fmt: skip
    assert (budget["memory"]["cuda_graphs"] > 0) is subtracted


def test_layers_that_keep_the_models_dtype(ask: Ask, published: Callable[[str], dict[str, Any]]) -> None:
    """Qwen3-8B: 36 layers of 8 key-value heads of 128; layers that are skipped have 16 bits."""
    common: dict[str, Any] = {"available_kv_cache_bytes": 10 << 30, "version": "0.33.0"}
    config = published("Qwen__Qwen3-8B")

    def per_token(skipped: list[str], dtype: str = "fp8") -> int:
        budget = ask(config, kv_cache_dtype=dtype, kv_cache_dtype_skip_layers=skipped, **common)
        size: int = budget["kv_cache"]["bytes_per_token_per_gpu"]
        return size

    assert per_token([]) == 36 * 2 * 8 * 128
    assert per_token(["0", "1", "99"]) == (34 + 2 * 2) * 2 * 8 * 128
    assert per_token(["0"], "bfloat16") == 36 * 2 * 8 * 128 * 2
    for name, skipped in (("Qwen__Qwen3-8B", ["sliding_window"]), ("google__gemma-3-27b-it", ["0"])):
        with pytest.raises(ServingError, match="several dtypes"):
            ask(published(name), kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=skipped, **common)
