# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installed engine would say to argument lists; tests/e2e compares the same with real parsers."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine import argument_check, flags
from ansible_collections.blackwell.serving.plugins.module_utils.engine.argument_check import Verdict, check
from ansible_collections.blackwell.serving.plugins.module_utils.engine.command_line import conversions
from hypothesis import given
from hypothesis import strategies as st
from simulation import engine_tree

CACHE = "vllm/config/cache.py"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return engine_tree.write(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def command_line(root: Path) -> flags.CommandLine:
    return flags.read(root)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["model"],
        ["--model", "a", "model"],
        ["--kv-cache-dtype", "fp8"],
        ["--kv_cache_dtype=fp8"],
        ["--kv-cache", "fp8"],
        ["--no-enable-prefix-caching"],
        ["--enable-prefix-c", "--headless"],
        ["-asc", "3"],
        ["-asc=3"],
        ["-q", "x_y"],
        ["-O3"],
        ["-O=2"],
        ["-O", "1"],
        ["--tuning.mode", "fast"],
        ["-t.mode=fast", "-t.more.deep", "1k", "--tuning.list+", "a,b"],
        ["--tuning", '{"mode": 1k}'],
        ["--layout", "None"],
        ["--max-model-len", "auto"],
        ["--max-model-len", "1.5k"],
        ["--kv-bytes", "2G"],
        ["--sizes", "1", "2", "3"],
        ["--pair", "1", "2"],
        ["--hf-token"],
        ["--hf-token", "abc"],
        ["--backend", "Fast-One"],
        ["--api-server-count", "-1"],
        ["--extra", "text with a space"],
        ["--extra", '{"a": 1}'],
        ["--policies", "first", "last"],
        ["--", "model"],
    ],
)
def test_accepted(command_line: flags.CommandLine, arguments: list[str]) -> None:
    verdict = check(command_line, arguments)
    assert verdict == Verdict(deprecated=[], notes=[])
    assert verdict.accepted


@pytest.mark.parametrize(
    ("arguments", "flag", "message"),
    [
        (["--kv-cache-dtype", "bf16"], "--kv-cache-dtype", "invalid choice"),
        (["--kv_cache_dtype=bf16"], "--kv_cache_dtype", "invalid choice"),
        (["--layout", "rows"], "--layout", "invalid choice"),
        (["--backend", "slow"], "--backend", "invalid choice"),
        (["--policies", "first", "middle"], "--policies", "invalid choice"),
        (["--port", "http"], "--port", "invalid value 'http'"),
        (["--gpu-memory-utilization", "90%"], "--gpu-memory-utilization", "invalid value"),
        (["--kv-bytes", "1.5K"], "--kv-bytes", "invalid value"),
        (["--tuning", "{mode: 1}"], "--tuning", "invalid value"),
        (["--hf-overrides", "[1"], "--hf-overrides", "invalid value"),
        (["--api-server-count"], "--api-server-count", "expected one argument"),
        (["--port", "--headless"], "--port", "expected one argument"),
        (["--pair", "1"], "--pair", "expected 2 arguments"),
        (["--headless=yes"], "--headless", "ignored explicit argument"),
        (["--tuning.mode"], "--tuning.mode", "expected one argument"),
        (["--m", "3"], "--m", "ambiguous option"),
        (["--enable", "--headless"], "--enable", "ambiguous option"),
        (["a", "b"], None, "unrecognized arguments: b"),
        (["--port", "1", "2", "3"], None, "unrecognized arguments: 3"),
        (["--packing", "odd"], "--packing", "'odd' is no packing of ['auto', 'bfloat16', 'fp8', 'int4']"),
    ],
)
def test_refused(command_line: flags.CommandLine, arguments: list[str], flag: str | None, message: str) -> None:
    verdict = check(command_line, arguments)
    (refused,) = verdict.refused
    assert refused["flag"] == flag
    assert message in refused["message"]
    assert not verdict.removed and not verdict.accepted


def test_the_choices_and_the_nearest_of_them_are_shown(command_line: flags.CommandLine) -> None:
    (refused,) = check(command_line, ["--kv-cache-dtype", "bf16"]).refused
    assert refused["choices"] == ["auto", "bfloat16", "fp8"]
    assert (refused["value"], refused["nearest"]) == ("bf16", "bfloat16")


@pytest.mark.parametrize(
    ("flag", "replacement", "advice", "nearest"),
    [
        ("--disable-log-requests", "--no-enable-log-requests", "off by default", "--enable-log-requests"),
        ("--swap-space", None, "Leave it out", None),
        ("--rope-scaling", "--hf-overrides", "rope_scaling", None),
        ("--kv-cache-dtyp-e", None, None, "--kv-cache-dtype"),
        ("--no-such-thing", None, None, None),
        ("-x", None, None, None),
    ],
)
def test_removed(
    command_line: flags.CommandLine, flag: str, replacement: str | None, advice: str | None, nearest: str | None
) -> None:
    verdict = check(command_line, ["--headless", flag, "value", "--port", "1"])
    (removed,) = verdict.removed
    assert (removed["flag"], removed["replacement"], removed["nearest"]) == (flag, replacement, nearest)
    assert (removed["advice"] is None) if advice is None else (advice in removed["advice"])
    assert not verdict.refused and not verdict.accepted


def test_a_removed_flag_is_told_as_it_was_written(command_line: flags.CommandLine) -> None:
    arguments = ["--disable_log_requests", "--old-thing=4", "--thing.x", "1", "--no-swap-space"]
    removed = check(command_line, arguments).removed
    assert [each["flag"] for each in removed] == [
        "--disable_log_requests",
        "--old-thing",
        "--no-swap-space",
        "--thing.x",
    ]
    assert removed[2]["advice"].startswith("Leave it out")


def test_a_replacement_that_is_not_installed_is_not_advised(command_line: flags.CommandLine) -> None:
    (removed,) = check(command_line, ["--cuda-graph-sizes", "1"]).removed
    assert (removed["replacement"], removed["advice"]) == (None, None)


def test_a_switch_that_is_on_is_turned_off_by_its_negation(tmp_path: Path) -> None:
    root = engine_tree.write(tmp_path)
    engine_tree.edit(
        root, "vllm/engine/arg_utils.py", "enable_log_requests: bool = False", "enable_log_requests: bool = True"
    )
    (removed,) = check(flags.read(root), ["--disable-log-requests"]).removed
    assert removed["advice"] == "--no-enable-log-requests says the same"


def test_deprecated_flags_are_accepted(command_line: flags.CommandLine) -> None:
    verdict = check(command_line, ["--old_switch"])
    assert verdict.deprecated == [{"flag": "--old_switch", "message": "[DEPRECATED] Use another."}]
    assert verdict.accepted


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["--where", "cuda"], "--where is not judged"),
        (["--modules", "a=b"], "--modules is not judged"),
        (["--config", "a.yaml"], "--config"),
    ],
)
def test_what_is_not_judged_is_said(command_line: flags.CommandLine, arguments: list[str], note: str) -> None:
    verdict = check(command_line, arguments)
    assert verdict.accepted
    assert note in " ".join(verdict.notes)


def test_a_value_beside_the_named_ones_without_a_check(tmp_path: Path) -> None:
    root = engine_tree.write(tmp_path)
    engine_tree.edit(root, CACHE, "if not is_packing(value):", "if not is_loaded(value):")
    verdict = check(flags.read(root), ["--packing", "odd"])
    assert verdict.accepted
    assert "--packing odd is none of those" in verdict.notes[0]


def test_unknown_flags_beside_a_plugin_are_not_held_against_anyone(tmp_path: Path) -> None:
    root = engine_tree.write(tmp_path)
    (root / "other-1.0.dist-info").mkdir()
    (root / "other-1.0.dist-info/entry_points.txt").write_text("[vllm.platform_plugins]\nmine = other:platform\n")
    verdict = check(flags.read(root), ["--from-the-plugin", "1", "--packing", "odd"])
    assert [each["flag"] for each in verdict.removed] == ["--from-the-plugin"]
    assert not verdict.certain and not verdict.refused and verdict.accepted
    assert not check(flags.read(root), ["--kv-cache-dtype", "bf16"]).accepted


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key"] + ["s3cr3t-canary"] * 2 + ["--headless=s3cr3t-canary"],
        ["--api_key=s3cr3t-canary", "--api-keys", "s3cr3t-canary", "s3cr3t-canary"],
        ["--hf-token", "s3cr3t-canary", "--hf-token=s3cr3t-canary", "--port=hf_s3cr3tcanary"],
    ],
)
def test_secrets_are_not_shown(command_line: flags.CommandLine, arguments: list[str]) -> None:
    verdict = check(command_line, [argument for argument in arguments if not argument.startswith("--headless")])
    assert "s3cr3t" not in str(verdict)


@given(
    st.lists(st.one_of(st.text(max_size=12), st.sampled_from(["--port", "--tuning.a", "-O", "--", "-t.", "--.=", "-"])))
)
def test_any_argument_list_gets_a_verdict(command_line: flags.CommandLine, arguments: list[str]) -> None:
    check(command_line, arguments)


@given(st.integers(0, 10**6), st.sampled_from("kKmMgGtT"))
def test_readable_numbers(number: int, suffix: str) -> None:
    power = "kmgt".index(suffix.lower()) + 1
    base = 1000 if suffix.islower() else 1024
    assert conversions.human_readable_int(f"{number}{suffix}") == number * base**power
    assert conversions.human_readable_int_or_auto(str(number)) == number


def test_words_without_a_flag_are_counted_against_the_positionals(command_line: flags.CommandLine) -> None:
    assert argument_check.check(command_line, ["model", "--headless", "more"]).refused[0]["value"] == "more"
