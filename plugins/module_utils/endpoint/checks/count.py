# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""count: 1 to 50 in order, in instant mode; its speed is a speed with a proof."""

from __future__ import annotations

from .. import counting
from ..check import FAIL, PASS, Check, Context, shown


def run(context: Context) -> Check:
    """value = whether the row is complete and in order; adds metrics.count_tokens_per_s when it is."""
    messages = [{"role": "user", "content": counting.PROMPT}]
    answer = context.ask("count", messages, max_tokens=counting.MAX_TOKENS)[-1]
    right = counting.is_right(answer.content)
    if right and answer.completion_tokens and answer.seconds > 0:
        context.metrics["count_tokens_per_s"] = round(answer.completion_tokens / answer.seconds, 2)
    return Check("count", PASS if right else FAIL, right, True, [shown(answer)])
