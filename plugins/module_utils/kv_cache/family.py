# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which kind of KV cache a model has. What is not known here is refused by name, never read as something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .config_fields import architecture_of, text_config
from .families.architectures import ARCHITECTURES, language_model
from .families.caches import AttentionCache, LatentCache, Layers, StateCache
from .families.defaults import filled_in
from .families.names import COMPOSED
from .families.refusal import refuse

# A field that decides the cache -> the families that read it, and what its presence means in any other.
_DECIDING = {
    "compress_ratios": (("mla+compressed",), "compressed attention states"),
    "compress_rates": (("mla+compressed",), "compressed attention states"),
    "kv_lora_rank": (("mla", "mla+dsa", "mla+kda", "mla+lightning"), "latent vectors (MLA)"),
    "index_topk": (("mla+dsa", "mla+compressed"), "a sparse attention indexer (DSA)"),
    "sparse_attention_config": (("gqa+indexer",), "sparse attention"),
    "linear_attn_config": (("mla+kda",), "linear attention layers (KDA)"),
    "full_attention_interval": (("gqa+gdn",), "linear attention layers (GDN)"),
    "linear_num_value_heads": (("gqa+gdn",), "linear attention layers (GDN)"),
    "hybrid_override_pattern": (("gqa+mamba2",), "Mamba layers"),
    "layers_block_type": (("gqa+mamba2", "gqa+mamba1"), "layers of several kinds"),
    "mamba_num_heads": (("gqa+mamba2",), "Mamba layers"),
    "mamba_d_state": (("gqa+mamba2", "gqa+mamba1"), "Mamba layers"),
    "attention_chunk_size": (("gqa+chunked",), "chunked attention"),
    "no_rope_layers": (("gqa+chunked",), "chunked attention"),
    "block_configs": (("nas", "gqa+mamba2"), "layers of different shapes (NAS)"),
    "layer_group_size": (("mla+lightning",), "lightning attention layers"),
    "use_cla": ((), "layers that share keys and values (CLA)"),
    "cross_attention_layers": ((), "cross attention"),
    "hybrid_layer_pattern": (("gqa+sliding",), "layers of several kinds"),
}
# SmolLM3 and EXAONE name layers without RoPE, which see everything; MiMo-V2's chunk is its window.
_MEANS_NOTHING = {
    ("no_rope_layers", "SmolLM3ForCausalLM"),
    ("kv_lora_rank", "MiniCPM3ForCausalLM"),
    ("attention_chunk_size", "MiMoV2FlashForCausalLM"),
    ("attention_chunk_size", "MiMoV2ForCausalLM"),
}


@dataclass(frozen=True)
class FamilyLayers:
    """name: gqa, gqa+sliding, gqa+chunked, nas, mla, mla+dsa, mla+compressed, mla+kda, gqa+gdn, gqa+mamba2, gqa+mamba1,
    gqa+conv, gqa+lightning, mla+lightning, gqa+indexer, state or encoder-decoder. layers: what each layer keeps."""

    name: str
    layers: Layers


def read_family(config: Mapping[str, Any]) -> FamilyLayers:
    """The family and the layers. Raises ServingError, naming the architecture, for everything that is not known."""
    outer = architecture_of(config)
    text = filled_in(text_config(config))
    architecture = language_model(outer, text)
    family = ARCHITECTURES.get(architecture)
    for field, (families, meaning) in _DECIDING.items():
        if text.get(field) in (None, False, [], {}) or (field, architecture) in _MEANS_NOTHING:
            continue
        if family is None or family.name not in families:
            refuse(architecture, f"{field} in config.json says that it has {meaning}")
    types = text.get("attn_type_list")  # MiniMax; 1 is attention
    if isinstance(types, (list, tuple)) and 0 in types and (family is None or family.name != "gqa+lightning"):
        refuse(architecture, "attn_type_list in config.json says that it has lightning attention layers")
    if family is None and architecture == outer and outer in COMPOSED:
        refuse(outer, f"its text_config, of model_type {text.get('model_type')!r}, is no language model known here")
    if family is None:
        refuse(architecture, "its kinds of cache layers are not known to this release")
    if config.get("is_encoder_decoder") is True and family.name != "encoder-decoder":
        refuse(architecture, "it is an encoder-decoder")
    try:
        layers = family.read(text)
    except ServingError as error:
        if not error.what.startswith("cannot estimate"):
            raise
        refuse(architecture, str(error.why))
    if not any(layers):
        refuse(architecture, "none of its layers keeps anything")
    return FamilyLayers(_name(family.name, layers), layers)


def _name(name: str, layers: Layers) -> str:
    """A model of the family gqa whose layers slide is gqa+sliding, and one of the other whose layers do not is gqa."""
    kept = [cache for layer in layers for cache in layer]
    if name == "mla" and not any(isinstance(cache, LatentCache) for cache in kept):
        return "gqa"
    if name in ("gqa", "gqa+sliding"):
        slides = any(isinstance(cache, AttentionCache) and cache.window for cache in kept)
        return "gqa+sliding" if slides else "gqa"
    if name == "gqa+chunked" and not any(isinstance(cache, AttentionCache) and cache.chunk for cache in kept):
        return "gqa"
    if name.endswith(("+gdn", "+mamba2", "+mamba1", "+conv", "+lightning")) and not any(
        isinstance(c, StateCache) for c in kept
    ):
        return "gqa"
    return name


def family_of(config: Mapping[str, Any]) -> str:
    """The family's name alone."""
    return read_family(config).name
