# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Read the rules by which an installed vLLM settles the KV-cache dtype from its own source; nothing of it is run.

Each rule is looked for where vLLM 0.15 to 0.33 keeps it, and only in the shape that it has there. Where a source no
longer has that shape, the rule is taken from the table of releases, and a note says which and where.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ServingError
from .resolver_rules import ArchitectureDefault, ResolverRules, rules_for

RESOLVER = "vllm/utils/torch_utils.py"
CONVERTOR = "vllm/transformers_utils/model_arch_config_convertor.py"
ATTENTION = ("vllm/model_executor/layers/attention/attention.py", "vllm/attention/layer.py")
MODELOPT = "vllm/model_executor/layers/quantization/modelopt.py"
COMPRESSED_TENSORS = "vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors.py"
ENGINE_CONFIG = "vllm/config/vllm.py"
CACHE_CONFIG = "vllm/config/cache.py"
MODEL_CONFIGS = "vllm/model_executor/models/config.py"
DIST_INFO = re.compile(r"vllm(?:_[a-z0-9_]+)?-([^-]+)\.dist-info")

# Where vLLM looks for a ModelOpt checkpoint's setting, first match wins.
LOOKED_AT = [
    ("quantization_inner", "kv_cache_scheme"),
    ("quant_cfg", "kv_cache_scheme"),
    ("quantization_inner", "kv_cache_quant_algo"),
    ("quant_cfg", "kv_cache_quant_algo"),
]


class _Unknown(Exception):
    """A source has another shape than the one that is known."""


def asked_rules(vllm_version: str | None, site_packages: str | None, *, check_mode: bool) -> ResolverRules:
    """The installation's own rules where there is one to read, else those that are known of the release.

    In check mode an installation that is not there yet is passed over.
    """
    if site_packages is None or (check_mode and not Path(site_packages, "vllm").is_dir()):
        return rules_for(vllm_version)
    return rules_of_installation(Path(site_packages), vllm_version)


def rules_of_installation(site_packages: Path, vllm_version: str | None = None) -> ResolverRules:
    """The rules of the vLLM in this folder; vllm_version only where the folder does not tell its release."""
    if not (site_packages / "vllm").is_dir():
        raise ServingError(
            "no vLLM is installed there",
            where=str(site_packages),
            why="the folder holds no package vllm" if site_packages.is_dir() else "it does not exist",
            remedy="Install the engine first (role blackwell.serving.vllm_install), or correct the option",
        )
    fallback = rules_for(installed_release(site_packages) or vllm_version)
    read: dict[str, Any] = {}
    notes: list[str] = []
    for names, reader in READERS:
        try:
            read |= dict(zip(names, reader(site_packages), strict=True))
        except (_Unknown, OSError, SyntaxError, UnicodeDecodeError) as error:
            notes.append(
                f"the installed vLLM's source is not what is known of it: {error}. {', '.join(names)} is assumed to be "
                "as in the nearest release that is known"
            )
    # What the table would have to assume about an unknown release is no longer of interest when all was read.
    return replace(fallback, **read, notes=(*(fallback.notes if notes else ()), *notes))


def installed_release(site_packages: Path) -> str | None:
    """The version of the vLLM in this folder; None where it does not tell."""
    found = (DIST_INFO.fullmatch(path.name) for path in sorted(site_packages.glob("vllm*.dist-info")))
    return next((match[1] for match in found if match), None)


def _resolver(site_packages: Path) -> tuple[dict[str, str], bool]:
    text = _text(site_packages, RESOLVER)
    table = re.search(r"^MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP\b[^=\n]*= (\{.*?^\}|\{[^\n]*\})$", text, re.M | re.S)
    dtypes = _literal(table[1]) if table else None
    if not isinstance(dtypes, Mapping) or not all(isinstance(item, str) for pair in dtypes.items() for item in pair):
        raise _Unknown(f"{RESOLVER} has no table MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP of names")
    function = _function(text, "get_kv_cache_quant_algo_string", RESOLVER)
    looked_at = [_got(value) for node in _all(function, ast.BoolOp) for value in node.values]
    if [item for item in looked_at if item is not None] != LOOKED_AT:
        raise _Unknown(f"get_kv_cache_quant_algo_string in {RESOLVER} looks at other keys")
    widths = {_comparison(node) for node in _all(function, ast.Compare)}
    if "kv_algo.get('num_bits') == 8" not in widths or "kv_algo.get('dynamic') is False" not in widths:
        raise _Unknown(f"get_kv_cache_quant_algo_string in {RESOLVER} reads a scheme otherwise")
    return dict(dtypes), "kv_algo.get('num_bits') == 4" in widths


def _convertor(site_packages: Path) -> tuple[dict[str, str], bool]:
    function = _function(_text(site_packages, CONVERTOR), "_normalize_quantization_config", CONVERTOR)
    methods = {}
    for node in _all(function, ast.If):
        assigned = [item.value for item in node.body if isinstance(item, ast.Assign)]
        if ast.unparse(node.test).startswith("quant_algo_upper ") and len(assigned) == 1:
            method = _literal(ast.unparse(assigned[0]))
            for algo in (item.value for item in _all(node.test, ast.Constant)):
                methods[str(algo)] = str(method)
    if "NVFP4" not in methods:
        raise _Unknown(f"_normalize_quantization_config in {CONVERTOR} derives no method for NVFP4")
    return methods, any(item.value == "modelopt_quant_config" for item in _all(function, ast.Constant))


def _attention(site_packages: Path) -> tuple[bool, bool]:
    path = next((item for item in ATTENTION if (site_packages / item).is_file()), ATTENTION[0])
    layer = _block(_text(site_packages, path), r"class Attention\b", path)
    function = _function(layer, "__init__", path)
    forced = [node for node in _all(function, ast.If) if _assigns_fp8(node)]
    tests = [ast.unparse(node.test) for node in forced]
    if len(tests) != 1 or "kv_cache_scheme" not in tests[0] or "is not None" not in tests[0]:
        raise _Unknown(f"Attention in {path} treats a kv_cache_scheme otherwise")
    per_head = any(node.id == "use_per_head_quant_scales" for node in _all(function, ast.Name))
    return "kv_cache_dtype == 'auto'" not in tests[0], per_head


def _compressed_tensors(site_packages: Path) -> tuple[bool]:
    function = _function(_text(site_packages, COMPRESSED_TENSORS), "validate_kv_cache_scheme", COMPRESSED_TENSORS)
    for node in _all(function, ast.BoolOp):
        if {_comparison(item) for item in node.values} == {"type_ != 'float'", "num_bits != 8"}:
            return (isinstance(node.op, ast.Or),)
    raise _Unknown(f"validate_kv_cache_scheme in {COMPRESSED_TENSORS} compares otherwise")


def _modelopt(site_packages: Path) -> tuple[bool]:
    base = _block(_text(site_packages, MODELOPT), r"class ModelOptQuantConfigBase\b", MODELOPT)
    calls = {_got(node) for node in _all(_function(base, "from_config", MODELOPT), ast.Call)}
    if ("quant_config", "kv_cache_quant_algo") not in calls:
        raise _Unknown(f"ModelOptQuantConfigBase.from_config in {MODELOPT} reads no kv_cache_quant_algo")
    return (("config", "kv_cache_quant_algo") in calls,)


def _engine_config(site_packages: Path) -> tuple[bool, bool]:
    text = _text(site_packages, ENGINE_CONFIG)
    return "def validate_nvfp4_kv_cache_with_mla(" in text, "def _reject_mismatched_float_kv_cache(" in text


def _cache_config(site_packages: Path) -> tuple[tuple[str, ...]]:
    match = re.search(r"^CacheDType\b[^=\n]*= Literal(\[.*?^\])", _text(site_packages, CACHE_CONFIG), re.M | re.S)
    choices = _literal(match[1]) if match else None
    if not isinstance(choices, list) or "auto" not in choices:
        raise _Unknown(f"{CACHE_CONFIG} has no list CacheDType with auto in it")
    return (tuple(item for item in ("float16", "bfloat16") if item in choices),)


def _model_configs(site_packages: Path) -> tuple[dict[str, ArchitectureDefault]]:
    """The classes that put fp8 in the place of auto on compute capability 10.x, by the architectures they are for."""
    text = _text(site_packages, MODEL_CONFIGS)
    architectures = re.findall(r'^    "(\w+)": \(?\s*(\w+)\b', text, re.M)
    if not architectures:
        raise _Unknown(f"{MODEL_CONFIGS} has no table of architectures")
    found = {}
    starts = [*re.finditer(r"^class (\w+)", text, re.M)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    for match, end in zip(starts, ends, strict=True):
        block = text[match.start() : end]
        dtype = re.search(r"cache_config\.cache_dtype = \"(fp8\w*)\"", block)
        if dtype is None or not re.search(r'cache_dtype [!=]= "auto"', block):
            continue
        if "is_device_capability_family(100)" not in block:
            raise _Unknown(f"{match[1]} in {MODEL_CONFIGS} turns auto into {dtype[1]} under another condition")
        for architecture, name in architectures:
            if name == match[1]:
                found[architecture] = ArchitectureDefault(dtype[1], sparse_only='"index_topk"' in block)
    return (found,)


READERS: tuple[tuple[tuple[str, ...], Callable[[Path], tuple[Any, ...]]], ...] = (
    (("dtypes", "four_bit_scheme"), _resolver),
    (("methods", "modelopt_quant_config"), _convertor),
    (("scheme_overrides_flag", "per_head_scales_choose_backend"), _attention),
    (("scheme_is_8_bit_float",), _compressed_tensors),
    (("flat_algo_is_string",), _modelopt),
    (("nvfp4_refused_with_mla", "float_flag_is_model_dtype"), _engine_config),
    (("float_flags",), _cache_config),
    (("auto_by_architecture",), _model_configs),
)


def _text(site_packages: Path, path: str) -> str:
    try:
        return (site_packages / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _Unknown(f"{path} is not there") from None


def _block(text: str, header: str, path: str) -> str:
    """The source of one class or function: its header and every line that is indented deeper, or empty."""
    match = re.search(rf"^([ ]*){header}", text, re.M)
    if match is None:
        raise _Unknown(f"{path} has no {header.removesuffix(chr(92) + 'b')}")
    indentation = match[1]
    head = re.compile(r":[ ]*(?:#.*)?$", re.M).search(text, match.start())
    start = head.end() if head else match.end()
    end = re.compile(rf"^(?![ ]*$)(?!{indentation}[ ]).", re.M).search(text, start)
    block = text[match.start() : end.start() if end else len(text)]
    return textwrap.dedent(block) if indentation else block


def _function(text: str, name: str, path: str) -> ast.FunctionDef:
    node = ast.parse(_block(text, rf"def {name}\b", path)).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise _Unknown(f"{path} has no function {name}")
    return node


def _all(node: ast.AST, kind: type) -> list[Any]:
    return [item for item in ast.walk(node) if isinstance(item, kind)]


def _comparison(node: ast.AST) -> str:
    return ast.unparse(node)


def _got(node: ast.AST) -> tuple[str, str] | None:
    """(name, key) of a call name.get("key")."""
    match = re.fullmatch(r"(\w+)\.get\('(\w+)'\)", ast.unparse(node)) if isinstance(node, ast.Call) else None
    return (match[1], match[2]) if match else None


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def _assigns_fp8(node: ast.If) -> bool:
    return any(isinstance(item, ast.Assign) and ast.unparse(item) == "kv_cache_dtype = 'fp8'" for item in node.body)
