# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sources of published vLLM releases say of MLA backends, and that edited copies of them are followed.

The tables were written down once by reading the classes and, for 0.33.0, by printing their attributes from the
installed wheel. The sources are fetched on first use (vllm_sources.py).
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.architecture import describe, text_config_of
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.answer import Answer, ask
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.model_shape import shape_of_config
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.question import (
    ModelShape,
    Question,
    parse_capability,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.recommendation import (
    CheckpointCache,
    Recommendation,
    recommend,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.fit import fit
from ansible_collections.blackwell.serving.plugins.module_utils.engine.kernels.terms import KernelShape
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.parsing import (
    Deferred,
    parse,
    parse_lazily,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.tree import SourceTree
from e2e.vllm_sources import RELEASES, sources

pytestmark = pytest.mark.long

CONFIGS = Path(__file__).parents[1] / "unit" / "data" / "checkpoints" / "configs"
CONFIG = json.loads((CONFIGS / "nvidia__Kimi-K2.5-NVFP4.json").read_text())
KIMI = shape_of_config(asdict(describe(CONFIG)), text_config_of(CONFIG)[1])
SPARSE = replace(KIMI, use_sparse=True, text_config={**KIMI.text_config, "index_topk": 2048})
FP8 = CheckpointCache("fp8_e4m3", "config.json#/quantization_config/kv_cache_scheme")
CARDS = ("8.0", "8.9", "9.0", "10.0", "10.3", "12.0")
ALL = CARDS
HOPPER = ("9.0",)
DATACENTER = ("10.0", "10.3")
OLD = ["auto", "bfloat16"]
OLD_FP8 = ["auto", "bfloat16", "fp8", "fp8_e4m3"]
NEW = ["auto", "float16", "bfloat16"]
NEW_FP8 = ["auto", "float16", "bfloat16", "fp8", "fp8_e4m3"]

# backend: (cards that it serves, dtypes that it serves on one of them, blocks of its kernels)
TABLE_016 = {
    "TRITON_MLA": (ALL, OLD, ["multiple of 1"]),
    "FLASHMLA": (HOPPER, OLD_FP8, ["64"]),
    "FLASHINFER_MLA": (DATACENTER, OLD_FP8, ["32", "64"]),
    "CUTLASS_MLA": (DATACENTER, OLD_FP8, ["128"]),
    "FLASH_ATTN_MLA": (HOPPER, OLD, ["multiple of 16"]),
    "FLASHMLA_SPARSE": ((*HOPPER, *DATACENTER), ["auto", "bfloat16", "fp8_ds_mla"], ["64"]),
}
TABLE_033 = {
    "TRITON_MLA": (ALL, NEW_FP8, ["multiple of 16"]),
    "FLASHMLA": (HOPPER, NEW_FP8, ["64"]),
    "FLASHINFER_MLA": (DATACENTER, NEW_FP8, ["32", "64"]),
    "TOKENSPEED_MLA": (DATACENTER, ["fp8", "fp8_e4m3"], ["32", "64"]),
    "CUTLASS_MLA": (DATACENTER, NEW_FP8, ["128"]),
    "FLASH_ATTN_MLA": (HOPPER, NEW, ["multiple of 16"]),
    "FLASHMLA_SPARSE": (
        (*HOPPER, *DATACENTER),
        ["auto", "bfloat16", "fp8", "fp8_ds_mla", "nvfp4_ds_mla"],
        ["multiple of 64"],
    ),
    "FLASHINFER_MLA_SPARSE": (DATACENTER, NEW_FP8, ["multiple of 32"]),
    "FLASHINFER_MLA_SPARSE_SM120": (("12.0",), ["auto", "fp8", "fp8_e4m3", "fp8_ds_mla"], ["multiple of 64"]),
    "FLASHINFER_MLA_SPARSE_SM90": (HOPPER, ["auto", "bfloat16", "fp8", "fp8_e4m3"], ["multiple of 64"]),
    "FLASH_ATTN_MLA_SPARSE": (HOPPER, NEW, ["multiple of 64"]),
    "FLASH_ATTN_MLA_SPARSE_FA4": (DATACENTER, ["auto", "bfloat16"], ["multiple of 64"]),
}
# These ask whether FlashInfer can compile kernels on the host: sources alone leave that open, and all else is certain.
OPEN_033 = {"FLASHINFER_MLA_SPARSE_SM120", "FLASHINFER_MLA_SPARSE_SM90", "FLASH_ATTN_MLA_SPARSE_FA4"}
# DeepSeek-V4's backends are chosen by its layers, for head size 512 only.
BY_MODEL = re.compile(r"ROCM|XPU|CPU|AMX|.*_DSV4")

ORDER_016 = {
    "10.0": ["FLASHINFER_MLA", "CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA", "FLASHMLA_SPARSE"],
    "9.0": ["FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA", "FLASHMLA_SPARSE"],
    "12.0": ["FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA", "FLASHMLA_SPARSE"],
}
ORDER_033 = {
    "10.0": ["FLASHINFER_MLA", "TOKENSPEED_MLA", "CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA"],
    "9.0": ["FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA"],
    "12.0": ["TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120"],
}


@cache
def tree_of(release: str) -> SourceTree:
    return SourceTree(sources(release))


def told(tree: SourceTree, capability: str, model: ModelShape = KIMI, **more: Any) -> Answer:
    return ask(tree, Question(parse_capability(capability), model, 8, **more), "cuda")


def order(tree: SourceTree, capability: str) -> list[str]:
    return [backend.name for backend in told(tree, capability, kv_cache_dtypes=["auto"]).backends]


def table(release: str) -> dict[str, tuple[tuple[str, ...], list[str], list[str] | None]]:
    """As above, for every backend of the release that multi-head latent attention may run with."""
    registry = (sources(release) / "vllm/v1/attention/backends/registry.py").read_text()
    names = [name for name in re.findall(r"^    (\w*MLA\w*) = ", registry, re.MULTILINE) if not BY_MODEL.match(name)]
    found = {}
    for name in names:
        cards, dtypes, blocks = [], set(), None
        for card in CARDS:
            for model in (KIMI, SPARSE):
                backend = told(tree_of(release), card, model, attention_backend=name).backends[0]
                served = {dtype for dtype, verdict in backend.verdicts.items() if verdict.serves is not False}
                certain = all(backend.verdicts[dtype].serves for dtype in served)
                assert certain or (release.startswith("0.33") and name in OPEN_033), backend.verdicts
                blocks = backend.kernel_block_sizes
                if served:
                    cards.append(card)
                    dtypes |= served
        known = told(tree_of(release), "12.0").kv_cache_dtypes
        found[name] = (tuple(cards), [dtype for dtype in known if dtype in dtypes], blocks)
    return found


@pytest.mark.parametrize("release", ["0.16.0", "0.33.0"])
def test_every_file_is_parsed_bit_by_bit_as_at_once(release: str) -> None:
    files = deferred = 0
    for path in (sources(release) / "vllm").rglob("*.py"):
        statements = parse_lazily(path.read_bytes())
        found = [each.node() if isinstance(each, Deferred) else each for each in statements]
        assert [ast.dump(each, include_attributes=True) for each in found] == [
            ast.dump(each, include_attributes=True) for each in parse(path.read_bytes())
        ], path
        files += 1
        deferred += sum(isinstance(each, Deferred) for each in statements)
    print(f"vLLM {release}: {files} files, {deferred} definitions parsed by themselves, no difference")


@pytest.mark.parametrize("release", ["0.15.1", "0.16.0", "0.17.1"])
def test_the_table_of_016(release: str) -> None:
    assert table(release) == TABLE_016 if release != "0.17.1" else TABLE_016.items() <= table(release).items()


def test_the_table_of_033() -> None:
    assert table("0.33.0") == TABLE_033


@pytest.mark.parametrize("capability", ORDER_016)
def test_the_order_of_016_and_033(capability: str) -> None:
    assert order(tree_of("0.16.0"), capability) == ORDER_016[capability]
    length = len(ORDER_033[capability])
    assert order(tree_of("0.33.0"), capability)[:length] == ORDER_033[capability]


@pytest.mark.parametrize("log", ["big_eager.log", "big_toolong.log"])
def test_a_real_card_said_the_same(log: str) -> None:
    """What vLLM 0.24.0 logged on a real card of compute capability 9.0 with Kimi's dimensions, against its sources."""
    text = (Path(__file__).parents[1] / "unit" / "data" / "engine_logs" / log).read_text()
    used, listed = re.findall(r"Using (\w+) attention backend out of potential backends: \[(.*?)\]", text)[0]
    answer = told(tree_of("0.24.0"), "9.0", kv_cache_dtypes=["auto"])
    assert answer.selected["auto"] == used
    assert [each.name for each in answer.backends if each.valid] == re.findall(r"'(\w+)'", listed)


def test_the_list_for_12_0_begins_with_0_24_or_0_25() -> None:
    assert order(tree_of("0.23.0"), "12.0")[0] == "FLASH_ATTN_MLA"
    assert order(tree_of("0.25.1"), "12.0") == ORDER_033["12.0"]


def recommended(tree: SourceTree, capability: str) -> Recommendation:
    """With the kernels as they were measured before: no interpreter is named, so nothing is compiled."""
    answer = told(tree, capability)
    selected = {dtype: name for dtype, name in answer.selected.items() if name is not None}
    kernels = fit(
        tree.root,
        capability,
        KernelShape(8, 512, 64, 576, use_mla=True),
        list(selected),
        python=None,
        cache_dir=None,
        run=lambda argv: pytest.fail(f"{argv} was run"),
        check=False,
        backends=selected,
    )
    return recommend(answer, kernels, FP8, "bfloat16")


@pytest.mark.parametrize("release", RELEASES)
def test_the_recommendation_for_every_release(release: str) -> None:
    """fp8 on 12.0: refused by the selector until 0.17, served in 0.18 and 0.19, declared and too large from 0.20."""
    minor = int(release.split(".")[1])
    for_sm120 = recommended(tree_of(release), "12.0")
    assert for_sm120.kv_cache_dtype == ("fp8_e4m3" if minor in (18, 19) else "bfloat16")
    if minor < 18:
        assert "TRITON_MLA: kv_cache_dtype not supported" in for_sm120.by
    elif minor > 19:
        assert "1,024 more than the 101,376" in for_sm120.by
    selected = {card: told(tree_of(release), card).selected["fp8_e4m3"] for card in ("9.0", "10.0")}
    assert selected == {"9.0": "FLASHMLA", "10.0": "FLASHINFER_MLA"}
    assert recommended(tree_of(release), "9.0").kv_cache_dtype == "fp8_e4m3"
    assert recommended(tree_of(release), "10.0").kv_cache_dtype == "fp8_e4m3"


class Copy:
    """A copy of a release's sources whose files can be edited; unedited ones are links to the cache."""

    def __init__(self, release: str, folder: Path) -> None:
        self.folder = folder / "site-packages"
        shutil.copytree(sources(release), self.folder, copy_function=os.symlink)

    def edit(self, name: str, pattern: str, replacement: str) -> None:
        path = self.folder / name
        text, count = re.subn(pattern, replacement, path.read_text(), count=1)
        assert count == 1, f"{name} holds no {pattern}"
        path.unlink()
        path.write_text(text)

    @property
    def tree(self) -> SourceTree:
        return SourceTree(self.folder)


TRITON_MLA = "vllm/v1/attention/backends/mla/triton_mla.py"
CUDA = "vllm/platforms/cuda.py"
BACKEND = "vllm/v1/attention/backend.py"
KERNEL = "vllm/v1/attention/ops/triton_decode_attention.py"


@pytest.mark.parametrize("release", ["0.19.1", "0.25.1", "0.33.0"])
def test_edits_of_an_installed_tree_are_followed(release: str, tmp_path: Path) -> None:
    copy = Copy(release, tmp_path)
    assert told(copy.tree, "12.0").selected["fp8"] == "TRITON_MLA"
    copy.edit(TRITON_MLA, r'"fp8",\s*"fp8_e4m3",', "")
    assert told(copy.tree, "12.0").selected["fp8"] is None
    assert recommended(copy.tree, "12.0").kv_cache_dtype == "bfloat16"
    copy.edit(TRITON_MLA, r"= \[torch\.float16, torch\.bfloat16\]", "= [torch.float32]")
    answer = told(copy.tree, "12.0")
    assert set(answer.selected.values()) == {None}
    assert "dtype not supported" in answer.backend("TRITON_MLA").verdicts["auto"].reasons


def test_an_edited_priority_list_is_followed(tmp_path: Path) -> None:
    copy = Copy("0.33.0", tmp_path)
    copy.edit(CUDA, "device_capability.major == 12", "device_capability.major == 13")
    assert order(copy.tree, "12.0")[:2] == ["FLASH_ATTN_MLA", "FLASHMLA"]
    copy.edit(
        CUDA,
        r"AttentionBackendEnum\.FLASH_ATTN_MLA,(?=\s*AttentionBackendEnum\.FLASHMLA,\s*AttentionBackendEnum\.FLASHINFER_MLA)",
        "AttentionBackendEnum.TRITON_MLA,",
    )
    assert told(copy.tree, "9.0").selected["bfloat16"] == "TRITON_MLA"


def test_an_edited_guard_of_the_kernel_is_measured_anew_or_not_known(tmp_path: Path) -> None:
    copy = Copy("0.33.0", tmp_path)
    copy.edit(KERNEL, "BLOCK_DMODEL >= 1024", "BLOCK_DMODEL >= 512")
    answer = recommended(copy.tree, "12.0")
    assert answer.kv_cache_dtype == "bfloat16"
    assert "whether the decode kernel of TRITON_MLA fits the card is not known" in answer.by


@pytest.mark.parametrize(
    ("file", "pattern", "replacement"),
    [
        (BACKEND, "def validate_configuration", "def validate_everything"),
        (CUDA, "def _get_backend_priorities", "def _order_of_backends"),
        (CUDA, r"if use_mla:", "if use_mla in decided_by_somebody_else:"),
        ("vllm/v1/attention/backends/registry.py", "class AttentionBackendEnum", "class BackendEnum"),
    ],
)
@pytest.mark.parametrize("release", ["0.16.0", "0.33.0"])
def test_a_renamed_part_leaves_the_answer_open(
    release: str, file: str, pattern: str, replacement: str, tmp_path: Path
) -> None:
    copy = Copy(release, tmp_path)
    copy.edit(file, pattern, replacement)
    answer = told(copy.tree, "12.0")
    assert set(answer.selected.values()) == {None}
    assert re.search(r"\.py", " ".join(answer.unanswered["bfloat16"]))
    assert recommend(answer, [], FP8, "bfloat16").kv_cache_dtype is None
