# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller half of hf_shard_download: the transfer runs in the background on the host, its progress is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.blackwell.serving.plugins.plugin_utils.download_progress import describe, summary
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_action import ProgressAction
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_display import Line


class ActionModule(ProgressAction):
    def describe(self, progress: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Line | None:
        return describe(progress, others)

    def summary(self, result: Mapping[str, Any]) -> str | None:
        return summary(result)

    def limit_s(self, arguments: Mapping[str, Any]) -> float:
        try:
            return float(arguments.get("timeout") or 0)
        except (TypeError, ValueError):  # the module names the mistake
            return 0
