# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sources of published vLLM releases make of a checkpoint, against what the collection says they do.

resolver_of_source.py runs the release's own functions; the sources are fetched once (vllm_sources.py).
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.documents import Contents, interpret
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.kv_cache_decision import decide
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_rules import (
    ResolverRules,
    rules_for,
)
from ansible_collections.blackwell.serving.plugins.module_utils.checkpoint.resolver_source import rules_of_installation
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from e2e.kv_dtype_shapes import (
    architecture_shapes,
    compressed_tensors_shapes,
    edited,
    modelopt_shapes,
    odd_shapes,
    quark_shapes,
    write,
)
from e2e.vllm_sources import RELEASES, sources

pytestmark = pytest.mark.long

RESOLVER = Path(__file__).with_name("resolver_of_source.py")
FLAGS = ("auto", "bfloat16", "fp8")
REFUSED = "refused"


@pytest.fixture(scope="module")
def checkpoints() -> list[Contents]:
    return [
        *modelopt_shapes(),
        *compressed_tensors_shapes(),
        *quark_shapes(),
        *architecture_shapes(),
        *odd_shapes(),
    ]


def ask(
    site_packages: Path,
    folder: Path,
    questions: Sequence[tuple[Contents, str]],
    rules: ResolverRules,
    capability: str = "12.0",
) -> list[str]:
    """The release's answer to each checkpoint with each flag; every exception is one word."""
    places = {id(contents): write(folder / str(number), contents) for number, contents in enumerate(_unique(questions))}
    asked = [
        (str(places[id(contents)]), interpret(contents, rules).use_mla, flag, capability)
        for contents, flag in questions
    ]
    done = subprocess.run(
        [sys.executable, str(RESOLVER), str(site_packages)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
    )
    return [
        REFUSED if ":" in answer and not answer.startswith("per head:") else answer
        for answer in json.loads(done.stdout)
    ]


def _unique(questions: Sequence[tuple[Contents, str]]) -> list[Contents]:
    return list({id(contents): contents for contents, _flag in questions}.values())


def expected(contents: Contents, flag: str, rules: ResolverRules, capability: str = "12.0") -> str:
    quantization = interpret(contents, rules)
    if any(not item.chooses_backend for item in quantization.refusals):
        return REFUSED
    resolution = quantization.resolution
    resolved = flag if flag != "auto" else "auto" if resolution.by_layer else resolution.dtype
    if resolved == "nvfp4" and quantization.use_mla and rules.nvfp4_refused_with_mla:
        return REFUSED
    own = contents["config.json"].get("dtype", "bfloat16")
    if rules.float_flag_is_model_dtype and resolved in ("float16", "bfloat16") and resolved != own:
        return REFUSED
    if resolved == "auto" and quantization.auto_on_sm10x is not None and capability == "10.0":
        resolved = quantization.auto_on_sm10x
    if resolution.by_layer and (resolved == "auto" or resolution.overrides_flag):
        resolved = resolution.dtype
    return f"per head: {resolved}" if quantization.refusals else resolved


@pytest.mark.parametrize("release", RELEASES)
def test_the_rules_read_in_the_source_are_those_of_the_table(release: str) -> None:
    assert rules_of_installation(sources(release)) == rules_for(release)


@pytest.mark.parametrize("capability", ["12.0", "10.0"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_release_settles_the_dtype_as_the_collection_says(
    release: str, capability: str, checkpoints: list[Contents], tmp_path: Path
) -> None:
    rules = rules_for(release)
    asked = checkpoints if capability == "12.0" else list(architecture_shapes())
    questions = list(itertools.product(asked, FLAGS))
    answers = ask(sources(release), tmp_path / "published", questions, rules, capability)
    different = [
        (contents, flag, answer, expected(contents, flag, rules, capability))
        for (contents, flag), answer in zip(questions, answers, strict=True)
        if answer != expected(contents, flag, rules, capability)
    ]
    assert different == []
    refused = answers.count(REFUSED)
    print(
        f"\nvLLM {release} on {capability}: {len(questions)} questions answered alike, {refused} of them refused",
        end="",
    )


@pytest.mark.parametrize("release", RELEASES)
def test_after_the_patch_auto_is_the_models_dtype(release: str, checkpoints: list[Contents], tmp_path: Path) -> None:
    """Also of what did not start before, where a KV-cache setting was why; what is refused does not start either."""
    rules = rules_for(release)
    patched: list[Contents] = []
    left_alone: list[Contents] = []
    for contents in checkpoints:
        starts = all(item.by_patch for item in interpret(contents, rules).refusals)
        try:
            result = edited(contents, rules)
        except ServingError:
            left_alone.append(contents)
            continue
        (patched if starts else left_alone).append(result)
    questions = [(contents, "auto") for contents in (*patched, *left_alone)]
    answers = ask(sources(release), tmp_path / "patched", questions, rules)
    assert set(answers[: len(patched)]) == {"auto"}
    assert set(answers[len(patched) :]) == {REFUSED}
    print(f"\nvLLM {release}: {len(patched)} patched checkpoints resolve to the model's dtype", end="")


@pytest.mark.parametrize("capability", ["12.0", "10.0"])
@pytest.mark.parametrize("recommended", ["bfloat16", "fp8"])
@pytest.mark.parametrize("release", RELEASES)
def test_the_decision_leads_to_the_dtype_that_it_names(
    release: str, recommended: str, capability: str, checkpoints: list[Contents], tmp_path: Path
) -> None:
    """The flag alone where the decision says so, flag and patched files where it does not suffice."""
    rules = rules_for(release)
    questions: list[tuple[Contents, str]] = []
    refused: list[tuple[Contents, str]] = []
    patches = 0
    for published in checkpoints if capability == "12.0" else architecture_shapes():
        contents = {**published, "config.json": {**published["config.json"], "dtype": "bfloat16"}}
        try:
            decision = decide(contents, rules, recommended=recommended, compute_capability=capability)
        except ServingError:
            refused.append((contents, recommended))
            continue
        assert decision.stored_as == recommended
        patches += decision.must_patch
        files = edited(contents, rules) if decision.must_patch else contents
        questions.append((files, decision.kv_cache_dtype))
        if decision.must_patch:  # and it was needed: the flag alone leads elsewhere
            alone = expected(contents, decision.kv_cache_dtype, rules, capability)
            assert alone != decision.kv_cache_dtype
    answers = ask(sources(release), tmp_path / "decided", [*questions, *refused], rules, capability)
    wanted = {"auto", recommended} if recommended == "bfloat16" else {recommended, f"per head: {recommended}"}
    assert set(answers[: len(questions)]) <= wanted
    assert set(answers[len(questions) :]) <= {REFUSED}
    what = f"{len(questions)} decisions for {recommended} hold, {patches} of them need a patch"
    print(f"\nvLLM {release} on {capability}: {what}", end="")
