# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""What --speculative-config adds to the cache: the layers of a draft, and the tokens that it drafts.

An MTP head is part of the checkpoint, so that its layers follow from config.json. A draft model (eagle, eagle3,
draft_model) has a config.json of its own: its contents are given as speculative_config.draft_config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ServingError
from .config_fields import architecture_of, names, optional_int, text_config
from .families.attention import attention, full_attention, mimo_v2_mtp, step3p5
from .families.caches import AttentionCache, Cache, IndexerCache, LatentCache, Layers
from .families.compressed import window_only
from .families.defaults import filled_in
from .families.heads import layer_count
from .families.latent import MLA_MODEL_TYPES, latent
from .family import FamilyLayers, read_family

_WITHOUT_LAYERS = ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator")
_DRAFT_MODELS = ("eagle", "eagle3", "draft_model")
# Async scheduling is off with these, so that one batch is in flight.
_NOT_ASYNC = ("ngram", "suffix", "medusa", "mlp_speculator")
_MTP_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_transformer_layers", "mtp_num_layers")
_NO_MTP_READER = ("gqa+sliding", "gqa+chunked", "nas", "state", "encoder-decoder", "gqa+mamba1", "gqa+conv")


@dataclass(frozen=True)
class Draft:
    """layers: what a draft keeps. tokens: drafted per step. asynchronous: whether async scheduling stays on."""

    layers: Layers = ()
    tokens: int = 0
    asynchronous: bool = True


def drafted_tokens(speculative: Mapping[str, Any] | None) -> int:
    """Per step; 0 without speculative decoding. Raises ServingError for what is no number."""
    return (optional_int(speculative, "num_speculative_tokens") or 1) if speculative else 0


def read_draft(speculative: Mapping[str, Any] | None, config: Mapping[str, Any]) -> Draft:
    """Raises ServingError for a method, or a model with it, whose layers are not known."""
    if not speculative:
        return Draft()
    method = str(speculative.get("method") or ("draft_model" if speculative.get("model") else "mtp"))
    tokens = drafted_tokens(speculative)
    if method in _WITHOUT_LAYERS:
        return Draft(tokens=tokens, asynchronous=method not in _NOT_ASYNC)
    if method in _DRAFT_MODELS:
        return Draft(_draft_model(method, speculative.get("draft_config")), tokens)
    if method == "mtp" or method.endswith("_mtp"):
        return Draft(_mtp(config), tokens)
    raise _unknown(f"the speculative method {method!r}", "its cache layers are not known to this release")


def _draft_model(method: str, draft: object) -> Layers:
    if not isinstance(draft, Mapping):
        raise ServingError(
            f"cannot estimate the speculative method {method!r}",
            where="speculative_config",
            why="a draft model has cache layers of its own, and no config.json of it is given",
            remedy="Name its folder as speculative_config.model, or give the contents of its config.json as "
            "speculative_config.draft_config",
        )
    text = text_config(draft)
    if method == "draft_model":
        return read_family(draft).layers
    if text.get("kv_lora_rank") is not None and text.get("model_type") in MLA_MODEL_TYPES:
        return latent(text)
    return full_attention(text)


def _mtp(config: Mapping[str, Any]) -> Layers:
    """The head's layers are like the model's layers that keep every token."""
    architecture, text = architecture_of(config), filled_in(text_config(config))
    family = read_family(config)
    if architecture.startswith("Gemma4"):
        return ()  # its drafts read the cache of the model itself
    if architecture.startswith("MiMoV2"):
        return (mimo_v2_mtp(text),)
    count = optional_int(text, *[name for name in _MTP_LAYERS if text.get(name)])
    if count is None:
        raise _unknown(f"MTP with {architecture}", f"config.json has none of {', '.join(_MTP_LAYERS)}")
    if family.name == "mla+compressed":
        return (window_only(text),) * count
    if family.name in _NO_MTP_READER:
        return _mtp_of_windows(text, architecture, count)
    if family.name == "gqa+mamba2":
        count *= _attention_per_mtp_layer(text, architecture)
    return (_one_that_keeps_everything(family),) * count


def _mtp_of_windows(text: Mapping[str, Any], architecture: str, count: int) -> Layers:
    """The model's layer types go on behind its last layer, or are named besides."""
    layers = layer_count(text)
    own = names(text, "mtp_layer_types") or []
    if architecture.startswith("Step3p"):
        kinds = [*(names(text, "layer_types") or []), *own][layers : layers + count]
        reader = step3p5
    elif architecture.startswith(("ExaoneMoe", "ExaoneMoE")):
        kinds = (own or names(text, "layer_types") or [])[:count]
        reader = attention
    else:
        raise _unknown(f"MTP with {architecture}", "the windows of its MTP layers are not known to this release")
    if len(kinds) < count:
        raise _unknown(f"MTP with {architecture}", f"config.json names the kinds of {len(kinds)} of {count} MTP layers")
    return reader({**text, "num_hidden_layers": count, "layer_types": kinds})


def _attention_per_mtp_layer(text: Mapping[str, Any], architecture: str) -> int:
    pattern = text.get("mtp_hybrid_override_pattern") or text.get("mtp_layers_block_type")
    if not pattern:
        raise _unknown(f"MTP with {architecture}", "config.json does not say of which kinds its MTP layers are")
    return sum(kind in ("*", "attention", "full_attention") for kind in pattern)


def _one_that_keeps_everything(family: FamilyLayers) -> tuple[Cache, ...]:
    """A latent vector with the indexer's key where there is one, or keys and values."""
    caches = [cache for layer in family.layers for cache in layer]
    main = next(cache for cache in caches if isinstance(cache, (LatentCache, AttentionCache)))
    indexers = [cache for cache in caches if isinstance(cache, IndexerCache)]
    return (main, *indexers[:1])


def _unknown(what: str, why: str) -> ServingError:
    return ServingError(
        f"cannot estimate {what}",
        where="speculative_config",
        why=why,
        remedy="Give available_kv_cache_bytes and kv_bytes_per_token_per_gpu from the log of an earlier start",
    )
