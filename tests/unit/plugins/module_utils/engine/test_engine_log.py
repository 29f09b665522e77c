# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.log_facts import LogFacts, read_facts
from ansible_collections.blackwell.serving.plugins.module_utils.engine.log_lines import parse, split
from hypothesis import given
from hypothesis import strategies as st

LOGS = Path(__file__).parents[3] / "data" / "engine_logs"
GIB = 1 << 30


def facts(text: str) -> LogFacts:
    return read_facts(split(text))


def test_line_is_taken_apart() -> None:
    line = parse("(EngineCore pid=1854) INFO 11-29 15:54:23 [gpu_worker.py:508] Available KV cache memory: 125.19 GiB")
    assert (line.process, line.pid, line.level) == ("EngineCore", 1854, "INFO")
    assert line.text == "Available KV cache memory: 125.19 GiB"


def test_indentation_of_a_traceback_is_kept_and_colour_is_not() -> None:
    line = parse('\x1b[0;36m(Worker_TP3 pid=7)\x1b[0;0m ERROR 11-29 15:54:23 [core.py:1] \x1b[1m  File "x.py", line 1')
    assert (line.process, line.level, line.text) == ("Worker_TP3", "ERROR", '  File "x.py", line 1')


@given(st.text())
def test_any_text_can_be_split_and_every_word_survives(text: str) -> None:
    lines = split(text)
    assert all(line.text.strip() and "\n" not in line.text and "\r" not in line.text for line in lines)
    if "\x1b" not in text and "(" not in text and "[" not in text:
        assert "".join(text.split()) == "".join("".join(line.text.split()) for line in lines)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_understood(end: str) -> None:
    text = end.join(
        ["Starting to load model /m...", "Loading safetensors checkpoint shards:  48% Completed | 57/119 [00:19<"]
    )
    found = facts(text)
    assert found.stage == "loading_weights"
    assert found.progress == {"what": "Loading safetensors checkpoint shards", "done": 57, "total": 119, "percent": 48}


def test_progress_of_graph_capture_and_its_end_with_the_stage() -> None:
    capture = "Capturing CUDA graphs (decode, FULL):  20%|██        | 10/51 [00:02<00:08,  4.9it/s]"
    assert facts(capture).stage == "capturing_graphs"
    assert facts(capture).progress == {
        "what": "Capturing CUDA graphs (decode, FULL)",
        "done": 10,
        "total": 51,
        "percent": 20,
    }
    assert facts(capture + "\nINFO:     Application startup complete.").progress is None
    loaded = "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:01<00:00]\n"
    assert facts(loaded + "Model loading took 0.04 GiB memory and 0.37 seconds").progress is None


@pytest.mark.parametrize(
    ("log", "tokens", "concurrency", "available", "weights", "graphs", "backend"),
    [
        ("tiny_TRITON_MLA", 58_343_792, 7122.04, 125.19, 0.04, 0.20, "TRITON_MLA"),
        ("h8_131072", 35_716_928, 272.50, 114.96, 8.76, 2.23, "TRITON_MLA"),
        ("big_fp8", 13_681_152, 52.19, 22.02, 68.93, 33.37, "TRITON_MLA"),
        ("fa3_heads", 1_041_664, 127.16, 5.59, 0.07, 11.48, "TRITON_MLA"),
        ("big_eager", 16_246_464, 61.98, 52.29, 68.93, None, "FLASH_ATTN_MLA"),
    ],
)
def test_real_logs(
    log: str, tokens: int, concurrency: float, available: float, weights: float, graphs: float | None, backend: str
) -> None:
    found = facts((LOGS / f"{log}.log").read_text())
    assert found.stage == "listening"
    assert found.kv_cache["tokens"] == tokens
    assert found.kv_cache["concurrency"] == concurrency
    assert found.kv_cache["inconsistent"] is False
    assert found.kv_cache["available_bytes"] == round(available * GIB)
    assert found.kv_cache["weights_bytes"] == round(weights * GIB)
    assert found.kv_cache["cuda_graph_bytes"] == (None if graphs is None else round(graphs * GIB))
    assert (found.attention_backend, found.moe_backend, found.release) == (backend, "TRITON", "0.24.0")


def test_real_log_of_the_cpu_backend() -> None:
    found = facts((LOGS / "cpu_tiny.log").read_text())
    assert (found.stage, found.release) == ("listening", "0.32.0")
    assert (found.attention_backend, found.moe_backend) == ("CPU_MLA", "CPU")
    assert found.kv_cache["tokens"] == 466_032
    assert found.kv_cache["concurrency"] == 113.78
    assert found.kv_cache["available_bytes"] == GIB
    assert found.kv_cache["weights_bytes"] is None


def test_refused_start_ends_before_the_cache_is_sized() -> None:
    found = facts((LOGS / "big_toolong.log").read_text())
    assert found.stage == "compiling"
    assert found.kv_cache["tokens"] is None
    assert found.kv_cache["available_bytes"] == round(0.47 * GIB)


ONE_LINE = (
    "INFO [kv_cache_utils.py:2328] GPU KV cache size: 190,000 tokens, "
    "Maximum concurrency for 131,072 tokens per request: 1.45x"
)
TWO_LINES = (
    "INFO [kv_cache_utils.py:1229] GPU KV cache size: 190,000 tokens\n"
    "INFO [kv_cache_utils.py:1234] Maximum concurrency for 131,072 tokens per request: 1.45x"
)


@pytest.mark.parametrize(
    "text", [ONE_LINE, TWO_LINES, ONE_LINE.replace("GPU", "CPU"), ONE_LINE.replace("GPU", "GPU + host")]
)
def test_both_forms_of_the_token_line(text: str) -> None:
    cache = facts(text).kv_cache
    assert (cache["tokens"], cache["max_model_len"], cache["concurrency"]) == (190_000, 131_072, 1.45)
    assert cache["inconsistent"] is False


def test_hybrid_model_contradicts_itself_and_the_last_line_counts() -> None:
    hybrid = "GPU KV cache size: 80,000 tokens\nMaximum concurrency for 120,000 tokens per request: 2.60x"
    cache = facts(f"{ONE_LINE}\n{hybrid}").kv_cache
    assert (cache["tokens"], cache["concurrency"], cache["inconsistent"]) == (80_000, 2.6, True)


def test_nothing_printed_is_unknown() -> None:
    found = facts("")
    assert found.stage == "starting"
    assert set(found.kv_cache.values()) == {None, False}


def test_smallest_worker_binds() -> None:
    text = "\n".join(
        f"(Worker_TP{rank} pid={rank + 10}) INFO 11-29 15:54:23 [gpu_worker.py:508] {line}"
        for rank, line in enumerate(
            [
                "Available KV cache memory: 11.70 GiB",
                "Available KV cache memory: 11.65 GiB",
                "Model loading took 70.81 GiB",
            ]
        )
    )
    cache = facts(text).kv_cache
    assert cache["available_bytes"] == round(11.65 * GIB)
    assert cache["weights_bytes"] == round(70.81 * GIB)


@pytest.mark.parametrize(
    ("line", "attention", "moe", "linear"),
    [
        ("Using AttentionBackendEnum.TRITON_MLA backend.", "TRITON_MLA", None, None),
        ("Using CPU_MLA backend.", "CPU_MLA", None, None),
        ("Using FLASHINFER attention backend out of potential backends: ['FLASHINFER'].", "FLASHINFER", None, None),
        ("Using FLASH_ATTN MLA prefill backend.", None, None, None),
        (
            "Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of potential backends: ['MARLIN'].",
            None,
            "FLASHINFER_CUTLASS",
            None,
        ),
        ("Using FlashInfer TRTLLM Unquantized MoE backend out of potential", None, "FlashInfer TRTLLM", None),
        ("Using MoEPrepareAndFinalizeNoDPEPModular", None, None, None),
        ("Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM", None, None, "FlashInferCutlassNvFp4LinearKernel"),
    ],
)
def test_backends(line: str, attention: str | None, moe: str | None, linear: str | None) -> None:
    found = facts(f"(EngineCore pid=1) INFO 11-29 15:53:40 [x.py:1] {line}")
    assert (found.attention_backend, found.moe_backend, found.linear_backend) == (attention, moe, linear)
