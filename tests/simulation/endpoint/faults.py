# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults, as data: what was published, what the proxy does, and which checks must find it.

`case` names the public report, or a general kind of failure where there are many reports of it.
"""

from __future__ import annotations

from typing import Any

from . import fault_channels as channels
from . import fault_crowd as crowd
from . import fault_prompts as prompts
from . import fault_texts as texts
from . import fault_transport as transport
from .behaviour import Fault, Setting
from .proxy import Behaviour

_SHORT_S = 2.0


def _fault(name: str, case: str, does: str, finds: str, make: object, **limits: Any) -> Fault:
    assert callable(make)

    def build(setting: Setting) -> Behaviour:
        behaviour: Behaviour = make(setting)
        return behaviour

    return Fault(name, case, does, frozenset(finds.split()), build, **limits)


FAULTS: tuple[Fault, ...] = (
    # The server
    _fault(
        "hang", "vllm#36451", "no generation answers, /health says 200", "ready", transport.hangs, warmup_s=_SHORT_S
    ),
    _fault("503", "kserve#6259", "503 to every generation, /v1/models answers", "ready", transport.unavailable),
    _fault(
        "wrong model", "model-serving-minefield, trap 112", "another id in /v1/models", "ready", transport.wrong_model
    ),
    _fault(
        "shorter context",
        "model-serving-minefield, trap 112",
        "max_model_len less than asked",
        "ready",
        transport.shorter_context,
    ),
    _fault(
        "redirect",
        "a reverse proxy in between",
        "generation is redirected to another origin",
        "ready",
        transport.redirect,
    ),
    _fault("empty answers", "model-serving-minefield, trap 12", "tokens counted, nothing said", "ready", texts.empty),
    _fault("only special tokens", "vllm#42580", "whole budget, nothing rendered", "ready", texts.only_special_tokens),
    _fault(
        "slow first token",
        "vllm#39863",
        "right answers that begin late",
        "latency",
        transport.slow_first_token,
        sections={"latency": {"max_ttft_s": 0.8}},
    ),
    _fault(
        "error in stream",
        "an error after the status was sent",
        "an error object in a 200 stream",
        "channels",
        transport.error_in_stream,
    ),
    _fault(
        "cut stream",
        "an error after the status was sent",
        "a stream ends without [DONE]",
        "channels",
        transport.cut_stream,
    ),
    # NaN
    _fault(
        "exclamation marks",
        "vllm#42426",
        "token 0 from a random place on; logprobs fail",
        "logprobs exact_set count",
        texts.exclamation_marks,
    ),
    _fault("NaN when cold", "vllm#48898", "logprobs fail until memory was written", "logprobs", texts.nan_when_cold),
    _fault(
        "NaN after a long prompt",
        "vllm#42426",
        "NaN in logprobs after one long prompt",
        "logprobs_after",
        texts.nan_after_long,
    ),
    # Texts
    _fault("loops", "sglang#24321", "a fragment repeats from a random place on", "exact_set count", texts.loops),
    _fault("late loop", "MoonshotAI/Kimi-K2.5#47", "only long texts end in a loop", "degeneration", texts.late_loop),
    _fault("word salad", "guqiong96/Lsglang#9", "real words without meaning", "exact_set count", texts.word_salad),
    _fault("fluent but wrong", "vllm#48898", "a wrong digit in arithmetic", "exact_set", texts.fluent_but_wrong),
    _fault(
        "wrong after thinking",
        "TensorRT-LLM#16916",
        "right reasoning, wrong answer",
        "exact_set",
        texts.wrong_after_thinking,
    ),
    _fault(
        "miscounts",
        "model-serving-minefield, trap 52",
        "late numbers are left out or doubled",
        "count",
        texts.miscounts,
    ),
    # Prompts
    _fault(
        "garbage above N",
        "0xSero/deepseek-v4.1-flash-4x-rtx-pro-6000#1",
        "right up to N prompt tokens",
        "length_sweep",
        prompts.garbage_above,
    ),
    _fault("garbage in a band", "flashinfer#3398", "some prompt lengths only", "length_sweep", prompts.garbage_in_band),
    _fault(
        "garbage on cache hits",
        "vllm#40896",
        "a known prefix gives garbage",
        "prefix_cache",
        prompts.garbage_on_cache_hit,
    ),
    _fault("forgets turns", "ktransformers#1579", "earlier turns are not read", "multi_turn", prompts.forgets_turns),
    _fault(
        "forgets the middle",
        "ikawrakow/ik_llama.cpp#1298",
        "the middle of long prompts is not read",
        "needle",
        prompts.forgets_middle,
    ),
    # Batches
    _fault("cross-talk", "flashinfer#2708", "answers of one moment are swapped", "concurrency", crowd.cross_talk),
    _fault(
        "cross-talk in the tail",
        "flashinfer#2708",
        "an answer ends as another one",
        "concurrency",
        crowd.cross_talk_tail,
    ),
    # Channels
    _fault(
        "leaked special tokens", "vllm#28543", "a special token in the text", "channels", channels.leaked_special_tokens
    ),
    _fault("reasoning in content", "vllm#36207", "no reasoning parser", "channels", channels.reasoning_in_content),
    _fault(
        "reasoning in streamed content",
        "vllm#37397",
        "the same, streamed only",
        "channels",
        channels.reasoning_in_content_streamed,
    ),
    _fault(
        "truncated arguments",
        "K2-Vendor-Verifier, schema accuracy",
        "arguments of a call end anywhere",
        "tool_calls",
        channels.truncated_arguments,
    ),
    _fault("tool call as text", "vllm#38579", "no tool parser", "tool_calls", channels.tool_call_as_text),
)
