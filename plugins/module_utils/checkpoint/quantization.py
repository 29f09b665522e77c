# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which place of a checkpoint decides the KV-cache dtype when the engine runs with `--kv-cache-dtype auto`.

vLLM reads the top-level `quantization_config` of config.json and, only where that is absent or null,
hf_quant_config.json. A ModelOpt block there is resolved at once; a compressed-tensors kv_cache_scheme takes effect
later, when an attention layer that is not MLA is built. Every other method keeps the model's dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .json_document import join_pointer, kind_of
from .resolver_rules import ResolverRules
from .schemes import algorithm_of, scheme_kind

CONFIG = "config.json"
HF_QUANT_CONFIG = "hf_quant_config.json"
KEYS = ("kv_cache_scheme", "kv_cache_quant_algo")
BURIED_KEYS = (*KEYS, "kv_cache_quant_config")
BLOCKS_IN_CONFIG = ("/quantization_config", "/compression_config")
TEXT_CONFIGS = ("", "/text_config", "/llm_config", "/language_config", "/thinker_config/text_config")

# A block in the wrapped form that lacks one of these is refused when the weights are loaded: null is fine, absent not.
REQUIRED_FIELDS = {
    "NVFP4": ("group_size", "kv_cache_quant_algo", "exclude_modules"),
    "MXFP8": ("kv_cache_quant_algo", "exclude_modules"),
}


@dataclass(frozen=True)
class Block:
    """One quantization block: where it stands, and what it says."""

    file: str
    pointer: str
    value: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"{self.file}#{self.pointer}"

    @property
    def inner(self) -> tuple[str, Mapping[str, Any]]:
        """The pointer and content of the part that holds the keys: ModelOpt's older form wraps it in `quantization`."""
        wrapped = self.value.get("quantization")
        return (f"{self.pointer}/quantization", wrapped) if wrapped is not None else (self.pointer, self.value)

    @property
    def algo(self) -> str | None:
        algo = self.inner[1].get("quant_algo")
        return None if algo is None else str(algo)

    def method(self, rules: ResolverRules) -> str:
        """The quant_method as vLLM settles it; "" when the block names none that vLLM derives."""
        derived = rules.methods.get((self._modelopt_algo(rules) or "").upper())
        return derived or str(self.value.get("quant_method") or "").lower().replace(
            "compressed_tensors", "compressed-tensors"
        )

    def refused_algo(self, rules: ResolverRules) -> str | None:
        """The algorithm of a wrapped ModelOpt block for which vLLM knows no method: the engine does not start."""
        algo = self._modelopt_algo(rules)
        return algo if algo is not None and algo.upper() not in rules.methods else None

    def _modelopt_algo(self, rules: ResolverRules) -> str | None:
        """The algorithm from which vLLM derives the method; None when the block is not ModelOpt's wrapped form."""
        wrapped = self.value.get("quantization") or {}
        is_modelopt = (self.value.get("producer") or {}).get("name") == "modelopt" or (
            rules.modelopt_quant_config and "modelopt_quant_config" in wrapped
        )
        return str(wrapped["quant_algo"]) if is_modelopt and wrapped.get("quant_algo") is not None else None

    def missing_fields(self) -> list[str]:
        """Fields that vLLM demands in the wrapped form and that are not there."""
        pointer, inner = self.inner
        if pointer == self.pointer:
            return []
        return [field for field in REQUIRED_FIELDS.get((self.algo or "").upper(), ()) if field not in inner]


@dataclass(frozen=True)
class Declaration:
    """A key that says how the KV cache is to be stored; kind is fp8, nvfp4, unknown or none."""

    file: str
    pointer: str
    value: Any
    kind: str

    @property
    def where(self) -> str:
        return f"{self.file}#{self.pointer}"


@dataclass(frozen=True)
class Resolution:
    """What `--kv-cache-dtype auto` becomes.

    dtype: fp8_e4m3, fp8, nvfp4, or auto: the model's own dtype
    decided_by: the key that decides (file#pointer), else the block that is read and asks for nothing, else None
    warns: vLLM meets a value that it does not know, logs a warning and falls back to auto
    by_layer: the dtype is set by the attention layer, not by the resolver
    overrides_flag: the checkpoint wins even over an explicit --kv-cache-dtype
    """

    dtype: str
    decided_by: str | None
    warns: bool = False
    by_layer: bool = False
    overrides_flag: bool = False


def blocks_of(config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None) -> list[Block]:
    """Every quantization block of a checkpoint: config.json's, those in a nested text config, hf_quant_config.json."""
    found = []
    for text in TEXT_CONFIGS:
        for name in BLOCKS_IN_CONFIG:
            value = _descend(config, text + name)
            if value is not None:
                found.append(_checked(Block(CONFIG, text + name, value)))
    if hf_quant_config is not None:
        found.append(_checked(Block(HF_QUANT_CONFIG, "", hf_quant_config)))
    return found


def declarations_in(block: Block) -> Iterator[Declaration]:
    """The KV-cache keys of a block in the order in which vLLM looks at them."""
    inner_pointer, inner = block.inner
    for key in KEYS:
        for pointer, holder in {inner_pointer: inner, block.pointer: block.value}.items():
            if key in holder:
                yield Declaration(block.file, f"{pointer}/{key}", holder[key], scheme_kind(holder[key]))


def quark_declaration(block: Block) -> Declaration | None:
    """Quark names the layers whose output is the KV cache; vLLM loads their scales and keeps the model's dtype."""
    export = block.value.get("export")
    group = export.get("kv_cache_group") if isinstance(export, Mapping) else None
    return Declaration(block.file, f"{block.pointer}/export/kv_cache_group", group, "unknown") if group else None


def buried_declarations(block: Block) -> list[Declaration]:
    """KV-cache keys deeper in a block, as in settings for one layer or one group: vLLM (0.15 to 0.33) reads none."""
    read = {item.pointer for item in declarations_in(block)}
    found = []
    pending: list[tuple[str, Any]] = [(block.pointer, block.value)]
    while pending:
        pointer, value = pending.pop()
        items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            place = pointer + join_pointer([key])
            if key in BURIED_KEYS and item and place not in read:
                found.append(Declaration(block.file, place, item, "unknown"))
            else:
                pending.append((place, item))
    return sorted(found, key=lambda item: item.pointer)


def all_declarations(block: Block) -> list[Declaration]:
    """The keys that vLLM looks at, and those that it does not."""
    quark = quark_declaration(block)
    return [*declarations_in(block), *([quark] if quark is not None else []), *buried_declarations(block)]


def effective_block(blocks: list[Block]) -> Block | None:
    """The block that decides the KV-cache dtype: config.json's top level, else hf_quant_config.json."""
    return _first(blocks, (CONFIG, "/quantization_config"), (HF_QUANT_CONFIG, ""))


def weights_block(blocks: list[Block]) -> Block | None:
    """The block that decides how the weights are read: a nested text_config's counts here."""
    return _first(
        blocks,
        (CONFIG, "/quantization_config"),
        (HF_QUANT_CONFIG, ""),
        (CONFIG, "/text_config/quantization_config"),
        (CONFIG, "/compression_config"),
    )


def resolve(blocks: list[Block], rules: ResolverRules, *, use_mla: bool) -> Resolution:
    """What vLLM makes of `--kv-cache-dtype auto` for a checkpoint with these blocks."""
    block = effective_block(blocks)
    if block is not None and block.method(rules).startswith("modelopt"):
        decisive = next((item for item in declarations_in(block) if item.value), None)
        if decisive is None:
            return Resolution("auto", block.where)
        dtype = rules.dtypes.get(algorithm_of(decisive.value, rules) or "")
        return Resolution(dtype or "auto", decisive.where, warns=dtype is None)
    block = weights_block(blocks)
    if block is None:
        return Resolution("auto", None)
    if not use_mla and block.method(rules) == "compressed-tensors" and block.value.get("kv_cache_scheme") is not None:
        return Resolution(
            "fp8",
            f"{block.where}/kv_cache_scheme",
            by_layer=True,
            overrides_flag=rules.scheme_overrides_flag,
        )
    return Resolution("auto", block.where)


def _first(blocks: list[Block], *places: tuple[str, str]) -> Block | None:
    by_place = {(block.file, block.pointer): block for block in blocks}
    return next((by_place[place] for place in places if place in by_place), None)


def _descend(config: Mapping[str, Any], pointer: str) -> Any:
    value: Any = config
    for token in pointer.split("/")[1:]:
        value = value.get(token) if isinstance(value, Mapping) else None
    return value


def _checked(block: Block) -> Block:
    """The block, unless a value in it has a type at which the engine's own reading breaks."""
    _expect(block.value, Mapping, "an object", block.where)
    for key, kind, name in (
        ("producer", Mapping, "an object"),
        ("quantization", Mapping, "an object"),
        ("quant_method", str, "a string"),
    ):
        if block.value.get(key) is not None:
            _expect(block.value[key], kind, name, f"{block.where}/{key}")
    return block


def _expect(value: Any, kind: type, name: str, where: str) -> None:
    if not isinstance(value, kind):
        raise ServingError(
            f"the file holds {kind_of(value)} where {name} is expected",
            where=where,
            why="vLLM cannot read this quantization block either",
            remedy="Download the file again (blackwell.serving.hf_shard_download)",
        )
