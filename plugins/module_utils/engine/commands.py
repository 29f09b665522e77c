# Copyright (c) 2026, blackwell.serving contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE to the collection: may change in any release.
"""Commands of the service manager, run through the module's own runner and bounded in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Runner = Callable[[list[str]], tuple[int, str, str]]

TIMEOUT_S = 30


def bounded(run_command: Callable[..., Any]) -> Runner:
    """A runner from AnsibleModule.run_command: 30 s at most, C locale, any bytes decoded.

    journald keeps whatever a process wrote, so its output may hold bytes that are no UTF-8; a result must not.
    """

    def run(arguments: list[str]) -> tuple[int, str, str]:
        code, out, err = run_command(
            ["timeout", str(TIMEOUT_S), *arguments],
            errors="surrogate_then_replace",
            environ_update={"LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "SYSTEMD_URLIFY": "0"},
        )
        return code, out, err

    return run
