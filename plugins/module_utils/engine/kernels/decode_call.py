# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""How the installed TRITON_MLA backend calls its decode kernels, read from the source without importing it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from .terms import UnknownError

BACKEND_FILE = "vllm/v1/attention/backends/mla/triton_mla.py"
FUNCTION = "decode_attention_fwd"
# The arguments whose tensors and numbers the probe can make up from the model's shape (program.py does).
MADE_UP = frozenset(
    {
        "q",
        "k_buffer",
        "v_buffer",
        "o",
        "lse",
        "req_to_token",
        "b_seq_len",
        "attn_logits",
        "num_kv_splits",
        "sm_scale",
        "page_size",
        "k_scale",
        "v_scale",
    }
)


@dataclass(frozen=True)
class DecodeCall:
    """file: the source that holds the kernels and their launcher, below site-packages.

    literals: arguments that the backend passes as constants ({"is_mla": True}). made_up: those that hold tensors and
    numbers of the running engine.
    """

    file: str
    literals: dict[str, str | int | float | bool | None]
    made_up: tuple[str, ...]


def read_decode_call(site_packages: Path) -> DecodeCall:
    """The one call of decode_attention_fwd in triton_mla.py, bound to the parameters of the function it names.

    UnknownError: a file, the function, or an argument is not as in the releases that are known (0.15 to 0.33).
    """
    backend = _parse(site_packages, BACKEND_FILE)
    module, local_name = _import_of(backend)
    file = module.replace(".", "/") + ".py"
    given = _bind(_only_call(backend, local_name), _parameters(_parse(site_packages, file), file))
    literals: dict[str, str | int | float | bool | None] = {
        name: value.value
        for name, value in given.items()
        if isinstance(value, ast.Constant) and isinstance(value.value, (str, int, float, bool, type(None)))
    }
    made_up = tuple(name for name in given if name not in literals)
    strange = sorted(set(made_up) - MADE_UP)
    if strange:
        raise UnknownError(
            f"{BACKEND_FILE} passes {FUNCTION}({strange[0]}={ast.unparse(given[strange[0]])}); "
            f"expected a constant or one of {', '.join(sorted(MADE_UP))}"
        )
    return DecodeCall(file, literals, made_up)


def _parse(site_packages: Path, name: str) -> ast.Module:
    try:
        return ast.parse((site_packages / name).read_bytes())
    except OSError as error:
        raise UnknownError(f"{name}: {error.strerror}; expected the TRITON_MLA decode attention there") from error
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UnknownError(f"{name} is not Python that can be read: {error}") from error


def _import_of(backend: ast.Module) -> tuple[str, str]:
    """(module, local name) of the decode function that the backend imports."""
    for node in backend.body:
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("vllm."):
            for alias in node.names:
                if alias.name == FUNCTION:
                    return str(node.module), alias.asname or alias.name
    raise UnknownError(f"{BACKEND_FILE} imports no {FUNCTION}; expected `from vllm... import {FUNCTION}`")


def _only_call(backend: ast.Module, name: str) -> ast.Call:
    calls = [
        node
        for node in ast.walk(backend)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]
    if len(calls) != 1:
        raise UnknownError(f"{BACKEND_FILE} calls {FUNCTION} {len(calls)} times; expected one call")
    return calls[0]


def _parameters(kernels: ast.Module, file: str) -> dict[str, bool]:
    """The function's parameters in order; True where one must be given."""
    for node in kernels.body:
        if isinstance(node, ast.FunctionDef) and node.name == FUNCTION:
            signature = node.args
            if signature.vararg or signature.kwarg or signature.posonlyargs:
                raise UnknownError(f"{file}: {FUNCTION} has *, / or ** parameters; expected named ones")
            optional = len(signature.defaults)
            required = len(signature.args) - optional
            named = {argument.arg: index < required for index, argument in enumerate(signature.args)}
            keyword = zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
            return {**named, **{argument.arg: default is None for argument, default in keyword}}
    raise UnknownError(f"{file} has no function {FUNCTION}")


def _bind(call: ast.Call, parameters: dict[str, bool]) -> dict[str, ast.expr]:
    """{parameter: expression} of the call, as Python would bind it."""
    names = list(parameters)
    if any(isinstance(value, ast.Starred) for value in call.args) or any(word.arg is None for word in call.keywords):
        raise UnknownError(f"{BACKEND_FILE} unpacks arguments in its call of {FUNCTION}; expected each by itself")
    if len(call.args) > len(names):
        raise UnknownError(f"{BACKEND_FILE} passes {len(call.args)} arguments to {FUNCTION}, which takes {len(names)}")
    given = dict(zip(names, call.args, strict=False))
    for word in call.keywords:
        if word.arg not in parameters or word.arg in given:
            raise UnknownError(f"{BACKEND_FILE} passes {FUNCTION}({word.arg}=...), which the function does not take")
        given[word.arg] = word.value
    missing = [name for name, required in parameters.items() if required and name not in given]
    if missing:
        raise UnknownError(f"{BACKEND_FILE} does not pass {', '.join(missing)} to {FUNCTION}, which needs it")
    return given
