# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict follows the installed source: what it launches, compiled for the card, against what the card has."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels import child, program
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.decode_call import BACKEND_FILE
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.limits import (
    SHARED_MEMORY_PER_BLOCK_OPTIN,
    target_of,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelFit, KernelShape
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.decode_kernels import KERNEL_FILE, SHAPE, Processes

Ask = Callable[..., list[KernelFit]]

STAGE = 32 * 512 * 2  # bytes of one stage of the miniature, bfloat16


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, after))


def numbers(fits: list[KernelFit]) -> list[tuple[str, int | None, bool | None, str]]:
    return [(each.dtype, each.shared_memory_bytes, each.fits, each.method) for each in fits]


def test_what_the_launcher_launches_is_compiled_and_compared(ask: Ask) -> None:
    bfloat16, fp8 = ask()
    assert bfloat16 == KernelFit(
        "bfloat16",
        "TRITON_MLA",
        2 * STAGE,
        101_376,
        True,
        "compiled",
        "_stage1 with num_stages=2 needs 65,536 bytes of shared memory per block, 35,840 less than the 101,376 of "
        "compute capability 12.0 (compiled with triton 3.0)",
    )
    assert (fp8.shared_memory_bytes, fp8.fits) == (3 * STAGE, True)


def test_the_verdict_follows_an_edit_of_the_kernel_and_of_the_guard(ask: Ask, site_packages: Path) -> None:
    edit(site_packages / KERNEL_FILE, "BLOCK_N=32", "BLOCK_N=64")
    assert numbers(ask()) == [("bfloat16", 4 * STAGE, False, "compiled"), ("fp8", 6 * STAGE, False, "compiled")]
    assert "with num_stages=2 needs 196,608 bytes of shared memory per block, 95,232 more than" in ask()[1].reason
    edit(site_packages / KERNEL_FILE, ">= 1024", ">= 512")
    assert numbers(ask()) == [("bfloat16", 2 * STAGE, True, "compiled"), ("fp8", 3 * STAGE, True, "compiled")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "holds_on_9_0"),
    [
        ("current_platform.is_device_capability_family(120)", False),
        ("current_platform.is_device_capability((12, 0))", False),
        ("not current_platform.has_device_capability(121)", True),
        ("current_platform.get_device_capability().to_int() == 120", False),
        ("torch.cuda.get_device_properties(0).shared_memory_per_block_optin < 102400", False),
        ("torch.cuda.get_device_capability() == (12, 0)", False),
        ("k_buffer.dtype == torch.bfloat16", True),
    ],
)
def test_a_guard_that_asks_about_the_card_is_answered_for_the_target(
    ask: Ask, site_packages: Path, condition: str, holds_on_9_0: bool
) -> None:
    edit(site_packages / KERNEL_FILE, "BLOCK_DMODEL >= 1024", condition)
    assert numbers(ask(dtypes=("bfloat16",))) == [("bfloat16", STAGE, True, "compiled")]
    stages = 1 if holds_on_9_0 else 2
    assert numbers(ask("9.0", dtypes=("bfloat16",))) == [("bfloat16", stages * STAGE, True, "compiled")]


def test_names_of_one_dtype_share_one_compilation(ask: Ask, processes: Processes) -> None:
    fits = ask(dtypes=("fp8_e4m3", "auto", "fp8", "fp8"))
    assert [each.shared_memory_bytes for each in fits] == [3 * STAGE, 2 * STAGE, 3 * STAGE, 3 * STAGE]
    assert json.loads(processes.commands[-1][-1])["kv_dtypes"] == ["bfloat16", "float8_e4m3fn"]


def test_a_type_that_the_target_lacks_does_not_fit(ask: Ask) -> None:
    expected = [("bfloat16", 2 * STAGE, True, "compiled"), ("fp8", None, False, "compiled")]
    for _cold_then_cached in range(2):
        fits = ask("8.6")
        assert numbers(fits) == expected
        assert "cannot be compiled for compute capability 8.6: ValueError: type fp8e4nv not supp" in fits[1].reason


def test_the_second_time_nothing_is_compiled(ask: Ask, processes: Processes) -> None:
    first = ask()
    assert ask() == first
    assert processes.compilations == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["source", "capability", "shape", "triton", "torch", "backend", "nothing"])
def test_a_measurement_is_kept_by_all_that_it_depends_on(
    ask: Ask, processes: Processes, site_packages: Path, own_packages: Path, what: str
) -> None:
    python = str(own_packages.parents[2] / "bin" / "python")
    ask(python=python)
    capability, shape = "12.0", SHAPE
    if what == "source":
        edit(site_packages / KERNEL_FILE, "import torch", "import torch  # edited")
    elif what == "capability":
        capability = "12.1"
    elif what == "shape":
        shape = KernelShape(16, 512, 64, 576, use_mla=True)
    elif what in ("triton", "torch"):
        edit(next(own_packages.glob(f"{what}-*.dist-info")) / "METADATA", ".0\n", ".1\n")
    elif what == "backend":
        edit(site_packages / BACKEND_FILE, "cache.size(1)", "16")
    ask(capability, shape, python=python)
    assert processes.compilations == (1 if what == "nothing" else 2)


def test_a_triton_under_another_distribution_name_has_its_version(ask: Ask, own_packages: Path) -> None:
    metadata = next(own_packages.glob("triton-*.dist-info")).rename(own_packages / "pytorch_triton-4.1.dist-info")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pytorch-triton\nVersion: 4.1\n")
    (metadata / "top_level.txt").write_text("triton\n")
    (only,) = ask(dtypes=("fp8",), python=str(own_packages.parents[2] / "bin" / "python"))
    assert only.reason.endswith("(compiled with triton pytorch-triton 4.1)")


def test_what_a_triton_without_a_version_compiled_is_not_kept(
    ask: Ask, own_packages: Path, processes: Processes, tmp_path: Path
) -> None:
    rmtree(next(own_packages.glob("triton-*.dist-info")))
    for _twice in range(2):
        (only,) = ask(dtypes=("fp8",), python=str(own_packages.parents[2] / "bin" / "python"))
        assert only.fits is True
        assert only.reason.endswith("(compiled with a triton of unknown version)")
    assert processes.compilations == 2
    assert not (tmp_path / "cache").exists()


def test_check_mode_answers_alike_and_keeps_nothing(ask: Ask, tmp_path: Path, processes: Processes) -> None:
    predicted = ask(check=True)
    assert not (tmp_path / "cache").exists()
    assert ask() == predicted
    assert ask(check=True) == predicted
    assert processes.compilations == 2


def test_without_a_cache_folder_nothing_is_kept(ask: Ask, processes: Processes) -> None:
    assert ask(cache_dir=None) == ask(cache_dir=None)
    assert processes.compilations == 2


def test_a_cache_that_cannot_be_written_costs_time_not_the_answer(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    bfloat16, _fp8 = ask()
    assert bfloat16.fits is True
    assert "not cached: " in bfloat16.reason and str(tmp_path / "cache") in bfloat16.reason


def test_nothing_is_left_in_the_environment_or_in_the_temporary_folder(
    ask: Ask, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = sorted(environment.rglob("*"))
    ask()
    assert sorted(environment.rglob("*")) == before
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("backend", "reason"),
    [("FLASHINFER_MLA", "no probe for FLASHINFER_MLA"), (None, "no backend serves this KV cache dtype")],
)
def test_other_backends_have_no_probe(ask: Ask, processes: Processes, backend: str | None, reason: str) -> None:
    (only,) = ask(dtypes=("fp8",), backends={"fp8": backend})
    assert only == KernelFit("fp8", backend or "", None, 101_376, None, "unknown", reason)
    assert processes.commands == []


def test_without_mla_there_is_no_probe(ask: Ask, processes: Processes) -> None:
    (only,) = ask(shape=KernelShape(8, 0, 0, 128, use_mla=False), dtypes=("fp8",))
    assert (only.fits, only.method) == (None, "unknown")
    assert only.reason == "no probe for TRITON_MLA without multi-head latent attention"
    assert processes.commands == []


def test_a_dtype_that_the_kernel_is_not_given_is_unknown_beside_one_that_is(ask: Ask) -> None:
    known, unknown = ask(dtypes=("fp8", "fp8_ds_mla"))
    assert known.fits is True
    assert (unknown.fits, unknown.method) == (None, "unknown")
    assert unknown.reason.startswith("no probe for TRITON_MLA with KV cache dtype fp8_ds_mla; there is one for auto, ")


@pytest.mark.parametrize("capability", ["12", "12.0 ", "120", "sm_120", "", "1.10", "12.0\n"])
def test_what_is_no_compute_capability_is_an_error(ask: Ask, capability: str) -> None:
    with pytest.raises(ServingError, match="not a compute capability"):
        ask(capability)


def test_a_capability_without_a_known_limit_is_unknown(ask: Ask, processes: Processes) -> None:
    (only,) = ask("13.7", dtypes=("fp8",))
    reason = "the shared memory per block of compute capability 13.7 is not known"
    assert only == KernelFit("fp8", "TRITON_MLA", None, None, None, "unknown", reason)
    assert processes.commands == []


@pytest.mark.parametrize(
    "shape",
    [
        KernelShape(0, 512, 64, 576, use_mla=True),
        KernelShape(8, 512, 64, 512, use_mla=True),
        KernelShape(8, 0, 576, 576, use_mla=True),
    ],
)
def test_a_shape_that_contradicts_itself_is_an_error(ask: Ask, shape: KernelShape) -> None:
    with pytest.raises(ServingError, match="not the shape of multi-head latent attention"):
        ask(shape=shape)


def test_the_limits_are_those_of_the_programming_guide() -> None:
    for capability, limit in SHARED_MEMORY_PER_BLOCK_OPTIN.items():
        assert target_of(capability).limit_bytes == limit
        assert target_of(capability).capability == capability
    known = ("8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")
    assert [SHARED_MEMORY_PER_BLOCK_OPTIN[each] for each in known] == [
        166_912, 101_376, 101_376, 232_448, 232_448, 232_448, 101_376, 101_376,
    ]  # fmt: skip


def test_the_program_is_read_from_inside_the_archive_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as payload:
        payload.write(os.fspath(program.__file__), "zipped_program.py")
    monkeypatch.syspath_prepend(str(archive))
    import zipped_program  # type: ignore[import-not-found]

    monkeypatch.setattr(child, "program", zipped_program)
    assert child.program_text() == Path(program.__file__).read_text()
