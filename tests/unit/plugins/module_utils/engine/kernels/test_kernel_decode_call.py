# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The call of the decode kernels, read from an installed source, followed or refused by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.decode_call import (
    BACKEND_FILE,
    MADE_UP,
    read_decode_call,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import UnknownError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulation.decode_kernels import BACKEND, KERNEL_FILE, KERNELS, write_all


def replaced(text: str, before: str, after: str) -> str:
    assert before in text
    return text.replace(before, after)


def refusal(folder: Path) -> str:
    with pytest.raises(UnknownError) as caught:
        read_decode_call(folder)
    return str(caught.value)


def test_the_call_is_bound_as_python_binds_it(site_packages: Path) -> None:
    call = read_decode_call(site_packages)
    assert call.file == KERNEL_FILE
    assert call.literals == {"is_mla": True}
    assert set(call.made_up) == MADE_UP


def test_the_file_follows_the_import(tmp_path: Path) -> None:
    backend = replaced(BACKEND, "vllm.v1.attention.ops.triton_decode_attention", "vllm.attention.ops.decode")
    write_all(tmp_path, {BACKEND_FILE: backend, "vllm/attention/ops/decode.py": KERNELS})
    assert read_decode_call(tmp_path).file == "vllm/attention/ops/decode.py"


@pytest.mark.parametrize(
    ("before", "after", "literals"),
    [
        ("is_mla=True", "is_mla=False", {"is_mla": False}),
        (", is_mla=True", "", {}),
        ("cache.size(1)", "64", {"is_mla": True, "page_size": 64}),
        ("is_mla=True", "is_mla=True, logit_cap=0.5", {"is_mla": True, "logit_cap": 0.5}),
        ("v_scale=layer._k_scale", "v_scale=None", {"is_mla": True, "v_scale": None}),
    ],
)
def test_constants_are_taken_from_the_source(
    tmp_path: Path, before: str, after: str, literals: dict[str, object]
) -> None:
    write_all(tmp_path, {BACKEND_FILE: replaced(BACKEND, before, after), KERNEL_FILE: KERNELS})
    assert read_decode_call(tmp_path).literals == literals


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("import decode_attention_fwd as", "import decode_fwd as", "imports no decode_attention_fwd; expected `from"),
        ("from vllm.v1", "from .v1", "imports no decode_attention_fwd"),
        ("        decode(", "        other(", "calls decode_attention_fwd 0 times; expected one call"),
        ("    def forward_mqa", "    decode(1)\n    def forward_mqa", "calls decode_attention_fwd 2 times"),
        ("is_mla=True", "is_mla=self.mla", "passes decode_attention_fwd(is_mla=self.mla); expected a constant or one"),
        ("is_mla=True", "**words", "unpacks arguments in its call"),
        ("q, cache, cache[", "*both, cache[", "unpacks arguments in its call"),
        ("is_mla=True", "sinks=None", "passes decode_attention_fwd(sinks=...), which the function does not take"),
        ("is_mla=True", "q=None", "passes decode_attention_fwd(q=...), which the function does not take"),
        ("q, cache, cache[", "*(), q, cache[", "unpacks arguments in its call"),
        ("cache.size(1),", "cache.size(1), 1, 2, 3, 4, 5,", "passes 16 arguments to decode_attention_fwd, which takes"),
        ("self.o, self.lse, ", "", "does not pass sm_scale to decode_attention_fwd, which needs it"),
        ("import torch", "import torch torch", "is not Python that can be read"),
        ("import torch", "import torch\0", "is not Python that can be read"),
    ],
)
def test_a_backend_of_another_shape_is_refused(tmp_path: Path, before: str, after: str, reason: str) -> None:
    write_all(tmp_path, {BACKEND_FILE: replaced(BACKEND, before, after), KERNEL_FILE: KERNELS})
    assert refusal(tmp_path).startswith(f"{BACKEND_FILE} {reason}")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("def decode_attention_fwd(", "def decode_forward(", f"{KERNEL_FILE} has no function decode_attention_fwd"),
        ("is_mla=False,", "is_mla=False, **more,", f"{KERNEL_FILE}: decode_attention_fwd has *, / or ** parameters"),
        ("    q, k_buffer,", "    q, /, k_buffer,", f"{KERNEL_FILE}: decode_attention_fwd has *, / or ** parameters"),
        ("req_to_token,", "block_table,", "passes decode_attention_fwd(block_table=metadata.table); expected a const"),
        ("is_mla=False,", "is_mla=False, *, sinks,", "does not pass sinks to decode_attention_fwd, which needs it"),
    ],
)
def test_kernels_of_another_shape_are_refused(tmp_path: Path, before: str, after: str, reason: str) -> None:
    write_all(tmp_path, {BACKEND_FILE: BACKEND, KERNEL_FILE: replaced(KERNELS, before, after)})
    assert reason in refusal(tmp_path)


@pytest.mark.parametrize("file", [BACKEND_FILE, KERNEL_FILE])
def test_a_file_that_is_not_there_is_named(site_packages: Path, file: str) -> None:
    (site_packages / file).unlink()
    assert (
        refusal(site_packages) == f"{file}: No such file or directory; expected the TRITON_MLA decode attention there"
    )
    (site_packages / file).mkdir()
    assert refusal(site_packages).startswith(f"{file}: Is a directory")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_cut_of_the_sources_raises_anything_else(tmp_path: Path, data: st.DataObject) -> None:
    file, text = data.draw(st.sampled_from([(BACKEND_FILE, BACKEND), (KERNEL_FILE, KERNELS)]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    write_all(tmp_path, {BACKEND_FILE: BACKEND, KERNEL_FILE: KERNELS, file: text[:start] + text[end:]})
    try:
        call = read_decode_call(tmp_path)
    except UnknownError:
        return
    # The names are those of what is left of the two files, and constants are those that stand there.
    names = {node.arg for node in ast.walk(ast.parse((tmp_path / call.file).read_text())) if isinstance(node, ast.arg)}
    assert set(call.literals) | set(call.made_up) <= names
