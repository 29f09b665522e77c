# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.blackwell.serving.plugins.module_utils.engine import systemd


@pytest.mark.parametrize(
    ("timestamp", "seconds"),
    [
        ("Sun 2026-11-29 17:17:10.250000 UTC", 1795972630.25),
        ("", None),
        ("n/a", None),
        ("Sun 2026-11-29 17:17:10 UTC", None),
    ],
)
def test_the_start_is_read_to_the_microsecond(timestamp: str, seconds: float | None) -> None:
    def run(_command: list[str]) -> tuple[int, str, str]:
        return 0, f"ActiveState=active\nExecMainStartTimestamp={timestamp}\n", ""

    assert systemd.show("kimi", run).started_at == seconds
