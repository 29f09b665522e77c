# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""The section of deployment.json that says how a changed engine answers beside the one that was first proven."""

from __future__ import annotations

from .schema_types import COUNT, NUMBER, STRING, STRINGS, TEXT, closed, described, section

_FIRST_DIFFERENCE = closed(
    {"prompt": STRING, "position": COUNT, "baseline": TEXT, "now": TEXT, "shift": NUMBER}, nullable=True
)
_COMPARISON = closed(
    {
        "verdict": {"enum": ["equal", "close", "different"]},
        "answers": COUNT,
        "equal_answers": described("The same token by token.", COUNT),
        "compared_tokens": COUNT,
        "mean_logprob_distance": described("In nats, over the tokens in common.", NUMBER),
        "max_logprob_distance": NUMBER,
        "max_shift": described("Largest move of a choice where two answers part, in nats.", NUMBER),
        "tokens_per_s": closed({"baseline": NUMBER, "now": NUMBER}),
        "speed_ratio": NUMBER,
        "first_difference": described("The answer that moved most.", _FIRST_DIFFERENCE),
        "exceeded": described("The limits that were exceeded, in words.", STRINGS),
    },
    nullable=True,
)

BASELINE = section(
    "replace",
    "The running engine's answers beside the baseline's.",
    closed(
        {
            "verdict": {"enum": ["new", "equal", "close", "different", "accepted"]},
            "reason": TEXT,
            "path": described("The file that holds the baseline's answers.", TEXT),
            "at": described("When the baseline was made.", TEXT),
            "checkpoint": TEXT,
            "engine": {"type": "object", "description": "What may change the running engine's numbers."},
            "baseline_engine": {"type": ["object", "null"], "description": "The same of the engine that gave it."},
            "invocation_id": described("The start of the engine that was compared, as systemd names it.", TEXT),
            "comparison": _COMPARISON,
        },
        required=["verdict", "engine"],
    ),
)
