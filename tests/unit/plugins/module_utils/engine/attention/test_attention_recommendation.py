# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which KV-cache dtype is recommended, and the reasons that are given."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.answer import Answer
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.recommendation import (
    CheckpointCache,
    recommend,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.report import UNCALIBRATED, report
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.selector import Verdict
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelFit

FP8 = CheckpointCache("fp8_e4m3", "config.json#/quantization_config/kv_cache_scheme")
FITS, TOO_LARGE, OPEN = True, False, None


def answer(**selected: str | None) -> Answer:
    found = Answer("cuda", list(selected), selected=dict(selected))
    for dtype, name in selected.items():
        verdict = Verdict(True) if name else Verdict(False, ("kv_cache_dtype not supported",))
        found.backend(name or "TRITON_MLA").verdicts[dtype] = verdict
    return found


def kernel(dtype: str, fits: bool | None, backend: str = "TRITON_MLA") -> KernelFit:
    method = "unknown" if fits is None else "compiled"
    return KernelFit(dtype, backend, None, 101_376, fits, method, f"measured for {dtype}")  # type: ignore[arg-type]


def recommended(
    found: Answer, kernels: list[KernelFit], checkpoint: CheckpointCache = FP8, dtype: str = "bfloat16"
) -> Any:
    return recommend(found, kernels, checkpoint, dtype)


BOTH = {"bfloat16": "TRITON_MLA", "fp8_e4m3": "TRITON_MLA", "auto": "TRITON_MLA"}


@pytest.mark.parametrize(
    ("fits", "expected", "words"),
    [
        (FITS, "fp8_e4m3", "the checkpoint asks for it (config.json#/quantization_config/kv_cache_scheme)"),
        (TOO_LARGE, "bfloat16", "TRITON_MLA declares it, and its decode kernel does not fit the card"),
        (OPEN, "bfloat16", "whether the decode kernel of TRITON_MLA fits the card is not known"),
    ],
)
def test_a_kernel_compiled_at_run_time_has_to_fit(fits: bool | None, expected: str, words: str) -> None:
    found = recommended(answer(**BOTH), [kernel("fp8_e4m3", fits)])
    assert found.kv_cache_dtype == expected
    assert words in found.by


def test_kernels_that_were_not_looked_at_prove_nothing() -> None:
    found = recommended(answer(**BOTH), [])
    assert found.kv_cache_dtype == "bfloat16"
    assert "the kernels were not looked at" in found.by


def test_a_backend_with_kernels_of_its_own_needs_no_measurement() -> None:
    found = recommended(answer(bfloat16="FLASH_ATTN_MLA", fp8_e4m3="FLASHMLA"), [kernel("fp8_e4m3", OPEN, "FLASHMLA")])
    assert found.kv_cache_dtype == "fp8_e4m3"
    assert found.alternatives == []


def test_the_model_s_own_dtype_is_not_recommended_either_when_it_does_not_fit() -> None:
    found = recommended(answer(**BOTH), [kernel("fp8_e4m3", TOO_LARGE), kernel("bfloat16", TOO_LARGE)])
    assert found.kv_cache_dtype == "auto" or found.kv_cache_dtype is None
    assert [each["kv_cache_dtype"] for each in found.alternatives] == ["fp8_e4m3", "bfloat16"]


def test_a_checkpoint_that_asks_for_nothing_keeps_its_dtype() -> None:
    assert recommended(answer(**BOTH), [kernel("fp8_e4m3", FITS)], CheckpointCache("auto")).kv_cache_dtype == "bfloat16"
    assert recommended(answer(**BOTH), [], CheckpointCache(None)).kv_cache_dtype == "bfloat16"


def test_scales_without_a_declaration_are_used() -> None:
    found = recommended(answer(**BOTH), [kernel("fp8_e4m3", FITS)], CheckpointCache("auto", has_scales=True))
    assert found.kv_cache_dtype == "fp8_e4m3"
    assert "holds scales" in found.by


def test_a_four_bit_cache_that_a_backend_serves_comes_first() -> None:
    wide = answer(nvfp4="FLASHINFER", bfloat16="FLASHINFER")
    assert recommended(wide, [], CheckpointCache("nvfp4")).kv_cache_dtype == "nvfp4"
    refused = answer(nvfp4=None, bfloat16="FLASH_ATTN")
    assert recommended(refused, [], CheckpointCache("nvfp4")).kv_cache_dtype == "bfloat16"


def test_the_only_dtype_that_is_served_is_better_than_none() -> None:
    found = recommended(answer(bfloat16=None, fp8_ds_mla="FLASHINFER_MLA_SPARSE_SM120"), [], CheckpointCache("auto"))
    assert found.kv_cache_dtype == "fp8_ds_mla"
    assert "Not bfloat16: no attention backend serves it" in found.by


def test_a_model_s_dtype_without_a_name_is_auto() -> None:
    found = recommended(answer(auto="TRITON_MLA", fp8_e4m3=None), [], dtype="float16")
    assert found.kv_cache_dtype == "auto"
    assert "does not take by name" in found.by
    result = report(answer(auto="TRITON_MLA"), [], found, FP8)
    assert "auto would become fp8_e4m3: the files have to be patched" in result["notes"][0]


def test_it_may_be_open_which_of_two_backends_serves_the_dtype() -> None:
    found = answer(bfloat16=None)
    found.possible["bfloat16"] = ["FLASHINFER", "TRITON_ATTN"]
    assert recommended(found, []).by.startswith("bfloat16: the model's own dtype; FLASHINFER or TRITON_ATTN serves it.")
    found = answer(bfloat16="FLASHINFER", fp8_e4m3=None)
    found.possible["fp8_e4m3"] = ["FLASHINFER", "TRITON_ATTN"]
    assert recommended(found, []).kv_cache_dtype == "bfloat16"  # TRITON_ATTN's kernel is not proven
    assert "the decode kernel of TRITON_ATTN" in recommended(found, []).by


def test_nothing_served_is_nothing_recommended() -> None:
    found = recommended(answer(bfloat16=None, fp8_e4m3=None), [])
    assert found.kv_cache_dtype is None
    assert found.by.startswith("No KV-cache dtype can be recommended. Not fp8_e4m3: no attention backend serves it")


def test_a_dtype_that_does_not_fit_is_not_supported() -> None:
    kernels = [kernel("fp8_e4m3", TOO_LARGE), kernel("bfloat16", FITS), kernel("auto", OPEN)]
    found = answer(**BOTH)
    result = report(found, kernels, recommended(found, kernels), FP8)
    assert result["supported_kv_cache_dtypes"] == ["bfloat16", "auto"]
    assert result["selected"]["fp8_e4m3"] == "TRITON_MLA"
    assert result["kernels"][0]["fits"] is False


def test_notes_on_scales_and_on_a_checkpoint_that_wins_over_the_flag() -> None:
    bare = CheckpointCache("fp8_e4m3", "x", has_scales=False)
    found = answer(**BOTH)
    kernels = [kernel("fp8_e4m3", FITS)]
    assert UNCALIBRATED in report(found, kernels, recommended(found, kernels, bare), bare)["notes"]
    stubborn = CheckpointCache("fp8", "config.json#/quantization_config/kv_cache_scheme", overrides_flag=True)
    refused = answer(fp8=None, bfloat16="FLASH_ATTN")
    notes = report(refused, [], recommended(refused, [], stubborn), stubborn)["notes"]
    assert "wins over --kv-cache-dtype bfloat16 in this release: the files have to be patched" in notes[0]
