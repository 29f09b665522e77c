# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel-fit probe on the sources of published vLLM releases, with the real triton, for cards that are not here.

The figures of vLLM's issues 46721 and 53748 (on RTX PRO 6000 Blackwell, 101,376 bytes per block) must come out: fp8 KV
fits up to 0.19, needs 1,024 bytes too many from 0.20, and fits again where the guard is lowered to 512.

Needs SERVING_TRITON_PYTHON, the python of an environment with torch and triton, or makes one (torch for the CPU: 1 GB)
below ~/.cache/blackwell-serving.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels import known
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.decode_call import (
    BACKEND_FILE,
    read_decode_call,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.fit import fit
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelFit, KernelShape
from e2e.vllm_sources import cache as sources_cache
from e2e.vllm_sources import sources

pytestmark = pytest.mark.long

TORCH = "torch==2.13.0"
TRITON = "3.7.1"
OTHER_TRITONS = ("3.5.1", "3.6.0", "3.8.0")
KIMI_AT_TP8 = KernelShape(8, 512, 64, 576, use_mla=True)
SECONDS = 900

# release: {KV dtype: bytes with num_stages 1, bytes with num_stages 2}; every launcher uses 2.
TABLE = {
    "0.16.0": {"bfloat16": (52_224, 89_088)},
    "0.18.0": {"bfloat16": (52_224, 89_088), "fp8": (52_224, 87_040)},
    "0.19.1": {"bfloat16": (52_224, 89_088), "fp8": (52_224, 87_040)},
    "0.20.2": {"bfloat16": (59_392, 63_488), "fp8": (83_968, 102_400)},
    "0.22.1": {"bfloat16": (59_392, 63_488), "fp8": (83_968, 102_400)},
    "0.25.1": {"bfloat16": (59_392, 63_488), "fp8": (83_968, 102_400)},
    "0.33.0": {"bfloat16": (59_392, 63_488), "fp8": (83_968, 102_400)},
}
ONE_OF_EACH_FILE = ("0.16.0", "0.19.1", "0.20.2", "0.23.0", "0.24.0", "0.30.0", "0.32.0", "0.33.0")


def run(arguments: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(["nice", *arguments], capture_output=True, text=True, check=False, timeout=SECONDS)
    return done.returncode, done.stdout, done.stderr


def environment(triton: str) -> str:
    """The python of an environment with that triton, made once."""
    home = sources_cache().parent / f"triton-{triton}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        uv = [str(Path(sys.prefix, "bin", "uv"))]
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, home], check=True, timeout=SECONDS)
        links = os.environ.get("UV_FIND_LINKS") or ",".join(os.environ.get("PIP_FIND_LINKS", "").split())
        cpu = [f"{TORCH}+cpu", "--find-links", links] if links else [TORCH, "--torch-backend", "cpu"]
        packages = [*cpu, f"triton=={triton}", "packaging", "numpy"]
        install = [*uv, "pip", "install", "--quiet", "--python", str(python), *packages]
        subprocess.run(install, check=True, timeout=SECONDS)
        (home / "complete").touch()
    return str(python)


@pytest.fixture(scope="session")
def python() -> str:
    return os.environ.get("SERVING_TRITON_PYTHON") or environment(TRITON)


Ask = Callable[..., dict[str, KernelFit]]


@pytest.fixture(scope="session")
def ask(python: str, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """fit() with one cache for all tests of this file -> {KV dtype: its answer}."""
    cache_dir = tmp_path_factory.mktemp("kernel-fit")

    def asked(
        site_packages: Path,
        *dtypes: str,
        capability: str = "12.0",
        shape: KernelShape = KIMI_AT_TP8,
        python: str | None = python,
    ) -> dict[str, KernelFit]:
        fits = fit(site_packages, capability, shape, dtypes, python=python, cache_dir=cache_dir, run=run, check=False)
        return {each.dtype: each for each in fits}

    return asked


def copy_of(release: str, folder: Path, edit: Callable[[str], str] = lambda text: text) -> Path:
    """The two files of an installation that matter, the kernels' one edited."""
    installed = sources(release)
    for name in (BACKEND_FILE, read_decode_call(installed).file):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text((installed / name).read_text())
    file = folder / read_decode_call(installed).file
    edited = edit(file.read_text())
    file.write_text(edited)
    return folder


def replacing(before: str, after: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert len(re.findall(before, text)) == 1
        return re.sub(before, after, text)

    return edit


@pytest.mark.parametrize("release", TABLE)
def test_the_shared_memory_of_published_kernels(ask: Ask, tmp_path: Path, release: str) -> None:
    expected = TABLE[release]
    launched = ask(sources(release), *expected)
    one_stage = ask(copy_of(release, tmp_path, replacing(r"    num_stages = 2\n", "    num_stages = 1\n")), *expected)
    for dtype in expected:
        one, two = one_stage[dtype].shared_memory_bytes, launched[dtype].shared_memory_bytes
        print(f"{release:7} {dtype:9} {one:,} / {two:,}  fits 12.0: {launched[dtype].fits}")
        assert (one, two) == expected[dtype]
        assert launched[dtype].method == "compiled"
        assert launched[dtype].fits is (expected[dtype][1] <= 101_376)
        assert one_stage[dtype].fits is True


def test_the_guard_lowered_to_512_makes_fp8_fit(ask: Ask, tmp_path: Path) -> None:
    assert ask(sources("0.33.0"), "fp8")["fp8"].fits is False
    edited = ask(copy_of("0.33.0", tmp_path, replacing(r"BLOCK_DMODEL >= 1024", "BLOCK_DMODEL >= 512")), "fp8")["fp8"]
    assert (edited.shared_memory_bytes, edited.fits, edited.method) == (83_968, True, "compiled")
    assert "num_stages=1" in edited.reason


def test_a_guard_that_asks_the_card_makes_fp8_fit_where_it_asks_for(ask: Ask, tmp_path: Path) -> None:
    guard = "torch.cuda.get_device_properties(q.device).shared_memory_per_block_optin < 131072 and BLOCK_DMODEL >= 512"
    tree = copy_of("0.33.0", tmp_path, replacing(r"BLOCK_DMODEL >= 1024", guard))
    assert ask(tree, "fp8")["fp8"].shared_memory_bytes == 83_968
    assert ask(tree, "fp8", capability="9.0")["fp8"].shared_memory_bytes == 102_400


@pytest.mark.parametrize(("capability", "fits"), [("9.0", True), ("10.0", True), ("8.9", False), ("12.1", False)])
def test_fp8_on_other_cards(ask: Ask, capability: str, fits: bool) -> None:
    answers = ask(sources("0.33.0"), "bfloat16", "fp8", capability=capability)
    print(capability, {dtype: each.reason for dtype, each in answers.items()})
    assert (answers["bfloat16"].fits, answers["fp8"].fits) == (True, fits)


def test_fp8_is_not_compiled_for_a_card_that_lacks_it(ask: Ask) -> None:
    answers = ask(sources("0.33.0"), "bfloat16", "fp8", capability="8.6")
    assert (answers["bfloat16"].fits, answers["fp8"].fits) == (True, False)
    assert "fp8e4nv not supported in this architecture" in answers["fp8"].reason


def test_one_head_per_rank_is_another_kernel(ask: Ask) -> None:
    answer = ask(sources("0.33.0"), "fp8", shape=KernelShape(1, 512, 64, 576, use_mla=True))["fp8"]
    assert answer.fits is True
    assert answer.reason.startswith("_fwd_kernel_stage1 with ")


@pytest.mark.parametrize("triton", OTHER_TRITONS)
def test_other_tritons_agree(ask: Ask, triton: str) -> None:
    for release in ("0.19.1", "0.33.0"):
        answers = ask(sources(release), *TABLE[release], python=environment(triton))
        assert f"triton {triton}" in answers["fp8"].reason
        assert {dtype: each.shared_memory_bytes for dtype, each in answers.items()} == {
            dtype: two for dtype, (_one, two) in TABLE[release].items()
        }


@pytest.mark.parametrize("release", ONE_OF_EACH_FILE)
def test_what_is_known_is_what_is_measured(ask: Ask, release: str) -> None:
    dtypes = ("bfloat16", "fp8") if "fp8" in TABLE.get(release, {"fp8": ()}) else ("bfloat16",)
    for capability in ("12.0", "9.0"):
        remembered = ask(sources(release), *dtypes, capability=capability, python=None)
        measured = ask(sources(release), *dtypes, capability=capability)
        for dtype in dtypes:
            assert (remembered[dtype].method, measured[dtype].method) == ("known", "compiled")
            assert remembered[dtype].shared_memory_bytes == measured[dtype].shared_memory_bytes
            assert remembered[dtype].fits is measured[dtype].fits
    assert len(known.FILES) == len(ONE_OF_EACH_FILE)


def test_an_edited_file_is_never_known(ask: Ask, tmp_path: Path) -> None:
    tree = copy_of("0.33.0", tmp_path)
    assert ask(tree, "fp8", python=None)["fp8"].method == "known"
    tree = copy_of("0.33.0", tmp_path, lambda text: text + "\n")
    answer = ask(tree, "fp8", python=None)["fp8"]
    assert (answer.method, answer.fits) == ("unknown", None)


def test_a_renamed_kernel_or_function_is_unknown(ask: Ask, tmp_path: Path) -> None:
    tree = copy_of("0.33.0", tmp_path, replacing(r"\n_*    _fwd_grouped_kernel_stage1\[grid\]", "\n    _renamed[grid]"))
    answer = ask(tree, "fp8")["fp8"]
    assert (answer.method, answer.fits) == ("unknown", None)
    assert "name '_renamed' is not defined" in answer.reason
    tree = copy_of("0.33.0", tmp_path, replacing(r"def decode_attention_fwd\(", "def decode_attention("))
    assert "has no function decode_attention_fwd" in ask(tree, "fp8")["fp8"].reason


def test_the_time_of_one_question(python: str, tmp_path: Path) -> None:
    times = []
    for _cold_then_cached in range(2):
        started = time.monotonic()
        fits = fit(
            sources("0.33.0"),
            "12.0",
            KIMI_AT_TP8,
            ("bfloat16", "fp8"),
            python=python,
            cache_dir=tmp_path,
            run=run,
            check=False,
        )
        times.append(time.monotonic() - started)
        assert [each.fits for each in fits] == [True, False]
    print(f"kernel fit of 0.33.0 for 12.0, two dtypes: cold {times[0]:.1f} s (goal 60 s), cached {times[1]:.2f} s")
