# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Which architecture keeps what: vLLM's registry of models (0.32.0), each read as its model class builds its layers.

What is not here is refused by name. An MLA model read as GQA would be 28 times too large; a sliding window read as
full attention is wrong the other way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import attention, compressed, latent, states
from .caches import Layers
from .heads import Fields
from .names import ALIKE, COMPOSED, LANGUAGE_MODELS, LATENT, WINDOWED

Reader = Callable[[Fields], Layers]


@dataclass(frozen=True)
class Family:
    """name: as the result says it. read: from the language model's part of config.json to layers."""

    name: str
    read: Reader


_GQA = Family("gqa", attention.attention)
_SLIDING = Family("gqa+sliding", attention.attention)
_MLA = Family("mla", latent.latent)
_DSA = Family("mla+dsa", latent.sparse)
_GDN = Family("gqa+gdn", states.gdn)
_INDEXED = Family("gqa+indexer", latent.minimax_m3)
_LIGHTNING = Family("gqa+lightning", states.minimax_text)
_KDA = Family("mla+kda", latent.kda)

ARCHITECTURES: dict[str, Family] = {
    **dict.fromkeys(ALIKE, _GQA),
    **dict.fromkeys(WINDOWED, _SLIDING),
    **dict.fromkeys(LATENT, _MLA),
    "DeepseekV32ForCausalLM": _DSA,
    "GlmMoeDsaForCausalLM": _DSA,
    "DeepseekV4ForCausalLM": Family("mla+compressed", compressed.deepseek_v4),
    "LongcatFlashForCausalLM": Family("mla", latent.longcat),
    "KimiLinearForCausalLM": _KDA,
    "KimiK3ForConditionalGeneration": _KDA,
    "Gemma3nForCausalLM": Family("gqa+sliding", attention.gemma3n),
    "Gemma3nForConditionalGeneration": Family("gqa+sliding", attention.gemma3n),
    "Gemma4ForCausalLM": Family("gqa+sliding", attention.gemma4),
    "Gemma4ForConditionalGeneration": Family("gqa+sliding", attention.gemma4),
    "Gemma4UnifiedForConditionalGeneration": Family("gqa+sliding", attention.gemma4),
    "MiMoV2FlashForCausalLM": Family("gqa+sliding", attention.mimo_v2),
    "MiMoV2ForCausalLM": Family("gqa+sliding", attention.mimo_v2),
    "Step3p5ForCausalLM": Family("gqa+sliding", attention.step3p5),
    "Step3p7FlashForCausalLM": Family("gqa+sliding", attention.step3p5),
    "Step3p7ForConditionalGeneration": Family("gqa+sliding", attention.step3p5),
    "Llama4ForCausalLM": Family("gqa+chunked", attention.llama4),
    "Llama4ForConditionalGeneration": Family("gqa+chunked", attention.llama4),
    "DeciLMForCausalLM": Family("nas", attention.nas),
    "MiniCPM3ForCausalLM": Family("gqa", attention.minicpm3),
    "Step3TextForCausalLM": Family("gqa", attention.one_key_value_head),
    "Step3VLForConditionalGeneration": Family("gqa", attention.one_key_value_head),
    "MiniMaxM3ForCausalLM": _INDEXED,
    "MiniMaxM3SparseForCausalLM": _INDEXED,
    "MiniMaxM3SparseForConditionalGeneration": _INDEXED,
    "MiniMaxForCausalLM": _LIGHTNING,
    "MiniMaxM1ForCausalLM": _LIGHTNING,
    "MiniMaxText01ForCausalLM": _LIGHTNING,
    "BailingMoeV2_5ForCausalLM": Family("mla+lightning", latent.bailing_v25),
    "Exaone4_5_ForConditionalGeneration": _SLIDING,
    "OlmoHybridForCausalLM": _GDN,
    "Qwen3NextForCausalLM": _GDN,
    "Qwen3_5ForCausalLM": _GDN,
    "Qwen3_5ForConditionalGeneration": _GDN,
    "Qwen3_5MoeForCausalLM": _GDN,
    "Qwen3_5MoeForConditionalGeneration": _GDN,
    "NemotronHForCausalLM": Family("gqa+mamba2", states.nemotron_h),
    "GraniteMoeHybridForCausalLM": Family("gqa+mamba2", states.granite_hybrid),
    "BambaForCausalLM": Family("gqa+mamba2", states.bamba),
    "FalconH1ForCausalLM": Family("gqa+mamba2", states.falcon_h1),
    "NemotronHPuzzleForCausalLM": Family("gqa+mamba2", states.nemotron_h),
    "Zamba2ForCausalLM": Family("gqa+mamba2", states.zamba2),
    "JambaForCausalLM": Family("gqa+mamba1", states.jamba),
    "Lfm2ForCausalLM": Family("gqa+conv", states.lfm2),
    "Lfm2MoeForCausalLM": Family("gqa+conv", states.lfm2),
    "MambaForCausalLM": Family("state", states.mamba1),
    "FalconMambaForCausalLM": Family("state", states.mamba1),
    "Mamba2ForCausalLM": Family("state", states.mamba2),
    "WhisperForConditionalGeneration": Family("encoder-decoder", attention.whisper),
}


def language_model(architecture: str, text: Fields) -> str:
    """The architecture that decides the cache: of a composed model that of its language model, as text_config says."""
    if architecture not in COMPOSED:
        return architecture
    named = text.get("architectures")
    if isinstance(named, (list, tuple)) and named and isinstance(named[0], str) and named[0] != architecture:
        return named[0]
    return LANGUAGE_MODELS.get(str(text.get("model_type")), architecture)
