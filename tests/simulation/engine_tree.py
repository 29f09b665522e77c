# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small folder of packages in the shape of an installed vLLM: enough source for its command line to be read.

The code is our own; only the names and the shape are those of vLLM. It is never imported, so what it imports need not
exist.
"""

from __future__ import annotations

from pathlib import Path

FILES = {
    "vllm/__init__.py": "",
    "vllm/_version.py": """
__version__ = version = "0.40.0"
__commit_id__ = commit_id = "gabcdef123"
""",
    "vllm/envs.py": """
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    VLLM_SHOW_ERRORS: bool = False


def one_of(name, default, choices):
    return lambda: os.getenv(name, default)


environment_variables = {
    "VLLM_CACHE_ROOT": lambda: os.getenv("VLLM_CACHE_ROOT", "/tmp"),
    "VLLM_SHOW_ERRORS": lambda: bool(int(os.getenv("VLLM_SHOW_ERRORS", "0"))),
    "VLLM_LEVEL": one_of("VLLM_LEVEL", "low", ["low", "high"]),
    "CUDA_VISIBLE_DEVICES": lambda: os.environ.get("CUDA_VISIBLE_DEVICES"),
}


def __getattr__(name):
    return environment_variables[name]()
""",
    "vllm/config/__init__.py": """
from .cache import CacheConfig
from .model import ModelConfig, Tuning
""",
    "vllm/config/base.py": """
from pydantic.dataclasses import dataclass


def config(cls):
    return dataclass(cls)
""",
    "vllm/config/cache.py": '''
from typing import Annotated, ClassVar, Literal, Optional, Union, get_args

from pydantic import Field, field_validator

from vllm.config.base import config

CacheDType = Literal["auto", "bfloat16", "fp8"]
Packed = Literal[CacheDType, "int4"]
PACKINGS = list(get_args(Packed))
SMALL, LARGE = 16, 1 << 4


def is_packing(value):
    return value in PACKINGS


@config
class CacheConfig:
    """Where keys and values are kept."""

    DEFAULT: ClassVar[int] = SMALL
    block_size: int = Field(default=None, gt=0)
    cache_dtype: CacheDType = "auto"
    """How keys and values are kept."""
    packing: Packed | str = "auto"
    fraction: float = Field(0.9, gt=0)
    prefix_caching: bool | None = None
    sizes: list[int] = Field(default_factory=lambda: [1, 2, 4])
    layout: Optional[Literal["rows", "columns"]] = None
    pair: tuple[int, int] = (1, 2)
    names: set[str] = Field(default_factory=set)
    policies: Annotated[list[Literal["first", "last"]] | None, "how"] = None
    bytes: Union[int, None] = None

    @field_validator("packing", mode="after")
    @classmethod
    def _check_packing(cls, value):
        if not is_packing(value):
            raise ValueError(f"{value!r} is no packing of {PACKINGS}")
        return value
''',
    "vllm/config/model.py": '''
import enum
from dataclasses import InitVar, field
from typing import TYPE_CHECKING, Any

from vllm.config.base import config
from .types import *

if TYPE_CHECKING:
    from vllm.elsewhere import Method
else:
    Method = str


class Level(enum.IntEnum):
    O0 = 0
    O2 = 2


@config
class Tuning:
    mode: str | None = None


@config
class Named:
    name: str = "model"
    old_name: str = ""
    """Deprecated and without effect. Use `name`."""


@config
class ModelConfig(Named):
    dtype: ModelDType = "auto"
    max_model_len: int | None = None
    method: Method | None = None
    token: bool | str | None = None
    tuning: Tuning = field(default_factory=Tuning)
    overrides: dict[str, Any] = field(default_factory=dict)
    file_or_overrides: dict | str = "auto"
    level: Level = Level.O2
    seed: InitVar[int] = 0
    size: "int" = max(4, 2) * 1024
''',
    "vllm/config/types.py": """
from typing import Literal

ModelDType = Literal["auto", "half", "float"]
""",
    "vllm/engine/arg_utils.py": '''
import argparse
import dataclasses
import functools
import json
import sys
from typing import Literal, get_args

from vllm.config import CacheConfig, ModelConfig
from vllm.config.cache import CacheDType
from vllm.platforms import current_platform
from vllm.plugins import load_general_plugins
from vllm.utils.argparse_utils import human_readable_int, human_readable_int_or_auto


def optional_type(convert):
    return lambda text: None if text in ("", "None") else convert(text)


def _expand_json_human_readable_numbers(text):
    return text


@functools.cache
def _compute_kwargs(cls):
    kwargs = {}
    for each in dataclasses.fields(cls):
        name, type_hints, dataclass_cls = each.name, hints(each), made(each)
        kwargs[name] = {"default": each.default}
        if dataclass_cls is not None:
            kwargs[name]["type"] = parser_of(dataclass_cls)
        elif type_hints == {bool, str, type(None)}:
            kwargs[name]["nargs"] = "?"
        elif contains_type(type_hints, bool):
            kwargs[name]["action"] = argparse.BooleanOptionalAction
        elif contains_type(type_hints, Literal):
            kwargs[name].update(literal_to_kwargs(type_hints))
        elif contains_type(type_hints, tuple):
            kwargs[name].update(collection_to_kwargs(type_hints, tuple))
        elif contains_type(type_hints, list):
            kwargs[name].update(collection_to_kwargs(type_hints, list))
        elif contains_type(type_hints, set):
            kwargs[name].update(collection_to_kwargs(type_hints, set))
        elif contains_type(type_hints, int):
            if name == "max_model_len":
                kwargs[name]["type"] = human_readable_int_or_auto
            elif name in {"bytes"}:
                kwargs[name]["type"] = human_readable_int
            else:
                kwargs[name]["type"] = int
        elif contains_type(type_hints, float):
            kwargs[name]["type"] = float
        elif contains_type(type_hints, dict) and (
            contains_type(type_hints, str) or any(is_not_builtin(th) for th in type_hints)
        ):
            kwargs[name]["type"] = union_dict_and_str
        elif contains_type(type_hints, dict):
            kwargs[name]["type"] = json.loads
        elif contains_type(type_hints, str) or any(is_not_builtin(th) for th in type_hints):
            kwargs[name]["type"] = str
        if None in type_hints:
            kwargs[name]["choices"].append(None)
    return kwargs


def get_kwargs(cls):
    return dict(_compute_kwargs(cls))


@dataclasses.dataclass
class EngineArgs:
    model: str = ModelConfig.name

    @staticmethod
    def add_cli_args(parser):
        """What the engine takes."""
        model_kwargs = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="Model", description=ModelConfig.__doc__)
        if not ("serve" in sys.argv[1:] and "--help" in sys.argv[1:]):
            group.add_argument("--model", **model_kwargs["name"])
        group.add_argument("--old-name", **model_kwargs["old_name"])
        group.add_argument("--dtype", **model_kwargs["dtype"])
        group.add_argument("--max-model-len", **model_kwargs["max_model_len"])
        group.add_argument("--quantization", "-q", **model_kwargs["method"])
        group.add_argument("--hf-token", **model_kwargs["token"])
        group.add_argument("--tuning", "-t", **model_kwargs["tuning"])
        group.add_argument("--hf-overrides", **model_kwargs["overrides"])
        group.add_argument("--extra", **model_kwargs["file_or_overrides"])
        group.add_argument("--optimization-level", **model_kwargs["level"])
        group.add_argument("--size", **model_kwargs["size"])
        cache_kwargs = get_kwargs(CacheConfig)
        cache = parser.add_argument_group(title="Cache")
        cache.add_argument("--block-size", **cache_kwargs["block_size"])
        cache.add_argument("--kv-cache-dtype", **cache_kwargs["cache_dtype"])
        cache.add_argument("--packing", **cache_kwargs["packing"])
        cache.add_argument("--gpu-memory-utilization", **cache_kwargs["fraction"])
        cache.add_argument("--enable-prefix-caching", **{**cache_kwargs["prefix_caching"], "default": None})
        cache.add_argument("--sizes", **cache_kwargs["sizes"])
        cache_kwargs["layout"]["choices"].remove("rows")
        cache.add_argument("--layout", **cache_kwargs["layout"])
        cache.add_argument("--pair", **cache_kwargs["pair"])
        cache.add_argument("--names", **cache_kwargs["names"])
        cache_kwargs["policies"]["choices"] += [",".join(get_args(CacheDType))]
        cache.add_argument("--policies", **cache_kwargs["policies"])
        cache.add_argument("--kv-bytes", **cache_kwargs["bytes"])
        backends = {"type": lambda s: s.lower().replace("-", "_"), "choices": ["auto", "fast_one"], "default": "auto"}
        cache.add_argument("--backend", **backends)
        cache.add_argument(
            "--where",
            choices=["auto", "cpu"] + ([current_platform.device_type] if current_platform.device_type else []),
            default="auto",
        )
        return parser


@dataclasses.dataclass
class AsyncEngineArgs(EngineArgs):
    enable_log_requests: bool = False

    @staticmethod
    def add_cli_args(parser, async_args_only=False):
        load_general_plugins()
        if not async_args_only:
            parser = EngineArgs.add_cli_args(parser)
        parser.add_argument(
            "--enable-log-requests",
            action=argparse.BooleanOptionalAction,
            default=AsyncEngineArgs.enable_log_requests,
        )
        parser.add_argument("--fail-on-environ-validation", action=argparse.BooleanOptionalAction, default=False)
        parser.add_argument("--old-switch", action="store_true", deprecated=True, help="[DEPRECATED] Use another.")
        current_platform.pre_register_and_update(parser)
        return parser
''',
    "vllm/entrypoints/cli/serve.py": """
from vllm.entrypoints.openai.cli_args import make_arg_parser
""",
    "vllm/entrypoints/openai/cli_args.py": """
import argparse
import json
import ssl
from dataclasses import field

import vllm.envs as envs
from vllm.config.base import config
from vllm.engine.arg_utils import AsyncEngineArgs, optional_type
from vllm.utils.argparse_utils import FlexibleArgumentParser

from .constants import MOST_HEADERS


class PairsAction(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, [value.split("=") for value in values])


@config
class BaseFrontendArgs:
    modules: list[str] | None = None
    show_errors: bool = envs.VLLM_SHOW_ERRORS

    @classmethod
    def _customize_cli_kwargs(cls, kwargs):
        kwargs["modules"]["type"] = optional_type(str)
        kwargs["modules"]["action"] = PairsAction
        return kwargs

    @classmethod
    def add_cli_args(cls, parser):
        from vllm.engine.arg_utils import get_kwargs

        kwargs = cls._customize_cli_kwargs(get_kwargs(cls))
        group = parser.add_argument_group(title=cls.__name__.replace("Args", ""), description=cls.__doc__)
        for key, value in kwargs.items():
            names = value.pop("flags", [])
            group.add_argument(*names, f"--{key.replace('_', '-')}", **value)
        return parser


@config
class FrontendArgs(BaseFrontendArgs):
    port: int = 8000
    allowed_origins: list[str] = field(default_factory=lambda: ["*"])
    api_key: list[str] | None = None
    cert_reqs: int = int(ssl.CERT_NONE)
    most_headers: int = MOST_HEADERS
    middleware: list[str] = field(default_factory=lambda: [])

    @classmethod
    def _customize_cli_kwargs(cls, kwargs):
        kwargs = super()._customize_cli_kwargs(kwargs)
        kwargs["allowed_origins"]["type"] = json.loads
        del kwargs["allowed_origins"]["nargs"]
        if "nargs" in kwargs["middleware"]:
            del kwargs["middleware"]["nargs"]
        kwargs["middleware"].update(action="append", type=str, default=[])
        return kwargs


def make_arg_parser(parser: FlexibleArgumentParser) -> FlexibleArgumentParser:
    parser.add_argument("model_tag", type=str, nargs="?")
    parser.add_argument("--headless", action="store_true", default=False)
    parser.add_argument("--api-server-count", "-asc", type=int, default=None)
    parser.add_argument("--config")
    parser = FrontendArgs.add_cli_args(parser)
    return AsyncEngineArgs.add_cli_args(parser)
""",
    "vllm/entrypoints/openai/constants.py": "MOST_HEADERS = 256\n",
    "vllm/platforms/__init__.py": """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    current_platform: object
""",
    "vllm/platforms/interface.py": '''
class Platform:
    @classmethod
    def pre_register_and_update(cls, parser=None) -> None:
        """Nothing, unless a platform has something to say."""
''',
    "vllm/plugins/__init__.py": "def load_general_plugins():\n    pass\n",
    "vllm/utils/argparse_utils.py": """
from argparse import ArgumentParser


def human_readable_int(text):
    return int(text)


def human_readable_int_or_auto(text):
    return int(text)


class FlexibleArgumentParser(ArgumentParser):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
""",
    "vllm-0.40.0.dist-info/METADATA": """
Metadata-Version: 2.4
Name: vllm
Version: 0.40.0

Version: of something else
""",
    "vllm-0.40.0.dist-info/RECORD": "vllm/__init__.py,sha256=0,0\n",
    "vllm-0.40.0.dist-info/entry_points.txt": "[vllm.general_plugins]\nown = vllm.plugins:own\n",
    "torch/version.py": """
from typing import Optional

__version__ = "2.14.0+cu130"
cuda: Optional[str] = "13.0"
hip: Optional[str] = None
""",
}


def write(root: Path) -> Path:
    """Write the folder; -> it."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"))
    return root


def edit(root: Path, name: str, before: str, after: str) -> None:
    """Change one place of a file, as a new release would; it must be there."""
    path = root / name
    text = path.read_text()
    assert text.count(before) == 1, f"{before!r} stands {text.count(before)} times in {name}"
    path.write_text(text.replace(before, after))
