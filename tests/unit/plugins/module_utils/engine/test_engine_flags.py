# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flags read from a small source tree in the shape of vLLM's, and from edited copies: the answer follows the edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine import flags
from ansible_collections.blackwell.serving.plugins.module_utils.engine.command_line.parser import Flag
from ansible_collections.blackwell.serving.plugins.module_utils.engine.engine_info import plain
from ansible_collections.blackwell.serving.plugins.module_utils.engine.source.values import Instance, Member, Unknown
from ansible_collections.blackwell.serving.plugins.module_utils.errors import ServingError
from simulation import engine_tree

ARGUMENTS = "vllm/engine/arg_utils.py"
FRONTEND = "vllm/entrypoints/openai/cli_args.py"
CACHE = "vllm/config/cache.py"
PARSER = "vllm/utils/argparse_utils.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return engine_tree.write(tmp_path)


def flag(root: Path, name: str, environment: dict[str, str] | None = None) -> Flag:
    return flags.read(root, environment).flags[name]


@pytest.mark.parametrize(
    ("name", "nargs", "choices", "default"),
    [
        ("--headless", 0, None, False),
        ("--api-server-count", None, None, None),
        ("--modules", "+", None, None),
        ("--allowed-origins", None, None, ["*"]),
        ("--cert-reqs", None, None, 0),
        ("--most-headers", None, None, 256),
        ("--middleware", None, None, []),
        ("--model", None, None, "model"),
        ("--dtype", None, ["auto", "float", "half"], "auto"),
        ("--quantization", None, None, None),
        ("--hf-token", "?", None, None),
        ("--hf-overrides", None, None, {}),
        ("--size", None, None, 4096),
        ("--kv-cache-dtype", None, ["auto", "bfloat16", "fp8"], "auto"),
        ("--packing", None, None, "auto"),
        ("--gpu-memory-utilization", None, None, 0.9),
        ("--enable-prefix-caching", 0, None, None),
        ("--sizes", "+", None, [1, 2, 4]),
        ("--layout", None, ["columns", None], None),
        ("--pair", 2, None, (1, 2)),
        ("--names", "+", None, set()),
        ("--policies", "+", ["first", "last", None, "auto,bfloat16,fp8"], None),
        ("--backend", None, ["auto", "fast_one"], "auto"),
    ],
)
def test_what_a_flag_takes(root: Path, name: str, nargs: Any, choices: Any, default: Any) -> None:
    read = flag(root, name)
    assert (read.nargs, read.choices, read.default) == (nargs, choices, default)
    assert not read.conditional


def test_all_flags_and_nothing_else(root: Path) -> None:
    read = flags.read(root)
    assert len(read.flags) == 39
    assert read.positionals == ["model_tag"]
    assert read.lost == read.notes == []


def test_spellings(root: Path) -> None:
    assert flag(root, "--api-server-count").options == ("--api-server-count", "-asc")
    assert flag(root, "--enable-log-requests").options == ("--enable-log-requests", "--no-enable-log-requests")


def test_objects_as_defaults(root: Path) -> None:
    level, tuning = flag(root, "--optimization-level").default, flag(root, "--tuning").default
    assert isinstance(level, Member) and (level.of.name, level.name, plain(level)) == ("Level", "O2", 2)
    assert isinstance(tuning, Instance) and plain(tuning) == "Tuning()"


def test_a_default_that_depends_on_the_environment(root: Path) -> None:
    assert flag(root, "--show-errors").default is False
    assert flag(root, "--show-errors", {"VLLM_SHOW_ERRORS": "1"}).default is True


def test_what_depends_on_the_card_is_unknown(root: Path) -> None:
    read = flag(root, "--where")
    assert isinstance(read.choices, Unknown) and f"{root}/{ARGUMENTS}" in str(read.choices)
    assert read.default == "auto"


def test_deprecations(root: Path) -> None:
    assert flag(root, "--old-switch").deprecated == "[DEPRECATED] Use another."
    assert flag(root, "--old-name").deprecated == "Deprecated and without effect. Use `name`."
    assert flag(root, "--dtype").deprecated is None


def test_a_flag_that_is_added(root: Path) -> None:
    line = '        group.add_argument("--size", **model_kwargs["size"])\n'
    added = '        group.add_argument("--brand-new", "-bn", type=int, choices=[1, 2], default=2)\n'
    engine_tree.edit(root, ARGUMENTS, line, line + added)
    read = flag(root, "--brand-new")
    assert (read.options, read.choices, read.default) == (("--brand-new", "-bn"), [1, 2], 2)


def test_a_field_that_becomes_a_flag(root: Path) -> None:
    engine_tree.edit(root, FRONTEND, "    port: int = 8000\n", "    port: int = 8001\n    brand_new: bool = True\n")
    assert flag(root, "--port").default == 8001
    assert flag(root, "--brand-new").options == ("--brand-new", "--no-brand-new")
    assert flag(root, "--brand-new").default is True


def test_a_flag_that_is_renamed(root: Path) -> None:
    engine_tree.edit(root, ARGUMENTS, '"--gpu-memory-utilization"', '"--device-memory-utilization"')
    read = flags.read(root).flags
    assert "--gpu-memory-utilization" not in read
    assert read["--device-memory-utilization"].default == 0.9


def test_a_literal_that_grows(root: Path) -> None:
    engine_tree.edit(root, CACHE, 'Literal["auto", "bfloat16", "fp8"]', 'Literal["auto", "bfloat16", "fp8", "nvfp4"]')
    assert flag(root, "--kv-cache-dtype").choices == ["auto", "bfloat16", "fp8", "nvfp4"]
    assert flag(root, "--packing").named == ["auto", "bfloat16", "fp8", "int4", "nvfp4"]


def test_a_literal_that_takes_other_text_too_has_no_choices(root: Path) -> None:
    engine_tree.edit(root, CACHE, "cache_dtype: CacheDType =", "cache_dtype: CacheDType | str =")
    read = flag(root, "--kv-cache-dtype")
    assert read.choices is None
    assert read.named == ["auto", "bfloat16", "fp8"]


def test_a_literal_that_depends_on_a_condition(root: Path) -> None:
    engine_tree.edit(root, CACHE, "\nPacked =", '\nif fast():\n    CacheDType = Literal["auto"]\nPacked =')
    read = flag(root, "--kv-cache-dtype")
    assert isinstance(read.choices, Unknown)
    assert read.default == "auto"


def test_the_last_binding_wins_and_an_except_clause_does_not(root: Path) -> None:
    tried = 'try:\n    CacheDType = Literal["auto", "late"]\nexcept ImportError:\n    CacheDType = Literal["never"]\n'
    engine_tree.edit(root, CACHE, "\nPacked =", f"\n{tried}Packed =")
    assert flag(root, "--kv-cache-dtype").choices == ["auto", "late"]


def test_the_command_may_keep_its_parser_elsewhere(root: Path) -> None:
    (root / "vllm/entrypoints/common").mkdir()
    (root / FRONTEND).rename(root / "vllm/entrypoints/common/cli_args.py")
    (root / "vllm/entrypoints/openai/constants.py").rename(root / "vllm/entrypoints/common/constants.py")
    engine_tree.edit(root, "vllm/entrypoints/cli/serve.py", "openai", "common")
    assert len(flags.read(root).flags) == 39


def test_switches_that_the_parser_spells_in_two_ways(root: Path) -> None:
    prefixes = '{"--enable-": "--disable-", "--disable-": "--enable-"}'
    action = f"class TwoWays(BooleanOptionalAction):\n    _inverse_prefixes = {prefixes}\n\n\n"
    engine_tree.edit(root, PARSER, "import ArgumentParser", "import ArgumentParser, BooleanOptionalAction")
    engine_tree.edit(root, PARSER, "class FlexibleArgumentParser(", f"{action}class FlexibleArgumentParser(")
    register = (
        '        super().__init__(*args, **kwargs)\n        self.register("action", BooleanOptionalAction, TwoWays)\n'
    )
    engine_tree.edit(root, PARSER, "        super().__init__(*args, **kwargs)\n", register)
    spelled = ("--enable-log-requests", "--no-enable-log-requests", "--disable-log-requests")
    assert flag(root, "--enable-log-requests").options == spelled
    assert flag(root, "--headless").options == ("--headless",)


def test_an_action_that_the_parser_replaces_in_an_unknown_way(root: Path) -> None:
    start = "        super().__init__(*args, **kwargs)\n"
    engine_tree.edit(root, PARSER, start, start + '        self.register("action", "store", Other)\n')
    (reason,) = flags.read(root).lost
    assert f"{root}/{PARSER}" in reason


@pytest.mark.parametrize(
    "statement",
    [
        "parser.add_argument(name_of(parser))",
        "other_package.add_flags(parser)",
        "for name in names():\n            parser.add_argument(name)",
        "while parser.add_argument('--a'):\n            pass",
        "parser.add_subparsers()",
    ],
)
def test_what_cannot_be_followed_is_said(root: Path, statement: str) -> None:
    engine_tree.edit(
        root, ARGUMENTS, "        cache_kwargs = get_kwargs", f"        {statement}\n        cache_kwargs = get_kwargs"
    )
    read = flags.read(root)
    assert len(read.lost) >= 1
    assert f"{root}/{ARGUMENTS}" in read.lost[0]
    assert "--kv-cache-dtype" in read.flags


def test_a_flag_under_a_condition_that_cannot_be_told(root: Path) -> None:
    line = '        group.add_argument("--size", **model_kwargs["size"])\n'
    engine_tree.edit(root, ARGUMENTS, line, f"        if current_platform.is_fast():\n    {line}")
    assert flag(root, "--size").conditional
    assert flags.read(root).lost == []


@pytest.mark.parametrize(
    "statement",
    [
        'cache_kwargs["layout"]["choices"].remove(unknown_name)',
        'cache_kwargs["layout"]["choices"] = current_platform.layouts()',
        'cache_kwargs["layout"]["choices"] += current_platform.layouts()',
        'cache_kwargs["layout"].update(current_platform.layout())',
        'if current_platform.is_fast():\n            cache_kwargs["layout"]["choices"].append("fast")',
    ],
)
def test_choices_that_are_changed_in_a_way_that_cannot_be_told(root: Path, statement: str) -> None:
    engine_tree.edit(root, ARGUMENTS, 'cache_kwargs["layout"]["choices"].remove("rows")', statement)
    assert isinstance(flag(root, "--layout").choices, Unknown)
    assert flag(root, "--kv-cache-dtype").choices == ["auto", "bfloat16", "fp8"]


def test_a_kind_of_field_that_is_new(root: Path) -> None:
    new = "        elif contains_type(type_hints, frozenset):\n            pass\n"
    engine_tree.edit(
        root,
        ARGUMENTS,
        "        elif contains_type(type_hints, float):\n",
        f"{new}        elif contains_type(type_hints, float):\n",
    )
    read = flags.read(root)
    assert isinstance(read.flags["--kv-cache-dtype"].choices, Unknown)
    assert read.flags["--kv-cache-dtype"].default == "auto"
    assert any("frozenset" in note for note in read.notes)
    assert read.flags["--backend"].choices == ["auto", "fast_one"]


def test_a_platform_that_adds_flags(root: Path) -> None:
    body = '        """Nothing, unless a platform has something to say."""\n'
    engine_tree.edit(root, "vllm/platforms/interface.py", body, body + '        parser.add_argument("--mine")\n')
    assert "interface.py" in flags.read(root).lost[0]


def test_plugins_that_may_add_flags(root: Path) -> None:
    other = root / "other-1.0.dist-info"
    other.mkdir()
    (other / "entry_points.txt").write_text(
        "[console_scripts]\na = b:c\n\n[vllm.general_plugins]\nmore = other:register\n"
    )
    assert flags.read(root).lost == ["the plugin more of other-1.0 may add flags"]


def test_a_file_with_a_syntax_error(root: Path) -> None:
    with (root / CACHE).open("a") as file:
        file.write("def broken(:\n")
    line = len((root / CACHE).read_text().splitlines())
    with pytest.raises(ServingError, match="cannot read") as caught:
        flags.read(root)
    assert f"{root}/{CACHE}:{line}" in str(caught.value)


def test_a_file_that_is_no_text(root: Path) -> None:
    (root / CACHE).write_bytes(b"x = '\xff\xfe'\n\0")
    with pytest.raises(ServingError, match=CACHE):
        flags.read(root)


@pytest.mark.parametrize("name", ["vllm/entrypoints/cli/serve.py", ARGUMENTS])
def test_a_vllm_without_the_known_files(root: Path, name: str) -> None:
    (root / name).unlink()
    with pytest.raises(ServingError, match="the flags of the installed engine cannot be told") as caught:
        flags.read(root)
    assert str(root) in str(caught.value)


def test_a_parser_that_adds_nothing(root: Path) -> None:
    (root / FRONTEND).write_text("def make_arg_parser(parser):\n    return parser\n")
    with pytest.raises(ServingError, match=FRONTEND):
        flags.read(root)


def test_sources_that_refer_to_each_other(root: Path) -> None:
    (root / CACHE).write_text("from .other import *\n")
    (root / "vllm/config/other.py").write_text("from .cache import *\n\n\nclass CacheConfig(CacheConfig): ...\n")
    read = flags.read(root)
    assert isinstance(read.flags["--kv-cache-dtype"].choices, Unknown)
    assert read.flags["--dtype"].choices == ["auto", "float", "half"]


def test_sources_that_nest_too_deeply(root: Path) -> None:
    engine_tree.edit(root, FRONTEND, "    port: int = 8000\n", f"    port: int = {'1 + ' * 2000}1\n")
    with pytest.raises(ServingError, match="nest too deeply"):
        flags.read(root)
