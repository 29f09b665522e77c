# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by an engine's own Python, with tests/ on its path: the parser of the vLLM that it imports, and what it says.

stdin: a list of argument lists. stdout: one JSON line {"version", "seconds" (import and parser), "flags": [{"options",
"choices", "default" (repr), "nargs"}], "errors": [null or message, ...]}.

With PYTHONPATH set to the sources of another release it is that release's parser. Packages that only that release
needs are replaced by empty stand-ins, and the platform is CPU, for a build for cards finds none here.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from typing import Any, NoReturn

from e2e.stand_ins import Finder

STARTED = time.perf_counter()
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ["VLLM_TARGET_DEVICE"] = "cpu"
STAND_INS: tuple[str, ...] = ("cbor2", "depyf", "gguf", "ijson", "orjson", "ray", "setproctitle")
PLACES = ("common.cli_args", "launchers.cli_args", "openai.cli_args")


class Refused(Exception):
    pass


def refuse(message: str) -> NoReturn:
    raise Refused(message)


def make_parser() -> Any:
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    vllm.platforms._current_platform = CpuPlatform()
    for place in PLACES:
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(f"vllm.entrypoints.{place}")
            return module.make_arg_parser(FlexibleArgumentParser())
    raise SystemExit("no module of this release has make_arg_parser")


def error_of(parser: Any, arguments: list[str]) -> str | None:
    """The parser's complaint; newer releases leave the KV cache's dtype to the object that holds it."""
    from vllm.config.cache import CacheConfig

    try:
        read = parser.parse_args(arguments)
        if any(argument.replace("_", "-").startswith("--kv-cache-dty") for argument in arguments):
            CacheConfig(cache_dtype=read.kv_cache_dtype)
    except (Refused, SystemExit) as refused:
        return str(refused)
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"
    return None


def main() -> None:
    with contextlib.redirect_stdout(sys.stderr):
        sys.meta_path.append(Finder(STAND_INS))
        parser = make_parser()
        seconds = time.perf_counter() - STARTED
        parser.error = refuse
        spellings: dict[int, list[str]] = {}
        for option, action in parser._option_string_actions.items():
            spellings.setdefault(id(action), []).append(option)
        flags = [
            {
                "options": spellings[id(action)],
                "choices": None if action.choices is None else list(action.choices),
                "default": repr(action.default),
                "nargs": action.nargs,
            }
            for action in parser._actions
            if action.option_strings
        ]
        errors = [error_of(parser, arguments) for arguments in json.load(sys.stdin)]
        version = importlib.import_module("vllm").__version__
    print(json.dumps({"version": version, "seconds": seconds, "flags": flags, "errors": errors}))


if __name__ == "__main__":
    main()
