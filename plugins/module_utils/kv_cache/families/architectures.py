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

from . import attention, latent, states
from .caches import Layers
from .heads import Fields

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
_KDA = Family("mla+kda", latent.kda)

# Every layer holds keys and values of num_key_value_heads, for every token or within a window.
_ALIKE = [
    "AquilaForCausalLM",
    "ArceeForCausalLM",
    "ArcticForCausalLM",
    "AyaVisionForConditionalGeneration",
    "BaichuanForCausalLM",
    "BailingMoeForCausalLM",
    "BailingMoeV2ForCausalLM",
    "ChatGLMForConditionalGeneration",
    "ChatGLMModel",
    "CohereForCausalLM",
    "DbrxForCausalLM",
    "DeepseekForCausalLM",
    "Ernie4_5ForCausalLM",
    "Ernie4_5_MoeForCausalLM",
    "ExaoneForCausalLM",
    "FalconForCausalLM",
    "GemmaForCausalLM",
    "Glm4ForCausalLM",
    "Glm4MoeForCausalLM",
    "Glm4vForConditionalGeneration",
    "Glm4vMoeForConditionalGeneration",
    "GlmForCausalLM",
    "GraniteForCausalLM",
    "GraniteMoeForCausalLM",
    "GraniteMoeSharedForCausalLM",
    "InternLM2ForCausalLM",
    "InternLM3ForCausalLM",
    "InternLMForCausalLM",
    "InternS1ForConditionalGeneration",
    "InternVLChatModel",
    "InternVLForConditionalGeneration",
    "JAISLMHeadModel",
    "LLaMAForCausalLM",
    "LlamaForCausalLM",
    "LlavaForConditionalGeneration",
    "LlavaNextForConditionalGeneration",
    "LlavaOnevisionForConditionalGeneration",
    "MiMoForCausalLM",
    "MiniMaxM2ForCausalLM",
    "Ministral3ForCausalLM",
    "Mistral3ForConditionalGeneration",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "NemotronForCausalLM",
    "OLMoForCausalLM",
    "Olmo2ForCausalLM",
    "OlmoForCausalLM",
    "OlmoeForCausalLM",
    "OrionForCausalLM",
    "PersimmonForCausalLM",
    "Phi3ForCausalLM",
    "Phi3VForCausalLM",
    "PhiForCausalLM",
    "PhiMoEForCausalLM",
    "PixtralForConditionalGeneration",
    "Qwen2AudioForConditionalGeneration",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5OmniForConditionalGeneration",
    "Qwen2_5OmniModel",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3OmniMoeForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "SeedOssForCausalLM",
    "SmolLM3ForCausalLM",
    "SolarForCausalLM",
    "StableLmForCausalLM",
    "StarCoder2ForCausalLM",
    "Starcoder2ForCausalLM",
    "TeleChat2ForCausalLM",
    "TeleChat3ForCausalLM",
    "XverseForCausalLM",
]
# Some layers see a window only.
_WINDOWED = [
    "AfmoeForCausalLM",
    "ApertusForCausalLM",
    "Cohere2ForCausalLM",
    "Cohere2MoeForCausalLM",
    "Exaone4ForCausalLM",
    "ExaoneMoEForCausalLM",
    "ExaoneMoeForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "GptOssForCausalLM",
    "GraniteMoeSWAForCausalLM",
    "GraniteSWAForCausalLM",
    "Olmo3ForCausalLM",
]
_LATENT = [
    "AXK1ForCausalLM",
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "KimiK25ForConditionalGeneration",
    "KimiVLForConditionalGeneration",
    "PanguUltraMoEForCausalLM",
]

ARCHITECTURES: dict[str, Family] = {
    **dict.fromkeys(_ALIKE, _GQA),
    **dict.fromkeys(_WINDOWED, _SLIDING),
    **dict.fromkeys(_LATENT, _MLA),
    "DeepseekV32ForCausalLM": _DSA,
    "GlmMoeDsaForCausalLM": _DSA,
    "LongcatFlashForCausalLM": Family("mla", latent.longcat),
    "KimiLinearForCausalLM": _KDA,
    "KimiK3ForConditionalGeneration": _KDA,
    "Gemma3nForCausalLM": Family("gqa+sliding", attention.gemma3n),
    "Gemma3nForConditionalGeneration": Family("gqa+sliding", attention.gemma3n),
    "Gemma4ForCausalLM": Family("gqa+sliding", attention.gemma4),
    "Gemma4ForConditionalGeneration": Family("gqa+sliding", attention.gemma4),
    "MiMoV2FlashForCausalLM": Family("gqa+sliding", attention.mimo_v2),
    "MiMoV2ForCausalLM": Family("gqa+sliding", attention.mimo_v2),
    "Step3p5ForCausalLM": Family("gqa+sliding", attention.step3p5),
    "Step3p7FlashForCausalLM": Family("gqa+sliding", attention.step3p5),
    "Step3p7ForConditionalGeneration": Family("gqa+sliding", attention.step3p5),
    "Llama4ForCausalLM": Family("gqa+chunked", attention.llama4),
    "Llama4ForConditionalGeneration": Family("gqa+chunked", attention.llama4),
    "DeciLMForCausalLM": Family("nas", attention.nas),
    "Qwen3NextForCausalLM": _GDN,
    "Qwen3_5ForCausalLM": _GDN,
    "Qwen3_5ForConditionalGeneration": _GDN,
    "Qwen3_5MoeForCausalLM": _GDN,
    "Qwen3_5MoeForConditionalGeneration": _GDN,
    "NemotronHForCausalLM": Family("gqa+mamba2", states.nemotron_h),
    "GraniteMoeHybridForCausalLM": Family("gqa+mamba2", states.granite_hybrid),
    "BambaForCausalLM": Family("gqa+mamba2", states.bamba),
    "FalconH1ForCausalLM": Family("gqa+mamba2", states.falcon_h1),
    "JambaForCausalLM": Family("gqa+mamba1", states.jamba),
    "Lfm2ForCausalLM": Family("gqa+conv", states.lfm2),
    "Lfm2MoeForCausalLM": Family("gqa+conv", states.lfm2),
    "MambaForCausalLM": Family("state", states.mamba1),
    "FalconMambaForCausalLM": Family("state", states.mamba1),
    "Mamba2ForCausalLM": Family("state", states.mamba2),
    "WhisperForConditionalGeneration": Family("encoder-decoder", attention.whisper),
}
