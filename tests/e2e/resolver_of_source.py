# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the source text of a vLLM release what it makes of a checkpoint, without torch and without importing vLLM.

    python resolver_of_source.py SITE_PACKAGES  < [[folder, use_mla, flag, capability], ...]  > [answer, ...]

The functions and statements that settle the KV-cache dtype are cut out of the release's own files and run here in the
order in which the engine runs them; what they need of their surroundings are the few stand-ins below. An answer is the
dtype with which the attention layers are built, "NAME: message" when vLLM raises, or "per head: DTYPE" when only
attention backends with scales per head are valid.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import fnmatch
import json
import sys
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

QUANTIZATION = "vllm/model_executor/layers/quantization"
ATTENTION_LAYERS = ("vllm/model_executor/layers/attention/attention.py", "vllm/attention/layer.py")
KV_METHODS = {
    "compressed_tensors/compressed_tensors.py": ("CompressedTensorsKVCacheMethod", "validate_kv_cache_scheme"),
    "quark/quark.py": ("QuarkKVCacheMethod", "validate_kv_cache_config"),
}


class Quiet:
    """A logger that is asked for more levels than logging has."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_arguments, **_keywords: None


class QuantizationStrategy(str, enum.Enum):
    """compressed-tensors' enumeration, as its package has it."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    GROUP = "group"
    BLOCK = "block"
    TOKEN = "token"
    TENSOR_GROUP = "tensor_group"
    ATTN_HEAD = "attn_head"


COMMON = {
    "logger": Quiet(),
    "cast": typing.cast,
    "Any": Any,
    "fnmatch": fnmatch,
    "QuantizationStrategy": QuantizationStrategy,
    "deep_compare": lambda left, right: left == right,
    # Which weights a release knows is not asked here.
    "QUANT_ALGOS": ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "MIXED_PRECISION"),
}


class ModelOptConfig:
    """What from_config needs of its class; the constructor takes anything."""

    def __init__(self, *_arguments: Any, **_keywords: Any) -> None: ...

    @staticmethod
    def get_from_keys(config: dict[str, Any], keys: list[str]) -> Any:
        return next(config[key] for key in keys if key in config)


class Source:
    """The files of one release."""

    def __init__(self, site_packages: Path) -> None:
        self.site_packages = site_packages
        self.trees: dict[str, ast.Module] = {}

    def node(self, path: str, *names: str) -> Any:
        """The function, class or assignment of that name at the top of a file, or in a class of it."""
        if path not in self.trees:
            self.trees[path] = ast.parse((self.site_packages / path).read_text())
        found: Any = self.trees[path]
        for name in names:
            found = next(node for node in found.body if name_of(node) == name)
        return found

    def function(self, path: str, *names: str) -> Any:
        return run(compiled([self.node(path, *names)]), {})[names[-1]]


def name_of(node: ast.stmt) -> str | None:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return None


def compiled(nodes: Sequence[ast.stmt]) -> types.CodeType:
    """These nodes as a program, without annotations and decorators: the names in them are not here."""
    for item in (item for node in nodes for item in ast.walk(node)):
        if isinstance(item, ast.FunctionDef):
            item.returns, item.decorator_list = None, []
            for argument in (*item.args.args, *item.args.kwonlyargs):
                argument.annotation = None
    return compile(ast.fix_missing_locations(ast.Module(body=list(nodes), type_ignores=[])), "<vllm>", "exec")


def run(program: types.CodeType, surroundings: dict[str, Any]) -> dict[str, Any]:
    surroundings |= {key: value for key, value in COMMON.items() if key not in surroundings}
    exec(program, surroundings)  # noqa: S102 - what this file is for
    return surroundings


class Engine:
    """The steps from the two files to the attention layers, each in the release's own words."""

    def __init__(self, source: Source) -> None:
        resolver = "vllm/utils/torch_utils.py"
        names = (
            "MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP",
            "get_kv_cache_quant_algo_string",
            "resolve_kv_cache_dtype_string",
        )
        self.resolve = run(compiled([source.node(resolver, name) for name in names]), {})[names[-1]]
        convertor = ("vllm/transformers_utils/model_arch_config_convertor.py", "ModelArchConfigConvertorBase")
        self.normalize = source.function(*convertor, "_normalize_quantization_config")
        self.quantization = source.function(*convertor, "get_quantization_config")
        self.reading = compiled(reading(source))
        self.layer = compiled(layer(source))
        self.kv_methods = {
            file: source.function(f"{QUANTIZATION}/{file}", *names) for file, names in KV_METHODS.items()
        }
        self.quark = source.function(f"{QUANTIZATION}/quark/quark.py", "QuarkConfig", "from_config")
        modelopt = f"{QUANTIZATION}/modelopt.py"
        self.modelopt = source.function(modelopt, "ModelOptQuantConfigBase", "from_config")
        self.modelopt_methods = {
            name: type(
                name, (ModelOptConfig,), {"_from_config": classmethod(source.function(modelopt, name, "_from_config"))}
            )
            for name in ("ModelOptFp8Config", "ModelOptNvFp4Config")
        }

        self.checks = []
        for check in ("_reject_mismatched_float_kv_cache", "validate_nvfp4_kv_cache_with_mla"):
            with contextlib.suppress(StopIteration):  # a release that does not check
                self.checks.append(source.function("vllm/config/vllm.py", "VllmConfig", check))
        self.source = source

    def settle(self, folder: Path, use_mla: bool, flag: str, capability: str) -> str:
        config = json.loads((folder / "config.json").read_text())
        hf_config = types.SimpleNamespace(**config)
        if isinstance(config.get("text_config"), dict):
            hf_config.text_config = types.SimpleNamespace(**config["text_config"])
        surroundings = {
            "config_dict": config,
            "config": hf_config,
            "model": folder,
            "revision": None,
            "file_or_path_exists": lambda model, name, revision: (model / name).is_file(),
            "get_hf_file_to_dict": lambda name, model, revision: json.loads((model / name).read_text()),
        }
        run(self.reading, surroundings)
        this = types.SimpleNamespace(hf_config=hf_config)
        this._normalize_quantization_config = lambda value: self.normalize(this, value)
        block = self.quantization(this)
        dtype = self.resolve(flag, types.SimpleNamespace(hf_config=hf_config))
        dtype = self.configure(config, dtype, use_mla, capability)
        return self.build_layer(self.method(block or {}, use_mla), dtype, use_mla)

    def configure(self, config: dict[str, Any], dtype: str, use_mla: bool, capability: str) -> str:
        """What the engine's and the architecture's configuration make of the dtype."""
        text = types.SimpleNamespace(**config)
        model_config = types.SimpleNamespace(
            dtype=f"torch.{config.get('dtype', 'bfloat16')}", use_mla=use_mla, hf_config=text, hf_text_config=text
        )
        cache_config = types.SimpleNamespace(cache_dtype=dtype)
        engine_config = types.SimpleNamespace(
            cache_config=cache_config, model_config=model_config, parallel_config=Quiet(), speculative_config=None
        )
        for check in self.checks:
            check(engine_config)
        for architecture in config.get("architectures", []):
            self.update(architecture, engine_config, capability)
        return str(cache_config.cache_dtype)

    def update(self, architecture: str, engine_config: Any, capability: str) -> None:
        """The architecture's own update of the configuration, on a card of this capability."""
        path = "vllm/model_executor/models/config.py"
        table = self.source.node(path, "MODELS_CONFIG_MAP").value
        names = {key.value: value.id for key, value in zip(table.keys, table.values, strict=True)}
        node = self.source.node(path, names[architecture]) if architecture in names else None
        if node is None or "cache_config.cache_dtype" not in ast.unparse(node):
            return
        platforms = types.ModuleType("vllm.platforms")
        family = int(capability.split(".")[0]) * 10
        platforms.current_platform = types.SimpleNamespace(  # type: ignore[attr-defined]
            is_cuda=lambda: True, is_device_capability_family=lambda number: number == family
        )
        sys.modules["vllm.platforms"] = platforms
        update = self.source.function(path, names[architecture], "verify_and_update_config")
        update(*([None] if update.__code__.co_argcount == 2 else []), engine_config)

    def method(self, block: dict[str, Any], use_mla: bool) -> Any:
        """The quantization method reads its block, and checks it for a layer; the scheme is what the layer asks for."""
        method = block.get("quant_method", "")
        if method == "compressed-tensors":
            scheme = block.get("kv_cache_scheme")
            if not use_mla:
                self.kv_methods["compressed_tensors/compressed_tensors.py"](scheme)
            return types.SimpleNamespace(kv_cache_scheme=scheme)
        if method.startswith("modelopt"):
            algo = str((block.get("quantization") or block).get("quant_algo")).upper()
            self.modelopt(
                self.modelopt_methods["ModelOptNvFp4Config" if algo == "NVFP4" else "ModelOptFp8Config"], block
            )
        elif method == "quark":
            read: dict[str, Any] = {}
            self.quark(lambda **keywords: read.update(keywords), block)
            if not use_mla:
                self.kv_methods["quark/quark.py"](read["kv_cache_config"])
        return types.SimpleNamespace(kv_cache_scheme=None)

    def build_layer(self, quant_config: Any, dtype: str, use_mla: bool) -> str:
        """A layer with MLA takes the dtype as it is; another one may ask the scheme."""
        if use_mla:
            return dtype
        surroundings = {
            "quant_config": quant_config,
            "kv_cache_dtype": dtype,
            "cache_config": types.SimpleNamespace(cache_dtype=dtype),
        }
        run(self.layer, surroundings)
        settled = str(surroundings["kv_cache_dtype"])
        return f"per head: {settled}" if surroundings.get("use_per_head_quant_scales") else settled


def reading(source: Source) -> list[ast.stmt]:
    """In get_config: config.json's block, else hf_quant_config.json."""
    body = source.node("vllm/transformers_utils/config.py", "get_config").body
    start = next(number for number, node in enumerate(body) if name_of(node) == "quantization_config")
    chosen: list[ast.stmt] = body[start : start + 3]
    assert "hf_quant_config.json" in ast.unparse(chosen[1])
    assert ast.unparse(chosen[2]).startswith("if quantization_config is not None:\n    config.quantization_config =")
    return chosen


def layer(source: Source) -> list[ast.stmt]:
    """In Attention.__init__: what it makes of a KV-cache scheme, before it asks for a backend."""
    path = next(item for item in ATTENTION_LAYERS if (source.site_packages / item).is_file())
    body = source.node(path, "Attention", "__init__").body
    chosen: list[ast.stmt] = [
        node for node in body if isinstance(node, (ast.Assign, ast.If)) and "kv_cache_scheme" in ast.unparse(node)
    ]
    assert any("kv_cache_dtype = 'fp8'" in ast.unparse(node) for node in chosen)
    return chosen


def main() -> None:
    engine = Engine(Source(Path(sys.argv[1])))
    answers = []
    for folder, *question in json.load(sys.stdin):
        try:
            answers.append(engine.settle(Path(folder), *question))
        except Exception as error:  # whatever vLLM raises is the answer
            answers.append(f"{type(error).__name__}: {error}")
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
