# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller half of vllm_healthcheck: it runs in the background on the host, its progress is shown by check."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.blackwell.serving.plugins.plugin_utils.health_progress import describe, summary
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_action import ProgressAction
from ansible_collections.blackwell.serving.plugins.plugin_utils.progress_display import Line

LONGEST_S = 3600.0  # the module's default of max_timeout


class ActionModule(ProgressAction):
    _said: object = None
    _since = 0.0

    def describe(self, progress: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Line | None:
        """The file changes with each step only; how long a step takes is counted here, by this machine's clock."""
        said, now = progress.get("at"), time.monotonic()
        if said != self._said:
            self._said, self._since = said, now
        return describe(progress, now - self._since)

    def summary(self, result: Mapping[str, Any]) -> str | None:
        return summary(result)

    def limit_s(self, arguments: Mapping[str, Any]) -> float:
        try:
            return float(arguments.get("max_timeout") or LONGEST_S)
        except (TypeError, ValueError):  # the module names the mistake
            return LONGEST_S
