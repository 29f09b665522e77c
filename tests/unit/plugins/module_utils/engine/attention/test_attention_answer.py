# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of an engine in miniature, and that it follows every edit of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.answer import Answer, ask
from ansible_collections.blackwell.serving.plugins.module_utils.engine.attention.question import (
    ModelShape,
    Question,
    parse_capability,
)
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.tree import SourceTree
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation.attention_engine import BASE, CACHE, CP_UTILS, CUDA, LATENT_A, LATENT_B, REGISTRY, edit, write_engine

LATENT = ModelShape(True, 576, num_attention_heads=64, text_config={"qk_nope_head_dim": 128}, whole=True)
GROUPED = ModelShape(False, 128, num_attention_heads=64, num_key_value_heads=8)


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path)


def told(engine: Path, capability: str, model: ModelShape = LATENT, platform: str = "cuda", **more: Any) -> Answer:
    return ask(SourceTree(engine), Question(parse_capability(capability), model, 8, **more), platform)


def names(answer: Answer) -> list[str]:
    return [backend.name for backend in answer.backends]


def refusals(answer: Answer, backend: str, dtype: str) -> list[str]:
    verdict = answer.backend(backend).verdicts[dtype]
    return [*verdict.reasons, *verdict.later]


def test_the_order_and_the_choice_depend_on_the_capability(engine: Path) -> None:
    hopper, blackwell = told(engine, "9.0"), told(engine, "12.0")
    assert names(hopper) == ["LATENT_A", "LATENT_B", "SPARSE"]
    assert hopper.selected == {
        "auto": "LATENT_A", "bfloat16": "LATENT_A", "fp8": "LATENT_A", "fp8_e4m3": "LATENT_A", "fp8_e5m2": None
    }  # fmt: skip
    assert names(blackwell) == ["LATENT_B", "SPARSE"]
    assert blackwell.selected["fp8"] == "LATENT_B"
    assert refusals(blackwell, "LATENT_B", "fp8_e5m2") == ["kv_cache_dtype not supported"]
    assert refusals(blackwell, "SPARSE", "fp8") == ["kv_cache_dtype not supported", "non-sparse not supported"]
    assert blackwell.backend("LATENT_B").kernel_block_sizes == ["multiple of 16"]
    assert hopper.backend("LATENT_A").kernel_block_sizes == ["64"]
    assert hopper.backend("LATENT_A").declared_kv_cache_dtypes == ["auto", "bfloat16", "fp8", "fp8_e4m3"]


def test_an_edited_list_of_dtypes_is_followed(engine: Path) -> None:
    edit(engine, LATENT_B, '"auto", "bfloat16", "fp8", "fp8_e4m3"', '"auto", "bfloat16"')
    answer = told(engine, "12.0")
    assert answer.selected["fp8"] is None
    assert answer.selected["bfloat16"] == "LATENT_B"


def test_an_edited_order_is_followed(engine: Path) -> None:
    edit(engine, CUDA, "major == 9", "major == 12")
    assert names(told(engine, "12.0")) == ["LATENT_A", "LATENT_B", "SPARSE"]
    assert names(told(engine, "9.0")) == ["LATENT_B", "SPARSE"]


def test_an_edited_check_is_followed_with_its_own_words(engine: Path) -> None:
    edit(engine, BASE, '"compute capability not supported"', '"wrong card"')
    edit(engine, LATENT_B, "can_return_lse_for_decode: bool = True", "")
    edit(engine, LATENT_A, "in [9]", "in [8]")
    assert "wrong card" in refusals(told(engine, "9.0"), "LATENT_A", "auto")
    assert refusals(told(engine, "12.0", decode_context_parallel_size=2), "LATENT_B", "auto") == [
        "LatentBImpl returns no LSE"
    ]


def test_a_class_attribute_set_behind_the_class_is_followed(engine: Path) -> None:
    with open(engine / LATENT_B, "a") as stream:
        stream.write("\nLatentBBackend.supported_kv_cache_dtypes = ['auto']\n")
    answer = told(engine, "12.0")
    assert [dtype for dtype, name in answer.selected.items() if name] == ["auto"]


def test_a_renamed_check_leaves_the_answer_open_and_names_the_place(engine: Path) -> None:
    edit(engine, BASE, "def validate_configuration(", "def validate(")
    answer = told(engine, "12.0")
    assert set(answer.selected.values()) == {None}
    assert answer.backend("LATENT_B").valid is None
    assert "validate_configuration" in answer.unanswered["fp8"][0]


@pytest.mark.parametrize(
    ("file", "before", "after", "place"),
    [
        (CUDA, "def _get_backend_priorities", "def _get_order", CUDA),
        (CUDA, "device_capability, num_heads=None", "device_capability, num_heads=None, *, fancy", f"{CUDA}:"),
        (CUDA, "device_capability.major == 9", "device_capability in KNOWN_CARDS", f"{CUDA}:9"),
        (REGISTRY, "class AttentionBackendEnum(Enum)", "class Backends(Enum)", "AttentionBackendEnum"),
        (BASE, "if use_mla != cls.is_mla()", "if somewhere.decides(use_mla)", f"{BASE}:"),
        (BASE, "        return reasons\n", "        return [str(r) async for r in reasons]\n", BASE),
        (LATENT_B, "class LatentBBackend(LatentBackend)", "class LatentBBackend(made_elsewhere())", f"{LATENT_B}:11"),
        (LATENT_B, "nope not in (64, 128)", "nope not in read_table()", f"{LATENT_B}:"),
    ],
)
def test_a_source_of_another_shape_is_unknown_never_guessed(
    engine: Path, file: str, before: str, after: str, place: str
) -> None:
    edit(engine, file, before, after)
    if "fancy" in after:
        edit(engine, file, "if use_mla:", "if use_mla == fancy:")
    answer = told(engine, "12.0", kv_cache_dtypes=["bfloat16"])
    assert answer.selected == {"bfloat16": None}
    assert place in " ".join(answer.unanswered["bfloat16"])


def test_a_missing_file_is_unknown_or_a_refusal_in_python_s_words(engine: Path) -> None:
    (engine / LATENT_B).unlink()
    answer = told(engine, "12.0")
    assert refusals(answer, "LATENT_B", "auto") == [
        "ModuleNotFoundError: No module named 'vllm.v1.attention.backends.mla.latent_b'"
    ]
    (engine / CUDA).unlink()
    assert "vllm/platforms/cuda.py is not there" in told(engine, "12.0").unanswered["auto"][0]


def test_source_that_this_python_cannot_parse_is_unknown(engine: Path) -> None:
    edit(engine, LATENT_B, "class LatentBImpl(AttentionImpl):", "class LatentBImpl(AttentionImpl) -> new syntax:")
    answer = told(engine, "12.0")
    assert "can parse" in answer.unanswered["auto"][0]
    assert LATENT_B in answer.unanswered["auto"][0]


def test_a_compiled_extension_counts_when_its_file_is_there(tmp_path: Path) -> None:
    engine = write_engine(tmp_path, extension=False)
    assert refusals(told(engine, "9.0"), "LATENT_A", "auto") == ["vllm._extension_C is not available"]


def test_a_constructor_s_refusal_ends_the_engine_and_moves_no_choice(engine: Path) -> None:
    answer = told(engine, "8.6", kv_cache_dtypes=["fp8", "bfloat16"])
    assert answer.selected == {"fp8": None, "bfloat16": "LATENT_B"}
    verdict = answer.backend("LATENT_B").verdicts["fp8"]
    assert verdict.valid is True
    assert verdict.later == ("LatentBImpl: ValueError: FP8 needs compute capability 8.9",)
    assert "then fail" in answer.notes[0]


def test_decode_context_parallelism_needs_what_the_check_says(engine: Path) -> None:
    answer = told(engine, "9.0", decode_context_parallel_size=8, kv_cache_dtypes=["auto"])
    assert answer.selected == {"auto": None}
    assert refusals(answer, "LATENT_A", "auto") == ["LatentAImpl returns no LSE"]
    assert told(engine, "12.0", decode_context_parallel_size=8).selected["auto"] == "LATENT_B"
    (engine / CP_UTILS).unlink()
    open_answer = told(engine, "12.0", decode_context_parallel_size=8)
    assert "cp_utils" in open_answer.backend("LATENT_B").verdicts["auto"].unknown[0]


def test_the_model_s_configuration_counts(engine: Path) -> None:
    other = replace(LATENT, text_config={"qk_nope_head_dim": 96})
    assert refusals(told(engine, "12.0", other), "LATENT_B", "auto") == ["needs qk_nope_head_dim in (64, 128), got 96"]
    unsaid = told(engine, "12.0", replace(LATENT, text_config={}, whole=False))
    assert unsaid.selected["auto"] is None
    assert "qk_nope_head_dim" in " ".join(unsaid.unanswered["auto"])


def test_the_environment_of_the_service_counts(engine: Path) -> None:
    answer = told(engine, "9.0", environment={"VLLM_BATCH_INVARIANT": "1"})
    assert refusals(answer, "LATENT_A", "auto") == ["batch invariance not supported"]
    assert answer.selected["auto"] == "LATENT_B"


def test_a_number_of_heads_can_decide_the_order(engine: Path) -> None:
    few = replace(LATENT, num_attention_heads=8)
    assert names(told(engine, "12.0", few)) == ["LATENT_B"]
    unknown = told(engine, "12.0", replace(LATENT, num_attention_heads=None))
    assert "num_heads" in unknown.unanswered["auto"][0] or names(unknown) == []


def test_a_packages_absence_is_a_refusal_where_the_environment_is_whole(engine: Path) -> None:
    sparse = replace(LATENT, use_sparse=True)
    lone = told(engine, "12.0", sparse)
    # The engine's files alone: `fast` is required and taken as installed, `rare` may or may not be there.
    assert lone.backend("SPARSE").verdicts["auto"].valid is None
    assert "rare" in " ".join(lone.unanswered["auto"])
    assert any("taken as installed" in note and "fast" in note for note in lone.notes)
    (engine / "torch").mkdir()
    assert refusals(told(engine, "12.0", sparse), "SPARSE", "auto") == ["ModuleNotFoundError: No module named 'fast'"]
    (engine / "fast").mkdir()
    assert refusals(told(engine, "12.0", sparse), "SPARSE", "auto") == ["rare is not installed"]
    (engine / "rare.py").touch()
    assert told(engine, "12.0", sparse).selected["auto"] == "SPARSE"


def test_what_the_network_decides_is_unknown_with_its_place(engine: Path) -> None:
    answer = told(engine, "12.0", GROUPED, kv_cache_dtypes=["fp8", "fp8_e5m2", "bfloat16"])
    assert answer.selected == {"fp8": None, "fp8_e5m2": None, "bfloat16": "GROUPED_A"}
    # Whatever the network says, one of the two is taken; fp8_e5m2 has no second one.
    assert answer.possible == {"fp8": ["GROUPED_A", "GROUPED_B"]}
    assert (answer.serving("fp8"), answer.serving("fp8_e5m2")) == (["GROUPED_A", "GROUPED_B"], [])
    assert answer.backend("GROUPED_B").verdicts["fp8"].valid is True
    assert any("urlopen(" in what and "grouped.py:14" in what for what in answer.unanswered["fp8"])


def test_a_named_backend_is_the_only_one_that_is_tried(engine: Path) -> None:
    answer = told(engine, "9.0", attention_backend="LATENT_B")
    assert names(answer) == ["LATENT_B"]
    assert answer.selected["fp8"] == "LATENT_B"
    with pytest.raises(ServingError, match=r"no attention backend LATENT_C.*LATENT_A, LATENT_B"):
        told(engine, "9.0", attention_backend="LATENT_C")


def test_a_dtype_that_the_engine_does_not_take_is_said(engine: Path) -> None:
    answer = told(engine, "12.0", kv_cache_dtypes=["bf16"])
    assert answer.selected == {"bf16": None}
    assert "does not know --kv-cache-dtype bf16" in answer.notes[0]
    edit(engine, CACHE, "CacheDType = Literal", "CacheDTypes = Literal")
    assert "CacheDType" in told(engine, "12.0").notes[0]
    assert list(told(engine, "12.0").selected) == ["auto", "bfloat16", "fp8", "fp8_e4m3"]


def test_an_argument_that_is_not_known_stays_at_its_default_and_is_told(engine: Path) -> None:
    edit(engine, BASE, "use_batch_invariant=False,", "use_batch_invariant=False, use_holograms=False,")
    answer = told(engine, "12.0")
    assert answer.selected["auto"] == "LATENT_B"
    assert "validate_configuration also takes use_holograms, which is left at its default" in answer.notes


def test_a_cpu_build_picks_one_backend_and_asks_nothing(engine: Path) -> None:
    answer = told(engine, "12.0", platform="cpu")
    assert answer.selected["auto"] == "ON_CPU"
    assert answer.selected["bfloat16"] == "ON_CPU"  # the model's dtype is what auto stores
    assert answer.selected["fp8"] is None
    assert refusals(answer, "ON_CPU", "fp8") == ["kv_cache_dtype not supported"]
    sparse = told(engine, "12.0", replace(LATENT, use_sparse=True), platform="cpu")
    assert sparse.selected["auto"] is None
    assert "NotImplementedError: sparse attention is not for CPUs" in sparse.notes[0]


@pytest.mark.parametrize("text", ["12", "sm_120", "", "12.0.0", "120"])
def test_a_capability_is_written_as_nvidia_writes_it(text: str) -> None:
    with pytest.raises(ServingError, match="no compute capability"):
        parse_capability(text)
