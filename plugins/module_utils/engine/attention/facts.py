# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""A question in the words of vLLM: the arguments that its selector and its layers pass on."""

from __future__ import annotations

from ..source.values import External, Value
from .question import Question


def selector_facts(question: Question, kv_cache_dtype: str) -> dict[str, Value]:
    """Every argument that a release's selector is known to pass on, by name."""
    model = question.model
    invariant = question.environment.get("VLLM_BATCH_INVARIANT", "0")
    return {
        "head_size": model.head_size,
        "dtype": External(f"torch.{model.engine_dtype}"),
        "kv_cache_dtype": kv_cache_dtype,
        "block_size": None,
        "use_mla": model.use_mla,
        "has_sink": model.has_sink,
        "use_sparse": model.use_sparse,
        "use_mm_prefix": False,
        "use_per_head_quant_scales": False,
        "device_capability": question.capability,
        "attn_type": "decoder",
        "has_sliding_window": model.has_sliding_window,
        "use_non_causal": False,
        "use_batch_invariant": invariant not in ("", "0"),
        "use_kv_connector": False,
        "use_pcp": False,
        "use_adaptive_verification": False,
        "use_dcp": question.decode_context_parallel_size > 1,
        "use_rswa": False,
        **({} if question.heads_per_rank is None else {"num_heads": question.heads_per_rank}),
    }


def layer_facts(question: Question) -> dict[str, Value]:
    """What a layer hands to its backend's implementation, as far as the question tells it."""
    facts: dict[str, Value] = dict.fromkeys(("alibi_slopes", "logits_soft_cap", "kv_sharing_target_layer_name"))
    if not question.model.has_sliding_window:
        facts["sliding_window"] = None
    if question.kv_heads_per_rank is not None:
        facts["num_kv_heads"] = question.kv_heads_per_rank
    return facts | mla_facts(question)


def mla_facts(question: Question) -> dict[str, Value]:
    """The sizes among them that only multi-head latent attention has."""
    text = question.model.text_config
    names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    facts: dict[str, Value] = {name: text[name] for name in names if name in text}
    nope, rope = facts.get("qk_nope_head_dim"), facts.get("qk_rope_head_dim")
    if isinstance(nope, int) and isinstance(rope, int):
        facts["qk_head_dim"] = nope + rope
    return facts
