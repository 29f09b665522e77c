# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that was measured before is known by its hash, for exactly what was measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels import known
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.limits import target_of
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelFit
from simulation.decode_kernels import KERNEL_FILE, KERNELS, SHAPE, Processes

Ask = Callable[..., list[KernelFit]]
MLA = {"is_mla": True}
BEFORE_0_33, FROM_0_33 = sorted(known.FILES, key=lambda sha256: known.FILES[sha256].releases)[-2:]


LAUNCHED = json.loads((Path(__file__).resolve().parents[4] / "data/kernels/h200_launches.json").read_text())


@pytest.mark.parametrize("launch", LAUNCHED["launches"], ids=lambda each: f"{each['vllm']} {each['kv_cache_dtype']}")
def test_the_table_is_what_a_real_card_launched(launch: dict[str, Any]) -> None:
    """But for FP8 in a release whose backend refuses it, which is in no row."""
    target = target_of(LAUNCHED["compute_capability"])
    assert target.limit_bytes == LAUNCHED["limit_bytes"]
    shape = replace(SHAPE, num_attention_heads_per_rank=launch["num_attention_heads_per_rank"])
    literals = known.FILES[launch["sha256"]].literals
    row = known.lookup(launch["sha256"], literals, shape, launch["kv_cache_dtype"], target)
    if launch["vllm"] == "0.16.0" and launch["kv_cache_dtype"] == "float8_e4m3fn":
        assert row is None
    else:
        assert row is not None
        assert [each.shared_memory_bytes for each in row.measured.launches] == [launch["shared_memory_bytes"]]


@pytest.fixture
def measured_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The miniature stands in the table, with the figures of 0.33."""
    digest = hashlib.sha256(KERNELS.encode()).hexdigest()
    monkeypatch.setitem(known.FILES, digest, known.FILES[FROM_0_33])


@pytest.mark.usefixtures("measured_before")
def test_without_triton_the_known_file_is_judged(ask: Ask, processes: Processes) -> None:
    bfloat16, fp8 = ask(python=None)
    assert (bfloat16.shared_memory_bytes, bfloat16.fits, bfloat16.method) == (63_488, True, "known")
    assert (fp8.shared_memory_bytes, fp8.fits, fp8.method) == (102_400, False, "known")
    assert fp8.reason.endswith(
        "1,024 more than the 101,376 of compute capability 12.0 (no interpreter of the engine was named; "
        "measured before, with triton 3.7.1 on the same file of vLLM 0.33)"
    )
    assert [each.fits for each in ask("9.0", python=None)] == [True, True]
    assert processes.commands == []


@pytest.mark.usefixtures("measured_before")
def test_an_edited_file_is_not_known(ask: Ask, site_packages: Path) -> None:
    file = site_packages / KERNEL_FILE
    file.write_text(file.read_text() + "\n")
    assert {(each.method, each.fits) for each in ask(python=None)} == {("unknown", None)}


@pytest.mark.usefixtures("measured_before")
def test_a_failed_compilation_is_unknown_though_the_file_is_known(ask: Ask) -> None:
    fits = ask(
        run=lambda arguments: (0, '{"triton": "3", "torch": "2"}', "") if "versions" in arguments[-1] else (124, "", "")
    )
    assert {(each.method, each.fits) for each in fits} == {("unknown", None)}


def test_a_row_holds_for_what_was_measured_only() -> None:
    target = target_of("12.0")
    row = known.lookup(FROM_0_33, MLA, SHAPE, "float8_e4m3fn", target)
    assert row is not None and row.measured.launches[0].shared_memory_bytes == 102_400
    for sha256, literals, shape, kv_dtype, capability in (
        ("00" * 32, MLA, SHAPE, "float8_e4m3fn", "12.0"),
        (FROM_0_33, {}, SHAPE, "float8_e4m3fn", "12.0"),
        (FROM_0_33, MLA, replace(SHAPE, num_attention_heads_per_rank=1), "float8_e4m3fn", "12.0"),
        (FROM_0_33, MLA, replace(SHAPE, num_attention_heads_per_rank=12), "float8_e4m3fn", "12.0"),
        (FROM_0_33, MLA, replace(SHAPE, kv_lora_rank=256, head_size=320), "float8_e4m3fn", "12.0"),
        (FROM_0_33, MLA, SHAPE, "float8_e5m2", "12.0"),
        (FROM_0_33, MLA, SHAPE, "float8_e4m3fn", "8.0"),
        (FROM_0_33, MLA, SHAPE, "float8_e4m3fn", "11.0"),
    ):
        assert known.lookup(sha256, literals, shape, kv_dtype, target_of(capability)) is None
    assert known.lookup(BEFORE_0_33, MLA, SHAPE, "bfloat16", target_of("8.0")) is not None


def test_the_table_is_made_of_hashes_and_of_dtypes_that_are_asked() -> None:
    for sha256, file in known.FILES.items():
        assert len(bytes.fromhex(sha256)) == 32
        assert set(file.shared_memory_bytes) <= set(known.CAPABILITIES)
