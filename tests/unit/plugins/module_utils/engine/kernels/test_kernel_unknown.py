# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the way of a measurement is the reason of an `unknown`, never a guess and never an exception."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels import child
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelFit
from simulation.decode_kernels import KERNEL_FILE, Processes

Ask = Callable[..., list[KernelFit]]
NOTHING = f"nothing was measured before for this {KERNEL_FILE}, shape and card"
VERSIONS = '{"triton": "3.7.1", "torch": "2.13.0"}\n'
LAUNCH = {"kernel": "_stage1", "num_stages": 2, "num_warps": 4, "shared_memory_bytes": 102_400}


def answered(compiled: tuple[int, str, str], versions: tuple[int, str, str] = (0, VERSIONS, "")) -> child.Runner:
    """A runner that answers the two questions."""
    return lambda arguments: versions if '"versions"' in arguments[-1] else compiled


def line(kv_dtype: str, **words: Any) -> str:
    return json.dumps({"kv_dtype": kv_dtype, **words}) + "\n"


def unknown(fits: list[KernelFit]) -> str:
    """The one reason that all answers have."""
    assert {(each.shared_memory_bytes, each.limit_bytes, each.fits, each.method) for each in fits} == {
        (None, 101_376, None, "unknown")
    }
    (reason,) = {each.reason for each in fits}
    return reason


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        ((124, "", ""), "the compilation was not done within 120 s and was ended"),
        ((137, "", ""), "the compilation was killed by signal 9"),
        ((-9, "", "half a line"), "the compilation was killed by signal 9"),
        ((139, "", ""), "the compilation was killed by signal 11"),
        ((1, "", "Trace\nMemoryError: too big\n\n"), "the compilation ended with exit status 1: MemoryError: too big"),
        ((1, "", ""), "the compilation ended with exit status 1: no error message"),
        ((0, "", ""), "the compilation gave no answer"),
        ((0, "[1]\nnot JSON\n" + "[" * 100_000 + '\n{"kv_dtype": "int8"}\n', ""), "the compilation gave no answer"),
    ],
)
def test_a_process_that_ends_without_an_answer(
    ask: Ask, tmp_path: Path, ended: tuple[int, str, str], reason: str
) -> None:
    assert unknown(ask(run=answered(ended))) == reason
    assert not (tmp_path / "cache").exists()


def test_what_was_measured_before_the_process_was_killed_is_kept(ask: Ask) -> None:
    bfloat16, fp8 = ask(run=answered((124, line("bfloat16", launches=[LAUNCH]), "")))
    assert (bfloat16.shared_memory_bytes, bfloat16.fits, bfloat16.method) == (102_400, False, "compiled")
    assert unknown([fp8]) == "the compilation was not done within 120 s and was ended"
    bfloat16, fp8 = ask(run=answered((1, line("float8_e4m3fn", launches=[{**LAUNCH, "shared_memory_bytes": 8}]), "")))
    assert (bfloat16.fits, fp8.fits) == (False, True)


@pytest.mark.parametrize(
    "launches",
    [
        None,
        [],
        {},
        [1],
        [{**LAUNCH, "shared_memory_bytes": "102400"}],
        [{**LAUNCH, "shared_memory_bytes": -1}],
        [{**LAUNCH, "num_stages": True}],
        [{**LAUNCH, "kernel": 5}],
        [{**LAUNCH, "more": 5}],
        [LAUNCH, {"kernel": "_stage2"}],
    ],
)
def test_an_answer_of_another_shape_is_no_measurement(ask: Ask, tmp_path: Path, launches: object) -> None:
    ended = (0, line("bfloat16", launches=launches), "")
    expected = "the decode step of that source launches no triton kernel"
    assert unknown(ask(run=answered(ended), dtypes=("bfloat16",))) == expected
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ((127, "", "timeout: failed to run command"), "ended with exit status 127: timeout: failed to run command"),
        ((124, "", ""), "was not done within 30 s and was ended"),
        ((0, "hello\n", ""), "no answer"),
    ],
)
def test_an_interpreter_that_does_not_answer(ask: Ask, versions: tuple[int, str, str], reason: str) -> None:
    text = unknown(ask(run=answered((0, "", ""), versions), python="/opt/engine/bin/python"))
    assert text == f"/opt/engine/bin/python does not say which triton it has: {reason}"


def test_an_interpreter_that_is_not_there(ask: Ask, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent" / "python")
    assert f"{absent} does not say which triton it has: ended with exit status 127" in unknown(ask(python=absent))


@pytest.mark.parametrize("package", ["triton", "torch"])
def test_an_environment_without_triton_or_torch(
    ask: Ask, own_packages: Path, processes: Processes, package: str
) -> None:
    rmtree(own_packages / package)
    python = str(own_packages.parents[2] / "bin" / "python")
    reason = f"the environment of {python} has no {package}, and {NOTHING}"
    assert unknown(ask(python=python)) == reason
    assert processes.compilations == 0


def test_without_an_interpreter_nothing_is_run(ask: Ask, processes: Processes) -> None:
    expected = f"no interpreter of the engine was named, and {NOTHING}"
    assert unknown(ask(python=None)) == expected
    assert processes.commands == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("import torch", "import torch\nfrom vllm.logger import init_logger", "No module named 'vllm.logger'"),
        ("import tl, triton", "import tl, triton, gluon", "cannot import name 'gluon' from 'vllm.triton_utils'"),
        ("current_platform.is_rocm()", "current_platform.is_xpu()", "'Card' object has no attribute 'is_xpu'"),
        ("assert is_mla", "assert not is_mla", "AssertionError"),
        ("_stage1[grid]", "_stage0[grid]", "NameError: name '_stage0' is not defined"),
        ("if BLOCK_DMODEL", "import os\n    os.abort()\n    if BLOCK_DMODEL", "was killed by signal 6"),
        ("    if BLOCK_DMODEL", "    return\n    if BLOCK_DMODEL", "launches no triton kernel"),
    ],
)
def test_a_source_that_the_probe_cannot_run(
    ask: Ask, site_packages: Path, before: str, after: str, reason: str
) -> None:
    file = site_packages / KERNEL_FILE
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    assert reason in unknown(ask())


def test_a_source_that_does_not_end_is_ended(ask: Ask, site_packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "COMPILE_SECONDS", 1)
    file = site_packages / KERNEL_FILE
    file.write_text(
        file.read_text().replace("    grid =", "    while k_buffer.dtype != q.dtype:\n        pass\n    grid =")
    )
    bfloat16, fp8 = ask()
    assert bfloat16.fits is True
    assert unknown([fp8]) == "the compilation was not done within 1 s and was ended"
