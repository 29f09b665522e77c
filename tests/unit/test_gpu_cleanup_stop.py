# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the retired services the role gpu_cleanup stops and disables."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

VARIABLES = Path(__file__).resolve().parents[2] / "roles/gpu_cleanup/vars/main.yml"


@pytest.mark.parametrize(
    ("exists", "enabled", "active_state", "stopped"),
    [
        (True, True, "active", True),
        (True, True, "inactive", True),  # it would come back with the host
        (True, False, "active", True),
        (True, False, "activating", True),  # it waits for its next automatic restart
        (True, False, "inactive", False),
        (True, False, "failed", False),
        (False, False, "inactive", False),
    ],
)
def test_what_runs_or_would_come_back_is_stopped(exists: bool, enabled: bool, active_state: str, stopped: bool) -> None:
    retired = {"item": "old.service", "exists": exists, "enabled": enabled, "active_state": active_state}
    names = DataLoader().load_from_file(str(VARIABLES), trusted_as_template=True)
    templar = Templar(loader=DataLoader(), variables={"gpu_cleanup_retired": [retired]})
    assert templar.template(names["__gpu_cleanup_to_stop"]) == ([retired] if stopped else [])
