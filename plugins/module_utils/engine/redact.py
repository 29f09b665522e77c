# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Secrets taken out of command lines, environments and log text before anyone sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

HIDDEN = "********"
SHOWN_PREFIXES = ("NCCL_", "VLLM_", "CUDA_")

# Whole names: --tokenizer, --max-num-batched-tokens or VLLM_MAX_TOKENS_PER_EXPERT... hold no secret.
_SECRET_FLAG = re.compile(r"^--(?:[\w-]*-)?(?:api-key|hf-token|auth-token|password|secret)$", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"(?:^|_)(?:KEY|TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_TEXT = (
    (
        re.compile(r"(['\"]?(?:api_key|hf_token)['\"]?\s*[:=]\s*)(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,}]+)"),
        r"\1" + HIDDEN,
    ),
    (re.compile(r"(--(?:api-key|hf-token)[= ])\S+"), r"\1" + HIDDEN),
    (re.compile(r"(\bBearer )\S+"), r"\1" + HIDDEN),
    (re.compile(r"\b(?:hf_|sk-)[A-Za-z0-9_-]{8,}"), HIDDEN),
)


def command(arguments: Sequence[str]) -> list[str]:
    """The argument vector with the values of secret flags hidden; `--flag=value` and `--flag v1 v2` alike."""
    shown: list[str] = []
    hiding = False
    for argument in arguments:
        flag, equals, _value = argument.partition("=")
        if argument.startswith("--"):
            hiding = bool(_SECRET_FLAG.match(flag.replace("_", "-"))) and not equals
            secret = bool(equals) and bool(_SECRET_FLAG.match(flag.replace("_", "-")))
            shown.append(f"{flag}={HIDDEN}" if secret else argument)
        else:
            shown.append(HIDDEN if hiding else text(argument))
    return shown


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The settings of the engine (NCCL_*, VLLM_*, CUDA_*), without those that hold a secret."""
    return {
        name: text(value)
        for name, value in sorted(variables.items())
        if name.startswith(SHOWN_PREFIXES) and not _SECRET_VARIABLE.search(name)
    }


def text(line: str) -> str:
    """Log text with keys and tokens hidden; vLLM prints its arguments, `api_key` included, at start."""
    for pattern, replacement in _SECRET_TEXT:
        line = pattern.sub(replacement, line)
    return line
