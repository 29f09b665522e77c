# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Layers that keep a state of fixed size: gated delta nets, Mamba, short convolutions; alone or among attention."""

from __future__ import annotations

from ...errors import ServingError
from ..config_fields import names, numbers, one_per_layer, optional_int, positive_int
from .caches import AttentionCache, Cache, Layers, StateCache
from .heads import Fields, head_size, hidden_size, key_value_heads, layer_count, query_heads
from .refusal import refuse

_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": None}
_ATTENTION = ("full_attention", "attention", "*")
_LINEAR = ("linear_attention", "mamba", "mamba2", "M", "conv")
_NOTHING = ("moe", "mlp", "E", "-")
_QWEN_INTERVAL = 4


def gdn(text: Fields) -> Layers:
    """Qwen3-Next, Qwen3.5: layer_types, or every full_attention_interval-th layer with attention."""
    key_heads, value_heads = positive_int(text, "linear_num_key_heads"), positive_int(text, "linear_num_value_heads")
    key, value = positive_int(text, "linear_key_head_dim"), positive_int(text, "linear_value_head_dim")
    state = StateCache(
        kind="gdn",
        conv_width=2 * key * key_heads + value * value_heads,
        conv_length=positive_int(text, "linear_conv_kernel_dim") - 1,
        heads=value_heads,
        head_elements=key * value,
        state_bytes=_state_bytes(text, "mamba_ssm_dtype", None),
        key_size=key,
    )
    kinds = names(text, "layer_types")
    if kinds is None:
        every = optional_int(text, "full_attention_interval") or _QWEN_INTERVAL
        kinds = [
            "full_attention" if (layer + 1) % every == 0 else "linear_attention" for layer in range(layer_count(text))
        ]
    return _mixed(text, kinds, "layer_types", state)


def lightning_state(text: Fields) -> StateCache:
    """Lightning attention: one matrix per head, in the model's dtype."""
    heads, size = query_heads(text), head_size(text)
    return StateCache("linear", 0, 0, heads=heads, head_elements=size * size, keeps_drafts=False)


def minimax_text(text: Fields) -> Layers:
    """MiniMax-Text-01, MiniMax-M1: attn_type_list (1 is attention), or layer_types; all attention without either."""
    types = numbers(text, "attn_type_list") or numbers(text, "decoder_attention_types")
    if types is not None:
        kinds = ["full_attention" if each == 1 else "linear_attention" for each in types]
    else:
        kinds = names(text, "layer_types") or ["full_attention"] * layer_count(text)
    return _mixed(text, kinds, "attn_type_list", lightning_state(text))


def zamba2(text: Fields) -> Layers:
    """A state on every layer; on those of the kind `hybrid` attention of twice the width besides."""
    kinds = names(text, "layers_block_type")
    if kinds is None:
        refuse("a Zamba-2 model", "config.json has no layers_block_type")
    one_per_layer("layers_block_type", len(kinds), layer_count(text))
    heads, width = query_heads(text), hidden_size(text)
    inner = positive_int(text, "mamba_expand") * width
    size = optional_int(text, "attention_head_dim") or 2 * width // heads
    attention = AttentionCache(heads, size, size)
    state = _mamba2(
        text,
        inner=inner,
        groups=positive_int(text, "mamba_ngroups"),
        state_size=positive_int(text, "mamba_d_state"),
        kernel=positive_int(text, "mamba_d_conv"),
        heads=positive_int(text, "n_mamba_heads"),
        head=optional_int(text, "mamba_headdim") or inner // positive_int(text, "n_mamba_heads"),
        state_bytes=None,
    )
    return tuple((state, attention) if kind == "hybrid" else (state,) for kind in kinds[: layer_count(text)])


def nemotron_h(text: Fields) -> Layers:
    """hybrid_override_pattern (M, *, -, E) or layers_block_type. The recurrent state is float32 unless it says so."""
    pattern = text.get("hybrid_override_pattern")
    kinds = list(pattern) if isinstance(pattern, str) else names(text, "layers_block_type")
    if kinds is None:
        refuse("a Nemotron-H model", "config.json has neither hybrid_override_pattern nor layers_block_type")
    heads = positive_int(text, "mamba_num_heads")
    state = _mamba2(
        text,
        inner=heads * positive_int(text, "mamba_head_dim"),
        groups=positive_int(text, "n_groups", "mamba_n_groups"),
        state_size=positive_int(text, "ssm_state_size"),
        kernel=positive_int(text, "conv_kernel", "mamba_d_conv"),
        heads=heads,
        head=positive_int(text, "mamba_head_dim"),
        state_bytes=_state_bytes(text, "mamba_ssm_cache_dtype", 4),
    )
    return _mixed(text, kinds, "layers_block_type", state)


def granite_hybrid(text: Fields) -> Layers:
    kinds = names(text, "layer_types") or names(text, "layers_block_type")
    if kinds is None:
        refuse("a hybrid Granite model", "config.json has no layer_types")
    return _mixed(text, kinds, "layer_types", _mamba2_by_expansion(text))


def bamba(text: Fields) -> Layers:
    """attn_layer_indices have attention, all others a state."""
    attends = numbers(text, "attn_layer_indices") or ()
    kinds = ["attention" if layer in attends else "mamba" for layer in range(layer_count(text))]
    return _mixed(text, kinds, "attn_layer_indices", _mamba2_by_expansion(text))


def falcon_h1(text: Fields) -> Layers:
    """Attention and a state side by side on every layer."""
    heads, size = key_value_heads(text), head_size(text)
    layer: tuple[Cache, ...] = (_mamba2_by_expansion(text), AttentionCache(heads, size, size))
    return (layer,) * layer_count(text)


def jamba(text: Fields) -> Layers:
    """attn_layer_period and attn_layer_offset; Mamba-1 elsewhere."""
    period, offset = positive_int(text, "attn_layer_period"), text.get("attn_layer_offset") or 0
    kinds = ["attention" if layer % period == offset else "mamba" for layer in range(layer_count(text))]
    state = _mamba1(
        positive_int(text, "mamba_expand") * hidden_size(text),
        positive_int(text, "mamba_d_state"),
        positive_int(text, "mamba_d_conv"),
    )
    return _mixed(text, kinds, "attn_layer_period", state)


def lfm2(text: Fields) -> Layers:
    """Short convolutions, and attention on full_attn_idxs."""
    kinds = names(text, "layer_types")
    if kinds is None:
        attends = numbers(text, "full_attn_idxs")
        kinds = ["conv" if attends and layer not in attends else "attention" for layer in range(layer_count(text))]
    width = optional_int(text, "conv_dim") or hidden_size(text)
    state = StateCache("short_conv", width, positive_int(text, "conv_L_cache") - 1, keeps_drafts=False)
    return _mixed(text, kinds, "layer_types", state)


def mamba1(text: Fields) -> Layers:
    """Nothing but Mamba-1 states."""
    inner = optional_int(text, "intermediate_size", "d_inner")
    inner = inner or (optional_int(text, "expand") or 2) * hidden_size(text)
    state = _mamba1(
        inner, positive_int(text, "state_size", "d_state"), optional_int(text, "conv_kernel", "d_conv") or 4
    )
    return ((state,),) * layer_count(text)


def mamba2(text: Fields) -> Layers:
    """Nothing but Mamba-2 states."""
    heads = positive_int(text, "num_heads")
    state = _mamba2(
        text,
        inner=positive_int(text, "expand") * hidden_size(text),
        groups=positive_int(text, "n_groups"),
        state_size=positive_int(text, "state_size"),
        kernel=positive_int(text, "conv_kernel"),
        heads=heads,
        head=positive_int(text, "head_dim"),
        state_bytes=None,
    )
    return ((state,),) * layer_count(text)


def _mamba1(inner: int, state_size: int, kernel: int) -> StateCache:
    return StateCache("mamba1", inner, kernel - 1, heads=inner, head_elements=state_size, keeps_drafts=False)


def _mamba2_by_expansion(text: Fields) -> StateCache:
    """The names that Bamba, Falcon-H1 and Granite share."""
    inner = optional_int(text, "mamba_d_ssm") or positive_int(text, "mamba_expand") * hidden_size(text)
    heads = positive_int(text, "mamba_n_heads")
    head = text.get("mamba_d_head")
    return _mamba2(
        text,
        inner=inner,
        groups=positive_int(text, "mamba_n_groups"),
        state_size=positive_int(text, "mamba_d_state"),
        kernel=positive_int(text, "mamba_d_conv"),
        heads=heads,
        head=inner // heads if head in (None, "auto") else positive_int(text, "mamba_d_head"),
        state_bytes=None,
    )


def _mamba2(
    text: Fields,
    *,
    inner: int,
    groups: int,
    state_size: int,
    kernel: int,
    heads: int,
    head: int,
    state_bytes: int | None,
) -> StateCache:
    return StateCache(
        kind="mamba2",
        conv_width=inner,
        conv_length=kernel - 1,
        heads=heads,
        head_elements=head * state_size,
        groups=groups,
        group_width=2 * state_size,
        state_bytes=state_bytes,
    )


def _state_bytes(text: Fields, field: str, otherwise: int | None) -> int | None:
    """Bytes of an element of the recurrent state; None = as the model's dtype."""
    named = text.get(field)
    if named is None:
        return otherwise
    if not isinstance(named, str) or named not in _STATE_BYTES:
        raise ServingError(
            f"config.json's {field} {named} is not known",
            where=f"config.json#/{field}",
            why=f"known are {', '.join(_STATE_BYTES)}",
            remedy="Give the config.json of the checkpoint as it was published",
        )
    return _STATE_BYTES[named]


def _mixed(text: Fields, kinds: list[str], field: str, state: StateCache) -> Layers:
    """One cache per layer by its kind. Raises ServingError for a kind that is unknown."""
    layers = layer_count(text)
    one_per_layer(field, len(kinds), layers)
    attends = any(kind in _ATTENTION for kind in kinds)
    size = head_size(text) if attends else 0
    attention = AttentionCache(key_value_heads(text), size, size) if attends else None
    found: list[tuple[Cache, ...]] = []
    for kind in kinds[:layers]:
        if kind in _ATTENTION and attention is not None:
            found.append((attention,))
        elif kind in _LINEAR:
            found.append((state,))
        elif kind in _NOTHING:
            found.append(())
        else:
            refuse("a layer", f"{field} in config.json has {kind}, which is not known for this architecture")
    return tuple(found)
