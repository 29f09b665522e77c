# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def test_a_path_that_does_not_exist_is_measured_at_its_parent(run_module: Any, tmp_path: Path) -> None:
    here, missing = run_module("storage_info", {"paths": [str(tmp_path), f"{tmp_path}/a/b"]})["paths"]
    assert missing["existing_parent"] == here["existing_parent"] == str(tmp_path)
    assert (here["exists"], missing["exists"]) == (True, False)
    status = os.statvfs(tmp_path)
    assert here["total_bytes"] == status.f_frsize * status.f_blocks
    assert 0 < here["free_bytes"] <= here["total_bytes"]
    assert here["read_only"] is False
