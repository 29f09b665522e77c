# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_action import ProgressAction
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_display import Line


class ActionModule(ProgressAction):
    def describe(self, progress: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Line | None:
        done, total = progress["done"], progress["total"]
        return Line(progress["state"], f"working {done}/{total}", 100 * done / total)

    def summary(self, result: Mapping[str, Any]) -> str | None:
        return f"the answer is {result['answer']}"
